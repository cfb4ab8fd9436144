"""Anderson acceleration of a fixed-point map of a few unknowns, jittable."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class FixedPoint(NamedTuple):
    """Point reached, residual |G(x) − x|_∞ there, evaluations used, and what G told beside."""

    point: Any
    residual: Any
    iterations: Any
    detail: Any


class _State(NamedTuple):
    point: Any
    best: Any
    best_move: Any
    best_residual: Any
    best_detail: Any
    points: Any
    moves: Any
    count: Any
    age: Any
    damping: Any


def anderson(
    function: Callable[[Any], tuple[Any, Any]],
    start: Any,
    *,
    tolerance: float,
    max_evaluations: int,
    depth: int = 3,
    largest_step: float = 1.5,
) -> FixedPoint:
    """Fixed point of G from `start`, by Anderson mixing with safeguards.

    `function` maps x to G(x) and a pytree of details, which is kept for the best point.

    The step is f − (ΔX + ΔF)γ with f = G(x) − x and γ the least-squares solution of ΔF γ = f, cut
    to `largest_step` in every coordinate. When the residual exceeds three times the best seen, or
    is not finite, the history is dropped and a plain step is taken from the best point, half as
    long each time in a row that this happens.
    """

    def keep_going(state: _State) -> Any:
        return (state.count < max_evaluations) & (state.best_residual > tolerance)

    def advance(state: _State) -> _State:
        image, detail = function(state.point)
        move = image - state.point
        norm = jnp.max(jnp.abs(move))
        lost = ~(norm <= 3 * state.best_residual)
        better = norm < state.best_residual
        age = jnp.where(lost, 0, state.age)
        points = jnp.roll(state.points, 1, axis=0).at[0].set(state.point)
        moves = jnp.roll(state.moves, 1, axis=0).at[0].set(move)
        best = jnp.where(better, state.point, state.best)
        best_move = jnp.where(better, move, state.best_move)
        damping = jnp.where(lost, state.damping / 2, jnp.where(better, 1.0, state.damping))
        step = jnp.where(lost, damping * best_move, _mixed_step(points, moves, age, depth))
        step = step * jnp.minimum(1.0, largest_step / (jnp.max(jnp.abs(step)) + 1e-300))
        return _State(
            jnp.where(lost, best, state.point) + step,
            best,
            best_move,
            jnp.where(better, norm, state.best_residual),
            jax.tree.map(lambda new, old: jnp.where(better, new, old), detail, state.best_detail),
            points,
            moves,
            state.count + 1,
            jnp.where(lost, 0, jnp.minimum(age + 1, depth)),
            damping,
        )

    size = start.shape[0]
    history = jnp.zeros((depth + 1, size))
    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, start)[1]
    )
    first = _State(start, start, jnp.zeros(size), jnp.inf, blank, history, history, 0, 0, 1.0)
    last = jax.lax.while_loop(keep_going, advance, first)
    return FixedPoint(last.best, last.best_residual, last.count, last.best_detail)


def _mixed_step(points: Any, moves: Any, age: Any, depth: int) -> Any:
    """Anderson's step; columns older than `age` are left out of the fit."""
    used = (jnp.arange(depth) < age)[:, None]
    shifts = jnp.where(used, points[0] - points[1:], 0.0)
    changes = jnp.where(used, moves[0] - moves[1:], 0.0)
    gram = changes @ changes.T
    ridge = 1e-12 * jnp.trace(gram) + 1e-300
    gamma = jnp.linalg.solve(gram + ridge * jnp.eye(depth), changes @ moves[0])
    return moves[0] - gamma @ (shifts + changes)
