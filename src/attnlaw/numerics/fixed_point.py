"""Fixed point of a map of a few unknowns by a safeguarded quasi-Newton method, jittable."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

LARGEST_STEP = 1.5
LOST = 3.0
PATIENCE, ENOUGH = 5, 0.25
MOST_FAILURES = 9
SMOOTH_PROBE, FINE_PROBE, COARSE_PROBE = 1e-5, 5e-3, 3e-2
SECOND_PROBE = 5
SHORT_RUN, LONG_RUN = 12, 30


class FixedPoint(NamedTuple):
    """Point reached, residual |G(x) − x|_∞ there, evaluations used, and what G told beside.

    `jacobian` is the derivative of G(x) − x, measured or built from the steps taken.
    """

    point: Any
    residual: Any
    iterations: Any
    detail: Any
    jacobian: Any


class _State(NamedTuple):
    """`point` is where G is asked next; `last` the point that its step starts from.

    `column` is the column of the Jacobian that is being measured, counted from one, or zero;
    `plain` the number of plain iterations still to be made.
    """

    point: Any
    last: Any
    last_move: Any
    best: Any
    best_move: Any
    best_residual: Any
    best_jumps: Any
    best_detail: Any
    jacobian: Any
    measured: Any
    column: Any
    goal: Any
    stale: Any
    failures: Any
    plain: Any
    count: Any
    ending: Any
    stop: Any


def fixed_point(
    function: Callable[[Any], tuple[Any, Any, Any]],
    start: Any,
    jacobian: Any | None = None,
    *,
    tolerance: float,
    max_evaluations: Any,
    measure_jacobian: Any = False,
) -> FixedPoint:
    """Fixed point of G from `start`: Broyden steps, with a measured Jacobian where they fail.

    `function` maps x to G(x), the size of G's jumps near x (zero where it is continuous) and a
    pytree of details, which is kept for the best point. The first Jacobian of f(x) = G(x) − x is
    `jacobian`, or −I, whose step is the plain iteration.

    A residual above three times the best one, or five steps that do not bring it to a quarter, is
    a failure. At the first the Jacobian is measured by differences at the best point; at the
    second and the fourth 12 and 30 plain iterations are made from there and the Jacobian measured
    again, which helps where the unknowns are bound to a narrow valley that plain iterations keep
    to; at the third the step from the best point is cut to a quarter; the fifth measures over a
    longer difference, more cuts follow, and the ninth gives up. A residual below the jumps of G is
    as good as any after the first failure.

    Args:
        function: G, of an array of n numbers.
        start: first point.
        jacobian: (n, n), of f.
        tolerance: largest component of f to accept.
        max_evaluations: bound on the evaluations of G in the search; with 0 nothing is done.
        measure_jacobian: measure the Jacobian at the point reached, by n more evaluations.
    """
    size = start.shape[0]
    unit = jnp.eye(size)

    def advance(state: _State) -> _State:
        image, jumps, detail = function(state.point)
        move = image - state.point
        norm = jnp.max(jnp.abs(move))
        norm = jnp.where(jnp.isfinite(norm), norm, jnp.inf)
        searching = state.column == 0
        better = searching & (norm < state.best_residual)
        reached = searching & (norm <= state.goal)
        plain = state.plain > 0
        stale = jnp.where(reached | plain | ~searching, 0, state.stale + 1)
        lost = ~(norm <= LOST * state.best_residual)
        failed = searching & (lost | (stale >= PATIENCE))
        failures = jnp.where(reached, 0, state.failures + failed)
        best = jnp.where(better, state.point, state.best)
        best_move = jnp.where(better, move, state.best_move)
        best_residual = jnp.where(better, norm, state.best_residual)
        best_jumps = jnp.where(better, jumps, state.best_jumps)

        probe = jnp.where(failures >= SECOND_PROBE, COARSE_PROBE, FINE_PROBE)
        probe = jnp.where(best_jumps > 0, probe, SMOOTH_PROBE)
        place = state.column - 1
        measured = jnp.where(
            searching, state.measured, state.measured.at[:, place].set((move - best_move) / probe)
        )
        complete = state.column == size
        secant = _broyden(state.jacobian, state.point - state.last, move - state.last_move)
        trusted = searching & (state.count > 0) & (norm <= 10 * state.best_residual)
        own = jnp.where(complete, measured, jnp.where(trusted, secant, state.jacobian))

        over = (best_residual <= tolerance) | (failures >= MOST_FAILURES)
        over = over | ((failures > 0) & (best_residual <= best_jumps))
        over = over | (state.count + 1 >= max_evaluations)
        ending = state.ending | (searching & over)
        length = jnp.where(failures == 2, SHORT_RUN, jnp.where(failures == 4, LONG_RUN, 0))
        runs = jnp.where(failed, length, jnp.maximum(state.plain - 1, 0))
        begin = failed & ((failures == 1) | (failures == SECOND_PROBE))
        begin = begin | (plain & (runs == 0)) | (measure_jacobian & ending)
        begin = searching & begin
        column = jnp.where(begin, 1, jnp.where(searching | complete, 0, state.column + 1))
        back = failed | ~searching | begin
        last = jnp.where(back, best, state.point)
        last_move = jnp.where(back, best_move, move)
        own = jnp.where(runs > 0, -unit, own)
        cuts = jnp.where(failures > SECOND_PROBE, failures - SECOND_PROBE, failures == 3)
        step = _newton_step(own, last_move) * 0.25**cuts
        probing = best + probe * unit[column - 1]
        return _State(
            jnp.where(column > 0, probing, last + step),
            last,
            last_move,
            best,
            best_move,
            best_residual,
            best_jumps,
            jax.tree.map(lambda new, old: jnp.where(better, new, old), detail, state.best_detail),
            own,
            measured,
            column,
            jnp.where(reached, ENOUGH * norm, state.goal),
            jnp.where(failed, 0, stale),
            failures,
            runs,
            state.count + 1,
            ending,
            ending & (complete | ~jnp.asarray(measure_jacobian)),
        )

    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, start)[2]
    )
    zero, own = jnp.zeros(size), -unit if jacobian is None else jacobian
    first = _State(
        start, start, zero, start, zero, jnp.inf, 0.0, blank, own, own, 0, jnp.inf, 0, 0, 0, 0,
        False, jnp.asarray(max_evaluations) <= 0,
    )  # fmt: skip
    last = jax.lax.while_loop(lambda state: ~state.stop, advance, first)
    return FixedPoint(last.best, last.best_residual, last.count, last.best_detail, last.jacobian)


def _broyden(jacobian: Any, step: Any, change: Any) -> Any:
    """Rank-one update with J·step = change."""
    missing = change - jacobian @ step
    return jacobian + jnp.outer(missing, step) / (step @ step + 1e-300)


def _newton_step(jacobian: Any, move: Any) -> Any:
    """−J⁻¹f, cut to the largest step; the plain step where J is singular."""
    step = -solve_small(jacobian, move)
    step = jnp.where(jnp.all(jnp.isfinite(step)), step, move)
    return step * jnp.minimum(1.0, LARGEST_STEP / (jnp.max(jnp.abs(step)) + 1e-300))


def solve_small(matrix: Any, rhs: Any) -> Any:
    """M⁻¹ b by Gauss–Jordan elimination with row exchanges; cheap to compile for a few unknowns."""
    size = matrix.shape[0]

    def eliminate(column: Any, table: Any) -> Any:
        weight = jnp.where(jnp.arange(size) >= column, jnp.abs(table[:, column]), -1.0)
        pivot = jnp.argmax(weight)
        table = table.at[jnp.array([column, pivot])].set(table[jnp.array([pivot, column])])
        row = table[column] / table[column, column]
        return (table - jnp.outer(table[:, column], row)).at[column].set(row)

    table = jnp.concatenate([matrix, rhs[:, None]], axis=1)
    return jax.lax.fori_loop(0, size, eliminate, table)[:, size]
