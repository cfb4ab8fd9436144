"""One state-evolution map and the observables, shared by every theory module (theory §4)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.channel import ChannelAverages, attention_error, channel_averages
from attnlaw.denoisers import EigenThreshold, MatrixSide
from attnlaw.numerics.gaussian import mean_over_chunks
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

FLOOR = 1e-14


class Step(NamedTuple):
    """One application of the map, with everything computed on the way.

    `jumped` is what it would give if one Gaussian point passed to its other proximal point.
    """

    overlaps: Overlaps
    conjugates: Conjugates
    channel: ChannelAverages
    matrix: MatrixSide
    jumped: Overlaps


class Observables(NamedTuple):
    """Predictions at given order parameters; see `attnlaw explain` for each."""

    train_loss: Any
    train_error: Any
    test_error: Any
    test_error_clean: Any
    mse: Any
    trace: Any
    rank_ratio: Any


def state_evolution(
    problem: Problem, overlaps: Overlaps, chunks: Any, used: Any | None = None
) -> Step:
    """(q, m, Σ) → (q̂, m̂, Σ̂) by (3.2)–(3.3) → (q, m, Σ) by (4.1), over standard normal points.

    q and Σ are kept above a tiny floor, so that the collapsed solution S = 0 is the fixed point
    at the floor instead of a logarithm of zero.

    Args:
        problem: the problem.
        overlaps: q, m, Σ.
        chunks: points in chunks (chunks, 2, K_eff, B).
        used: number of chunks to average over, all of them when not given.
    """
    channel = channel_averages(
        problem.attention, problem.loss, overlaps, problem.score_variance, chunks, used
    )
    conjugates = _kept_positive(channel.conjugates(problem.sample_ratio))
    matrix, jumped = _matrix_sides(problem, conjugates, channel)
    return Step(_floored(problem, matrix.overlaps), conjugates, channel, matrix, jumped)


def _matrix_sides(
    problem: Problem, conjugates: Conjugates, channel: ChannelAverages
) -> tuple[MatrixSide, Overlaps]:
    """The matrix side, and the overlaps that it gives after the largest single-point jump."""
    jump = channel.conjugate_jump(problem.sample_ratio)
    moved = _kept_positive(Conjugates(*(h + j for h, j in zip(conjugates, jump, strict=True))))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), conjugates, moved)

    def side(index: Any) -> MatrixSide:
        own = jax.tree.map(lambda leaf: leaf[index], both)
        return EigenThreshold().matrix_side(problem.target, own, problem.weight_decay_scaled)

    def fill(index: Any, sides: MatrixSide) -> MatrixSide:
        return jax.tree.map(lambda row, new: row.at[index].set(new), sides, side(index))

    shape = jax.eval_shape(side, 0)
    blank = jax.tree.map(lambda leaf: jnp.zeros((2, *leaf.shape), leaf.dtype), shape)
    jumps = channel.two_minima > 0
    sides = jax.lax.fori_loop(0, jnp.where(jumps, 2, 1), fill, blank)
    here = jax.tree.map(lambda leaf: leaf[0], sides)
    there = jax.tree.map(lambda leaf: jnp.where(jumps, leaf[1], leaf[0]), sides.overlaps)
    return here, _floored(problem, there)


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


def observables(
    problem: Problem, overlaps: Overlaps, step: Step, chunks: Any, used: Any
) -> Observables:
    """Losses, errors and rank at the solution; (4.2)–(4.4).

    The test errors are averages over the first `used` chunks of points.
    """
    power = problem.target_power

    def errors(points: Any) -> tuple[Any, Any]:
        return test_errors(problem, overlaps, points)

    noisy, clean = mean_over_chunks(errors, chunks, used)
    return Observables(
        train_loss=free_energy(problem, overlaps, step),
        train_error=step.channel.loss,
        test_error=noisy,
        test_error_clean=clean,
        mse=power - 2 * overlaps.m + overlaps.q,
        trace=step.matrix.trace,
        rank_ratio=step.matrix.rank_ratio,
    )


def test_errors(problem: Problem, overlaps: Overlaps, points: Any) -> tuple[Any, Any]:
    """Test errors with noisy and with noiseless labels over points (2, K_eff, N); (4.4)."""
    attention = problem.attention
    noisy = attention_error(attention, overlaps, problem.score_variance, points)
    return noisy, attention_error(attention, overlaps, problem.target_power, points)


def to_coordinates(problem: Problem, overlaps: Overlaps) -> Any:
    """(log q, atanh ρ, log Σ) with ρ = m/√(q Q0): unbounded, of order one over decades of λ."""
    rho = overlaps.m / jnp.sqrt(overlaps.q * problem.target_power)
    limit = 1 - 1e-15
    rho = jnp.clip(rho, -limit, limit)
    return jnp.stack([jnp.log(overlaps.q), jnp.arctanh(rho), jnp.log(overlaps.sigma)])


def from_coordinates(problem: Problem, coordinates: Any) -> Overlaps:
    """Inverse of `to_coordinates`."""
    q, sigma = jnp.exp(coordinates[0]), jnp.exp(coordinates[2])
    rho = jnp.tanh(coordinates[1])
    return Overlaps(q, rho * jnp.sqrt(q * problem.target_power), sigma)


def is_collapsed(problem: Problem, overlaps: Overlaps) -> Any:
    """Whether q sits at the floor: S = 0."""
    return overlaps.q <= 10 * FLOOR * problem.target_power


def _kept_positive(conjugates: Conjugates) -> Conjugates:
    """Conjugates with m̂ and Σ̂ held above zero, where sampling noise could push them on the way."""
    q_hat = jnp.maximum(conjugates.q_hat, 1e-200)
    least = 1e-6 * jnp.sqrt(q_hat)
    return Conjugates(
        q_hat, jnp.maximum(conjugates.m_hat, least), jnp.maximum(conjugates.sigma_hat, 1e-100)
    )


def _floored(problem: Problem, overlaps: Overlaps) -> Overlaps:
    least = FLOOR * problem.target_power
    return Overlaps(jnp.maximum(overlaps.q, least), overlaps.m, jnp.maximum(overlaps.sigma, FLOOR))
