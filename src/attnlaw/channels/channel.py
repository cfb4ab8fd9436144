"""The output side: Gaussian averages of the proximal step (theory §3)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.prox import Prox, derivatives, prox, solve_symmetric
from attnlaw.records import Conjugates, Overlaps


class ChannelAverages(NamedTuple):
    """Averages over (z0, ω) at given order parameters.

    moreau = 𝓜(Σ, m, q), loss = E ℓ(h*), gradient_square = E|g|², divergence = D_ω and
    alignment = D_0 of (3.3), stein_divergence = D_ω by Stein's lemma alone (the exact derivative
    of the sampled 𝓜), two_minima the fraction of points where the two starts of the
    proximal step end at different minima, settled whether every step converged.
    """

    moreau: Any
    loss: Any
    gradient_square: Any
    divergence: Any
    alignment: Any
    stein_divergence: Any
    two_minima: Any
    settled: Any

    def conjugates(self, sample_ratio: Any) -> Conjugates:
        """q̂ = 2α E|g|², m̂ = 2α D_0, Σ̂ = −2α D_ω; (3.2)–(3.3)."""
        return Conjugates(
            2 * sample_ratio * self.gradient_square,
            2 * sample_ratio * self.alignment,
            -2 * sample_ratio * self.divergence,
        )


def correlated_scores(overlaps: Overlaps, target_variance: Any, points: Any) -> tuple[Any, Any]:
    """(z0, ω) of (1.6) from standard normal points (2, K, N)."""
    spread = jnp.sqrt(target_variance)
    slope = overlaps.m / spread
    return spread * points[0], slope * points[0] + _free_part(overlaps, target_variance) * points[1]


def channel_averages(
    attention: Any, loss: Any, overlaps: Overlaps, target_variance: Any, points: Any
) -> ChannelAverages:
    """Averages of the channel at (q, m, Σ) over standard normal points (2, K_eff, N).

    D_ω is the mean derivative of g where the proximal step is certainly continuous (Σβ² small),
    and by Stein's lemma (3.3), which counts jumps too, beyond; the two have the same mean, the
    first less noise, and the passage between them is smooth. D_0 follows by Stein's lemma.
    """
    z0, omega = correlated_scores(overlaps, target_variance, points)
    labels = attention.labels(attention.scores(z0))

    def sequence_loss(y: Any) -> Any:
        return loss(labels, attention.weights(attention.scores(y)))

    sigma = overlaps.sigma
    steepness = sigma * attention.beta**2
    ratio = attention.target_beta / attention.beta
    starts = jnp.stack([omega, ratio * z0])
    smooth = _smooth_share(steepness)
    best, two_minima = _lowest_prox(sequence_loss, omega, sigma, starts, smooth == 1)
    g = jnp.where(steepness > 1, (best.point - omega) / sigma, -best.gradient)
    spread, free = jnp.sqrt(target_variance), _free_part(overlaps, target_variance)
    along_target, along_free = _projections(g, points)
    derivative = _mean_derivative(best, sigma, smooth)
    stein = along_free / free
    divergence = smooth * derivative + (1 - smooth) * stein
    square = jnp.sum(g**2, axis=0)
    return ChannelAverages(
        moreau=jnp.mean(best.value),
        loss=jnp.mean(best.value - sigma * square / 2),
        gradient_square=jnp.mean(square),
        divergence=divergence,
        alignment=(along_target - overlaps.m / spread * divergence) / spread,
        stein_divergence=stein,
        two_minima=jnp.mean(two_minima),
        settled=jnp.all(best.settled),
    )


def attention_error(attention: Any, overlaps: Overlaps, target_variance: Any, points: Any) -> Any:
    """E Σ_ab (Y(z0) − A(ω))²_ab at (q, m); (4.4)."""
    z0, omega = correlated_scores(overlaps, target_variance, points)
    labels = attention.labels(attention.scores(z0))
    weights = attention.weights(attention.scores(omega))
    return jnp.mean(jnp.sum((labels - weights) ** 2, axis=(0, 1)))


def _projections(g: Any, points: Any) -> tuple[Any, Any]:
    """(E g·ζ0, E g·ζ1)."""
    raw = jnp.mean(jnp.einsum("kn,akn->an", g, points), axis=-1)
    return raw[0], raw[1]


def _smooth_share(steepness: Any) -> Any:
    """1 where Σβ² ≤ 0.7, 0 from 1 on (the proximal step can jump above 1.04 at T = 2)."""
    x = jnp.clip((1.0 - steepness) / 0.3, 0.0, 1.0)
    return x * x * (3 - 2 * x)


def _mean_derivative(best: Prox, sigma: Any, share: Any) -> Any:
    """E tr ∂g/∂ω = −E tr[H (I + ΣH)⁻¹], H = ∇²ℓ at the proximal point; zero where not wanted."""
    count, size = best.point.shape
    units = jnp.broadcast_to(jnp.eye(count)[:, :, None], (count, count, size))

    def mean() -> Any:
        inverse, _ = solve_symmetric(best.hessian, units, 0.0)
        return jnp.mean(jnp.trace(inverse)) / sigma**2 - count / sigma

    return jax.lax.cond(share > 0, mean, lambda: jnp.zeros(()))


def _free_part(overlaps: Overlaps, target_variance: Any) -> Any:
    return jnp.sqrt(overlaps.q - overlaps.m**2 / target_variance)


def _lowest_prox(loss: Any, omega: Any, sigma: Any, starts: Any, single: Any) -> tuple[Prox, Any]:
    """The lower of the minima reached from the rows of `starts`, and where they differ.

    Where the proximal step has a single minimum, the first start is enough.
    """

    def compared(index: Any, so_far: tuple[Prox, Any]) -> tuple[Prox, Any]:
        return jax.lax.cond(single & (index > 0), lambda: so_far, lambda: _kept(index, so_far))

    def _kept(index: Any, so_far: tuple[Prox, Any]) -> tuple[Prox, Any]:
        best, differ = so_far
        found = prox(loss, omega, sigma, starts[index])
        scale = jnp.abs(best.value) + jnp.abs(found.value)
        apart = (index > 0) & (jnp.abs(best.value - found.value) > 1e-8 * scale)
        lower = found.value < best.value
        chosen = jax.tree.map(lambda new, old: jnp.where(lower, new, old), found, best)
        return chosen, differ | apart

    shape = jax.eval_shape(lambda: prox(loss, omega, sigma, starts[0]))
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
    blank = blank._replace(value=jnp.full(shape.value.shape, jnp.inf))
    nowhere = jnp.zeros(shape.value.shape, dtype=bool)
    return jax.lax.fori_loop(0, starts.shape[0], compared, (blank, nowhere))


def zero_map_averages(
    attention: Any, loss: Any, target_variance: Any, points: Any
) -> ChannelAverages:
    """Averages at S = 0: h = ω = 0, Σ → 0, g = −∇ℓ(0), ∂g/∂ω = −∇²ℓ(0); (5.3).

    Args:
        attention, loss: the channel.
        target_variance: Q0 + Δ/2.
        points: standard normal points (K_eff, N) of the target scores.
    """
    z0 = jnp.sqrt(target_variance) * points
    labels = attention.labels(attention.scores(z0))
    value, slope, hessian = derivatives(
        lambda y: loss(labels, attention.weights(attention.scores(y))), jnp.zeros_like(z0)
    )
    mean_loss = jnp.mean(value)
    divergence = -jnp.mean(jnp.trace(hessian))
    return ChannelAverages(
        moreau=mean_loss,
        loss=mean_loss,
        gradient_square=jnp.mean(jnp.sum(slope**2, axis=0)),
        divergence=divergence,
        alignment=-jnp.mean(jnp.sum(slope * z0, axis=0)) / target_variance,
        stein_divergence=divergence,
        two_minima=jnp.zeros(()),
        settled=jnp.ones((), dtype=bool),
    )
