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
from attnlaw.channels.scores import ScoreLaw
from attnlaw.coordinates import to_coordinates
from attnlaw.denoisers import EigenThreshold, MatrixSide
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

FLOOR = 1e-14
DIFFERENCE = 1e-4


class Step(NamedTuple):
    """One application of the map, with everything computed on the way.

    `image` holds the coordinates of (q, m, Σ) after it, `scrambles` the channel's averages one by
    one, `channel` their mean; `matrix` is the matrix side at the conjugates, then, among the
    details, with each of their logarithms shifted by `DIFFERENCE`. `jump` is the largest change of
    the image when one Gaussian point passes to its other proximal point: the sampled map is
    discontinuous where the proximal step has two minima of equal height, and its residual cannot
    be brought below half such a jump.
    """

    image: Any
    conjugates: Conjugates
    channel: ChannelAverages
    scrambles: ChannelAverages
    matrix: MatrixSide
    jump: Any

    @property
    def side(self) -> MatrixSide:
        """The matrix side at the conjugates themselves."""
        own: MatrixSide = jax.tree.map(lambda leaf: leaf[0], self.matrix)
        return own


@jax.jit
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
    law = ScoreLaw.of(overlaps, problem.target_power, problem.noise)
    scrambles, jump = channel_averages(
        problem.attention, problem.loss, law, overlaps.sigma, points, used
    )
    channel = jax.tree.map(lambda row: jnp.sum(row) / used.scrambles, scrambles)
    hats = _hats(problem, channel.gradient_square, channel.divergence, channel.alignment)
    moved = _hats(
        problem,
        channel.gradient_square + jump.gradient_square,
        channel.divergence + jump.divergence,
        channel.alignment + jump.alignment,
    )
    shifted = jnp.stack(hats) * jnp.exp(DIFFERENCE * jnp.eye(3))
    rows = Conjugates(*jnp.vstack([jnp.stack([jnp.stack(hats), jnp.stack(moved)]), shifted]).T)
    count = jnp.where(used.details, 5, jnp.where(jump.size > 0, 2, 1))
    sides = _matrix_sides(problem, rows, count)
    images = to_coordinates(problem, _floored(problem, sides.overlaps)).T
    return Step(
        images[0],
        hats,
        channel,
        scrambles,
        jax.tree.map(lambda leaf: leaf[jnp.array([0, 2, 3, 4])], sides),
        jnp.where(jump.size > 0, jnp.max(jnp.abs(images[1] - images[0])), 0.0),
    )


def _matrix_sides(problem: Problem, conjugates: Conjugates, count: Any) -> MatrixSide:
    """The matrix side for the first `count` rows of conjugates, zeros for the others."""

    def side(index: Any) -> MatrixSide:
        own = jax.tree.map(lambda leaf: leaf[index], conjugates)
        found: MatrixSide = _matrix_side(problem.target, own, problem.weight_decay_scaled)
        return found

    def fill(index: Any, sides: MatrixSide) -> MatrixSide:
        return jax.tree.map(lambda row, new: row.at[index].set(new), sides, side(index))

    rows = conjugates.q_hat.shape[0]
    blank = jax.tree.map(
        lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), jax.eval_shape(side, 0)
    )
    filled: MatrixSide = jax.lax.fori_loop(0, count, fill, blank)
    return filled


@jax.jit
def _matrix_side(target: Any, conjugates: Conjugates, weight_decay_scaled: Any) -> MatrixSide:
    return EigenThreshold().matrix_side(target, conjugates, weight_decay_scaled)


def free_energy(problem: Problem, overlaps: Overlaps, step: Step) -> Any:
    """Φ(q, m, Σ, q̂, m̂, Σ̂) of (4.2), with the conjugates and 𝓜 of `step`."""
    q, m, sigma, _ = overlaps
    q_hat, m_hat, sigma_hat = step.conjugates
    coupling = (q_hat * sigma + 2 * m_hat * m - sigma_hat * q) / 4
    return coupling + problem.sample_ratio * step.channel.moreau - step.side.free_energy


def test_errors(problem: Problem, overlaps: Overlaps, points: Any) -> tuple[Any, Any]:
    """Test errors with noisy and with noiseless labels over points (2, K_eff, N); (4.4)."""
    attention, power = problem.attention, problem.target_power
    noisy, clean = (ScoreLaw.of(overlaps, power, noise) for noise in (problem.noise, 0.0))
    return attention_error(attention, noisy, points), attention_error(attention, clean, points)


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
    return overlaps._replace(
        q=jnp.maximum(overlaps.q, least), sigma=jnp.maximum(overlaps.sigma, FLOOR)
    )
