"""Proximal step of a loss in score coordinates, for many points at once.

Arrays are laid out (coordinates, points): every operation runs along the points, and the small
linear systems are eliminated coordinate by coordinate. Points are worked on in blocks that fit in
cache; a point that needs more steps than its block waits and joins a later block.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.curvature import Derivatives

MOST_IN_BLOCK, HESSIANS_IN_BLOCK = 512, 10_000
EVALUATIONS_IN_BLOCK = 7
MOST_ROUNDS = 400
STEP_TOLERANCE = 1e-8

# of the data of a block and its coordinates (K, block)
Objective = Callable[[Any, Any], Derivatives]


class Minima(NamedTuple):
    """Where the steps from each start ended: points (S, K, N), values (S, N), settled (S, N).

    The values are those before the last step, which is too short to matter for comparing them.
    """

    points: Any
    values: Any
    settled: Any


class _Walk(NamedTuple):
    point: Any
    here: Derivatives
    step: Any
    radius: Any
    done: Any
    count: Any


def prox_minima(objective: Objective, data: Any, starts: Any, wanted: Any, reach: Any) -> Minima:
    """Local minima of a function of each point's data, by trust-region Newton steps.

    Args:
        objective: from the data of some points and their coordinates (K, M), the derivatives of
            what is to be minimised, column by column.
        data: arrays with the points along the last axis.
        starts: first points, (S, K, N).
        wanted: which starts to follow, (S, N); the others keep their value at infinity.
        reach: length on which the objective changes its shape; bounds the first step.
    """
    sets, coordinates, size = starts.shape
    total = sets * size
    block = min(MOST_IN_BLOCK, size, max(HESSIANS_IN_BLOCK // coordinates**2, 1))

    class Progress(NamedTuple):
        points: Any
        values: Any
        radius: Any
        active: Any
        rounds: Any

    def keep_going(state: Progress) -> Any:
        return jnp.any(state.active) & (state.rounds < MOST_ROUNDS)

    def advance(state: Progress) -> Progress:
        index = _first_true(state.active, block)
        own = jax.tree.map(lambda leaf: jnp.take(leaf, index % size, axis=-1), data)
        walk = _walk(
            lambda y: objective(own, y),
            jnp.take(state.points, index, axis=1, mode="clip"),
            jnp.take(state.radius, index, mode="clip"),
            reach,
            index >= total,
        )
        return Progress(
            state.points.at[:, index].set(walk.point, mode="drop"),
            state.values.at[index].set(walk.here.value, mode="drop"),
            state.radius.at[index].set(walk.radius, mode="drop"),
            state.active.at[index].set(~walk.done, mode="drop"),
            state.rounds + 1,
        )

    first = Progress(
        jnp.moveaxis(starts, 1, 0).reshape(coordinates, total),
        jnp.full(total, jnp.inf),
        jnp.full(total, reach),
        jnp.broadcast_to(wanted, (sets, size)).reshape(total),
        0,
    )
    last = jax.lax.while_loop(keep_going, advance, first)
    return Minima(
        jnp.moveaxis(last.points.reshape(coordinates, sets, size), 0, 1),
        last.values.reshape(sets, size),
        ~last.active.reshape(sets, size),
    )


def _first_true(flags: Any, count: Any) -> Any:
    """Places of the first `count` true flags, and the number of flags where there are no more."""
    place = jnp.cumsum(flags) - 1
    kept = jnp.where(flags, place, count)
    blank = jnp.full(count, flags.size)
    return blank.at[kept].set(jnp.arange(flags.size), mode="drop")


def _walk(function: Any, start: Any, radius: Any, reach: Any, done: Any) -> _Walk:
    """A few trust-region Newton steps of one block; the first evaluation is at the start."""

    def aimed(point: Any, here: Derivatives, radius: Any, done: Any) -> tuple[Any, Any, Any]:
        """Next step, the points (moved where that step is the last), and which are finished."""
        newton, definite = modified_newton_step(here.hessian, here.gradient)
        length = jnp.sqrt(jnp.sum(newton**2, axis=0))
        step = newton * jnp.minimum(1.0, radius / (length + 1e-300))
        tiny = STEP_TOLERANCE * reach + 1e-15 * jnp.sqrt(jnp.sum(point**2, axis=0))
        arrived = ~done & definite & (length <= jnp.minimum(tiny, radius))
        at_rounding = radius <= tiny
        return step, jnp.where(arrived, point + step, point), done | arrived | at_rounding

    def keep_going(walk: _Walk) -> Any:
        return jnp.any(~walk.done) & (walk.count < EVALUATIONS_IN_BLOCK)

    def advance(walk: _Walk) -> _Walk:
        trial = walk.point + walk.step
        there = function(trial)
        slack = 1e-13 * jnp.abs(there.value) + 1e-300
        accepted = ~walk.done & (there.value <= walk.here.value + slack)
        length = jnp.sqrt(jnp.sum(walk.step**2, axis=0))
        cut = length >= 0.99 * walk.radius
        wider = jnp.where(cut, 2 * walk.radius, walk.radius)
        radius = jnp.where(accepted, wider, jnp.where(walk.done, walk.radius, length / 4))
        point = jnp.where(accepted, trial, walk.point)
        here = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), there, walk.here)
        step, point, done = aimed(point, here, radius, walk.done)
        return _Walk(point, here, step, radius, done, walk.count + 1)

    count, size = start.shape
    unknown = Derivatives(
        jnp.full(size, jnp.inf), jnp.zeros((count, size)), jnp.zeros((count, count, size))
    )
    first = _Walk(start, unknown, jnp.zeros_like(start), radius, done, 0)
    return jax.lax.while_loop(keep_going, advance, first)


def modified_newton_step(hessian: Any, gradient: Any) -> tuple[Any, Any]:
    """−M⁻¹∇ with M = L|D|Lᵀ of the Hessian's LDLᵀ, and where the Hessian was positive definite."""
    solution, definite = solve_symmetric(hessian, -gradient[:, None], absolute=True)
    return solution[:, 0], definite


def solve_symmetric(matrix: Any, rhs: Any, *, absolute: bool = False) -> tuple[Any, Any]:
    """Solve M x = rhs column by column, and say where M > 0.

    Elimination in symmetric order, without exchanges: the pivots are positive exactly where the
    matrix is positive definite. Elsewhere the solution is not to be used, unless `absolute` makes
    every pivot positive.

    Args:
        matrix: (K, K, N).
        rhs: right-hand sides (K, M, N).
        absolute: take |pivot|, so that the matrix solved with is positive definite.
    """
    rest, below = matrix, rhs
    rows, tops, pivots = [], [], []
    definite: Any = True
    for index in range(matrix.shape[0]):
        pivot = rest[0, 0]
        scale = jnp.abs(matrix[index, index])
        positive = pivot > 1e-14 * scale
        definite = definite & positive
        fallback = jnp.maximum(jnp.abs(pivot), 1e-8 * scale + 1e-300) if absolute else 1.0
        pivot = jnp.where(positive, pivot, fallback)
        row = rest[0, 1:] / pivot
        rows.append(row)
        tops.append(below[0])
        pivots.append(pivot)
        rest, below = (
            rest[1:, 1:] - rest[1:, :1] * row[None],
            below[1:] - row[:, None] * below[0][None],
        )
    solution = tops[-1][None] / pivots[-1]
    for row, top, pivot in zip(rows[-2::-1], tops[-2::-1], pivots[-2::-1], strict=True):
        first = top / pivot - jnp.sum(row[:, None] * solution, axis=0)
        solution = jnp.concatenate([first[None], solution])
    return solution, definite
