"""One state-evolution map and the observables, shared by every theory module (theory §4)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.channel import (
    ChannelAverages,
    Used,
    attention_error,
    channel_averages,
    conjugates,
)
from attnlaw.denoisers import EigenThreshold, MatrixSide
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

FLOOR = 1e-14
SHORT_OF_ONE = 1 - 1e-10


class Step(NamedTuple):
    """One application of the map, with everything computed on the way.

    `scrambles` holds the channel's averages one by one, `channel` their mean. `jumped` is what the
    map would give if one Gaussian point passed to its other proximal point.
    """

    overlaps: Overlaps
    conjugates: Conjugates
    channel: ChannelAverages
    scrambles: ChannelAverages
    matrix: MatrixSide
    jumped: Overlaps


def state_evolution(
    problem: Problem, overlaps: Overlaps, points: Any, used: Used | None = None
) -> Step:
    """(q, m, Σ) → (q̂, m̂, Σ̂) by (3.2)–(3.3) → (q, m, Σ) by (4.1), over standard normal points.

    q and Σ are kept above a tiny floor, so that the collapsed solution S = 0 is the fixed point
    at the floor instead of a logarithm of zero.

    Args:
        problem: the problem.
        overlaps: q, m, Σ.
        points: (scrambles, chunks, 2, K_eff, B).
        used: how many scrambles and chunks to average over, all when not given.
    """
    used = Used.all_of(points) if used is None else used
    scrambles, jump = channel_averages(
        problem.attention, problem.loss, overlaps, problem.score_variance, points, used
    )
    channel = jax.tree.map(lambda row: jnp.sum(row) / used.scrambles, scrambles)
    hats = _hats(problem, channel.gradient_square, channel.divergence, channel.alignment)
    moved = _hats(
        problem,
        channel.gradient_square + jump.gradient_square,
        channel.divergence + jump.divergence,
        channel.alignment + jump.alignment,
    )
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), hats, moved)
    sides = matrix_sides(problem, both, jnp.where(jump.size > 0, 2, 1))
    matrix = jax.tree.map(lambda leaf: leaf[0], sides)
    jumped = jax.tree.map(lambda leaf: jnp.where(jump.size > 0, leaf[1], leaf[0]), sides.overlaps)
    return Step(
        _floored(problem, matrix.overlaps),
        hats,
        channel,
        scrambles,
        matrix,
        _floored(problem, jumped),
    )


def matrix_sides(problem: Problem, conjugates: Conjugates, count: Any) -> MatrixSide:
    """The matrix side for the first `count` rows of conjugates, zeros for the others."""

    def side(index: Any) -> MatrixSide:
        own = jax.tree.map(lambda leaf: leaf[index], conjugates)
        return EigenThreshold().matrix_side(problem.target, own, problem.weight_decay_scaled)

    def fill(index: Any, sides: MatrixSide) -> MatrixSide:
        return jax.tree.map(lambda row, new: row.at[index].set(new), sides, side(index))

    rows = conjugates.q_hat.shape[0]
    blank = jax.tree.map(
        lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), jax.eval_shape(side, 0)
    )
    filled: MatrixSide = jax.lax.fori_loop(0, count, fill, blank)
    return filled


def largest_jump(problem: Problem, step: Step) -> Any:
    """Largest change of the map's coordinates when one point passes to its other minimum.

    The sampled map is discontinuous where the proximal step has two minima of equal height; its
    residual cannot be brought below half such a jump.
    """
    jumped = to_coordinates(problem, step.jumped)
    return jnp.max(jnp.abs(jumped - to_coordinates(problem, step.overlaps)))


def free_energy(problem: Problem, overlaps: Overlaps, step: Step) -> Any:
    """Φ(q, m, Σ, q̂, m̂, Σ̂) of (4.2), with the conjugates and 𝓜 of `step`."""
    q, m, sigma = overlaps
    q_hat, m_hat, sigma_hat = step.conjugates
    coupling = (q_hat * sigma + 2 * m_hat * m - sigma_hat * q) / 4
    return coupling + problem.sample_ratio * step.channel.moreau - step.matrix.free_energy


def test_errors(problem: Problem, overlaps: Overlaps, points: Any) -> tuple[Any, Any]:
    """Test errors with noisy and with noiseless labels over points (2, K_eff, N); (4.4)."""
    attention = problem.attention
    noisy = attention_error(attention, overlaps, problem.score_variance, points)
    return noisy, attention_error(attention, overlaps, problem.target_power, points)


def to_coordinates(problem: Problem, overlaps: Overlaps) -> Any:
    """(log q, atanh ρ, log Σ), ρ = (1 − 10⁻¹⁰) m/√(q Q0): of order one over decades of λ.

    The factor keeps atanh ρ below 12.2, where rounding of q and m would drown it.
    """
    rho = SHORT_OF_ONE * overlaps.m / jnp.sqrt(overlaps.q * problem.target_power)
    rho = jnp.clip(rho, -SHORT_OF_ONE, SHORT_OF_ONE)
    return jnp.stack([jnp.log(overlaps.q), jnp.arctanh(rho), jnp.log(overlaps.sigma)])


def from_coordinates(problem: Problem, coordinates: Any) -> Overlaps:
    """Inverse of `to_coordinates`."""
    q, sigma = jnp.exp(coordinates[0]), jnp.exp(coordinates[2])
    rho = jnp.clip(jnp.tanh(coordinates[1]) / SHORT_OF_ONE, -1.0, 1.0)
    return Overlaps(q, rho * jnp.sqrt(q * problem.target_power), sigma)


def is_collapsed(problem: Problem, overlaps: Overlaps) -> Any:
    """Whether q sits at the floor: S = 0."""
    return overlaps.q <= 10 * FLOOR * problem.target_power


def _hats(problem: Problem, square: Any, divergence: Any, alignment: Any) -> Conjugates:
    """Conjugates with m̂ and Σ̂ held above zero, where sampling noise could push them on the way."""
    own = conjugates(square, divergence, alignment, problem.sample_ratio)
    q_hat = jnp.maximum(own.q_hat, 1e-200)
    least = 1e-6 * jnp.sqrt(q_hat)
    return Conjugates(q_hat, jnp.maximum(own.m_hat, least), jnp.maximum(own.sigma_hat, 1e-100))


def _floored(problem: Problem, overlaps: Overlaps) -> Overlaps:
    least = FLOOR * problem.target_power
    return Overlaps(jnp.maximum(overlaps.q, least), overlaps.m, jnp.maximum(overlaps.sigma, FLOOR))
