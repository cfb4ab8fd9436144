"""One state-evolution map and the observables, shared by every theory module (theory §4)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from attnlaw.channels.channel import ChannelAverages, attention_error, channel_averages
from attnlaw.denoisers import EigenThreshold, MatrixSide
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

FLOOR = 1e-14


class Step(NamedTuple):
    """One application of the map, with everything computed on the way."""

    overlaps: Overlaps
    conjugates: Conjugates
    channel: ChannelAverages
    matrix: MatrixSide


class Observables(NamedTuple):
    """Predictions at given order parameters; see `attnlaw explain` for each."""

    train_loss: Any
    train_error: Any
    test_error: Any
    test_error_clean: Any
    mse: Any
    trace: Any
    rank_ratio: Any


def state_evolution(problem: Problem, overlaps: Overlaps, points: Any) -> Step:
    """(q, m, Σ) → (q̂, m̂, Σ̂) by (3.2)–(3.3) → (q, m, Σ) by (4.1), over standard normal points.

    q and Σ are kept above a tiny floor, so that the collapsed solution S = 0 is the fixed point
    at the floor instead of a logarithm of zero.
    """
    channel = channel_averages(
        problem.attention, problem.loss, overlaps, problem.score_variance, points
    )
    conjugates = _kept_positive(channel.conjugates(problem.sample_ratio))
    matrix = EigenThreshold().matrix_side(problem.target, conjugates, problem.weight_decay_scaled)
    return Step(_floored(problem, matrix.overlaps), conjugates, channel, matrix)


def free_energy(problem: Problem, overlaps: Overlaps, step: Step) -> Any:
    """Φ(q, m, Σ, q̂, m̂, Σ̂) of (4.2), with the conjugates and 𝓜 of `step`."""
    q, m, sigma = overlaps
    q_hat, m_hat, sigma_hat = step.conjugates
    coupling = (q_hat * sigma + 2 * m_hat * m - sigma_hat * q) / 4
    return coupling + problem.sample_ratio * step.channel.moreau - step.matrix.free_energy


def observables(problem: Problem, overlaps: Overlaps, step: Step, points: Any) -> Observables:
    """Losses, errors and rank at the solution; (4.2)–(4.4)."""
    attention, power = problem.attention, problem.target_power
    return Observables(
        train_loss=free_energy(problem, overlaps, step),
        train_error=step.channel.loss,
        test_error=attention_error(attention, overlaps, problem.score_variance, points),
        test_error_clean=attention_error(attention, overlaps, power, points),
        mse=power - 2 * overlaps.m + overlaps.q,
        trace=step.matrix.trace,
        rank_ratio=step.matrix.rank_ratio,
    )


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
