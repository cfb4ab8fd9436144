"""The training objective and its gradient, chunk by chunk (theory (1.4))."""

from typing import Any

import jax
import jax.numpy as jnp

from attnlaw.problem import Problem
from attnlaw.training.data import Chunk, pair_scores


@jax.jit
def value_and_gradient(factor: Any, chunks: Chunk, problem: Problem) -> tuple[Any, Any]:
    """L(W) = Σ_μ ℓ(Y_μ, A_μ) + λ‖W‖²_F and ∂L/∂W for W (d, p).

    Each chunk costs two matrix products, X W and Xᵀ V with V_a = Σ_b (G_ab + G_ba) (XW)_b and
    G = ∂ℓ/∂h; the rest works on what is still in cache.
    """

    def add(total: tuple[Any, Any], chunk: Chunk) -> tuple[tuple[Any, Any], None]:
        loss, gradient = _chunk_terms(factor, chunk, problem)
        return (total[0] + loss, total[1] + gradient), None

    start = (jnp.zeros(()), jnp.zeros_like(factor))
    (loss, gradient), _ = jax.lax.scan(add, start, chunks)
    decay = problem.penalty.weight_decay
    return loss + decay * jnp.sum(factor**2), gradient + 2 * decay * factor


def _chunk_terms(factor: Any, chunk: Chunk, problem: Problem) -> tuple[Any, Any]:
    count, size, dim = chunk.tokens.shape
    width = factor.shape[1]
    norm = 1.0 / (width**0.5 * dim)
    flat = chunk.tokens.reshape(-1, dim)
    projected = (flat @ factor).reshape(count, size, width)
    scores = norm * pair_scores(projected, projected, jnp.sum(factor**2))

    def total_loss(h: Any) -> Any:
        return jnp.sum(chunk.weight * problem.loss(chunk.labels, problem.attention.weights(h)))

    loss, by_score = jax.value_and_grad(total_loss)(scores)
    symmetric = norm * (by_score + jnp.swapaxes(by_score, 0, 1))
    pulled = jnp.stack(
        [sum(symmetric[a, b][:, None] * projected[b] for b in range(count)) for a in range(count)]
    )
    centring = norm * jnp.sum(jnp.trace(by_score))
    return loss, flat.T @ pulled.reshape(-1, width) - 2 * centring * factor


@jax.jit
def mean_train_error(factor: Any, chunks: Chunk, problem: Problem) -> Any:
    """Mean loss of a training sequence, without the penalty."""
    value, _ = value_and_gradient(factor, chunks, problem)
    penalty = problem.penalty.weight_decay * jnp.sum(factor**2)
    return (value - penalty) / jnp.sum(chunks.weight)
