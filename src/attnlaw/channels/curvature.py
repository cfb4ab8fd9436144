"""Value, gradient and Hessian of a sequence's loss in the reduced score coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Derivatives(NamedTuple):
    """Value (N), gradient (K, N) and Hessian (K, K, N) at N points."""

    value: Any
    gradient: Any
    hessian: Any


def loss_derivatives(attention: Any, loss: Any, labels: Any, y: Any) -> Derivatives:
    """ℓ(Y, A(y)) = Σ_ab φ(Y_ab, A_ab), its gradient and Hessian in the coordinates y.

    With A the softmax of a row of logits t, f = φ′(A), G_b = A_b (f_b − Σ_c A_c f_c) the gradient,
    w_b = G_b + A_b² φ″_b and s = Σ_b A_b² φ″_b, the Hessian of the row is
    δ_bc w_b − A_b w_c − w_b A_c + s A_b A_c.

    Args:
        attention: gives the basis of the scores, the weights and β.
        loss: `loss.entry(labels, weights)` is φ, entry by entry.
        labels: Y, (T, T, N).
        y: coordinates, (K_eff, N).
    """
    basis, beta = attention.score_basis, attention.beta
    weights = attention.weights(attention.scores(y))
    entry, first, second = _entry_derivatives(loss, labels, weights)
    gradient = weights * (first - jnp.sum(weights * first, axis=1, keepdims=True))
    square = weights**2 * second
    diagonal = gradient + square
    along = jnp.einsum("abk,abn->akn", basis, weights)
    across = jnp.einsum("abk,abn->akn", basis, diagonal)
    half = across - jnp.sum(square, axis=1)[:, None] / 2 * along
    count = basis.shape[2]
    outer = (basis[:, :, :, None] * basis[:, :, None, :]).reshape(-1, count * count)
    hessian = (outer.T @ diagonal.reshape(-1, diagonal.shape[2])).reshape(count, count, -1)
    for row in range(basis.shape[0]):
        mixed = along[row][:, None] * half[row][None]
        hessian = hessian - mixed - jnp.swapaxes(mixed, 0, 1)
    return Derivatives(
        jnp.sum(entry, axis=(0, 1)),
        beta * jnp.einsum("abk,abn->kn", basis, gradient),
        beta**2 * hessian,
    )


def _entry_derivatives(loss: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """φ, φ′ and φ″ in the weight, entry by entry."""
    ones = jnp.ones_like(weights)

    def first(at: Any) -> tuple[Any, Any]:
        return jax.jvp(lambda a: loss.entry(labels, a), (at,), (ones,))

    (value, slope), (_, curvature) = jax.jvp(first, (weights,), (ones,))
    return value, slope, curvature
