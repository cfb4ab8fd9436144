"""Fixed point of a map of a few unknowns by a safeguarded quasi-Newton method, jittable."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

LARGEST_STEP = 1.5
LOST, WILD = 3.0, 10.0
PATIENCE, ENOUGH = 5, 0.25
MOST_FAILURES = 9
SMOOTH_PROBE, FINE_PROBE, COARSE_PROBE = 1e-5, 5e-3, 3e-2
PROBE_OVER_ROOT, LONGEST_PROBE = 6.0, 0.2
STEP_OVER_ROOT, BLUR = 3.0, 0.05
SECOND_PROBE = 5
SMOOTH, ROUGH = 1e-7, 3e-4
WITHIN = 1.9
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
    tolerance: Any,
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
    longer difference, more cuts follow, and the ninth gives up. A residual below 1.9 times the
    jumps of G is as good as any after the first failure, and at once where the jumps are large.

    Noise of many small jumps grows like the root of a step, what f does by itself like the step: in
    place of differences and secants over less than about the root of G's jumps, which would tell
    the noise, longer differences are made, and such secants left unused. Where the jumps are large,
    steps go along directions in which f changes little only after every other failure: their
    slopes may be noise, but f may also have to be brought down there.

    Args:
        function: G, of an array of n numbers.
        start: first point.
        jacobian: (n, n), of f.
        tolerance: largest component of f to accept.
        max_evaluations: bound on the evaluations of G in the search; with 0 nothing is done.
        measure_jacobian: measure the Jacobian at the point reached, by n more evaluations.
    """
    size = start.shape[0]
    limits = _Limits(tolerance, max_evaluations, jnp.asarray(measure_jacobian))

    def advance(state: _State) -> _State:
        image, jumps, detail = function(state.point)
        move = image - state.point
        seen = _judged(state, move)
        return _planned(_recorded(state, move, jumps, detail, seen), move, seen, limits)

    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, start)[2]
    )
    zero, own = jnp.zeros(size), -jnp.eye(size) if jacobian is None else jacobian
    first = _State(
        point=start, last=start, last_move=zero,
        best=start, best_move=zero, best_residual=jnp.inf, best_jumps=0.0, best_detail=blank,
        jacobian=own, measured=own, column=0,
        goal=jnp.inf, stale=0, failures=0, plain=0, count=0,
        ending=False, stop=jnp.asarray(max_evaluations) <= 0,
    )  # fmt: skip
    last = jax.lax.while_loop(lambda state: ~state.stop, advance, first)
    return FixedPoint(last.best, last.best_residual, last.count, last.best_detail, last.jacobian)


class _Limits(NamedTuple):
    tolerance: Any
    evaluations: Any
    measure: Any


class _Seen(NamedTuple):
    """What an evaluation means for the search; one for a column of the Jacobian means nothing."""

    searching: Any
    better: Any
    reached: Any
    failed: Any
    trusted: Any


def _judged(state: _State, move: Any) -> _Seen:
    norm = _size(move)
    searching = state.column == 0
    reached = searching & (norm <= state.goal)
    lost = ~(norm <= LOST * state.best_residual)
    tired = (state.stale + 1 >= PATIENCE) & ~reached & (state.plain == 0)
    across = _size(state.point - state.last) >= STEP_OVER_ROOT * jnp.sqrt(state.best_jumps)
    return _Seen(
        searching=searching,
        better=searching & (norm < state.best_residual),
        reached=reached,
        failed=searching & (lost | tired),
        trusted=searching & across & (state.count > 0) & (norm <= WILD * state.best_residual),
    )


def _recorded(state: _State, move: Any, jumps: Any, detail: Any, seen: _Seen) -> _State:
    """The state with the best point, the counters and the Jacobian brought up to date."""

    def if_better(new: Any, old: Any) -> Any:
        return jnp.where(seen.better, new, old)

    idle = seen.reached | seen.failed | ~seen.searching | (state.plain > 0)
    measured = state.measured.at[:, state.column - 1].set((move - state.best_move) / _probe(state))
    measured = jnp.where(seen.searching, state.measured, measured)
    secant = _broyden(state.jacobian, state.point - state.last, move - state.last_move)
    complete = state.column == move.shape[0]
    updated = jnp.where(seen.trusted, secant, state.jacobian)
    return state._replace(
        best=if_better(state.point, state.best),
        best_move=if_better(move, state.best_move),
        best_residual=if_better(_size(move), state.best_residual),
        best_jumps=if_better(jumps, state.best_jumps),
        best_detail=jax.tree.map(if_better, detail, state.best_detail),
        jacobian=jnp.where(complete, measured, updated),
        measured=measured,
        goal=jnp.where(seen.reached, ENOUGH * _size(move), state.goal),
        stale=jnp.where(idle, 0, state.stale + 1),
        failures=jnp.where(seen.reached, 0, state.failures + seen.failed),
        count=state.count + 1,
    )


def _planned(state: _State, move: Any, seen: _Seen, limits: _Limits) -> _State:
    """The state with the next point to ask G at."""
    size, failures = move.shape[0], state.failures
    complete = state.column == size
    over = (state.best_residual <= limits.tolerance) | (failures >= MOST_FAILURES)
    drowned = (failures > 0) | (state.best_jumps > ROUGH)
    over = over | (drowned & (state.best_residual <= WITHIN * state.best_jumps))
    over = over | (state.count >= limits.evaluations)
    ending = state.ending | (seen.searching & over)

    run = jnp.where(failures == 2, SHORT_RUN, jnp.where(failures == 4, LONG_RUN, 0))
    plain = jnp.where(seen.failed, run, jnp.maximum(state.plain - 1, 0))
    begin = seen.failed & ((failures == 1) | (failures == SECOND_PROBE))
    begin = begin | ((state.plain > 0) & (plain == 0)) | (limits.measure & ending)
    begin = begin & seen.searching
    column = jnp.where(begin, 1, jnp.where(seen.searching | complete, 0, state.column + 1))

    from_best = seen.failed | ~seen.searching | begin
    last = jnp.where(from_best, state.best, state.point)
    last_move = jnp.where(from_best, state.best_move, move)
    jacobian = jnp.where(plain > 0, -jnp.eye(size), state.jacobian)
    cuts = jnp.where(failures > SECOND_PROBE, failures - SECOND_PROBE, failures == 3)
    blur = jnp.where((state.best_jumps > ROUGH) & (failures % 2 == 0), BLUR, 0.0)
    stepped = last + _newton_step(jacobian, last_move, blur) * 0.25**cuts
    probing = state.best + _probe(state) * jnp.eye(size)[column - 1]
    return state._replace(
        point=jnp.where(column > 0, probing, stepped),
        last=last,
        last_move=last_move,
        jacobian=jacobian,
        column=column,
        plain=plain,
        ending=ending,
        stop=ending & (complete | ~limits.measure),
    )


def _probe(state: _State) -> Any:
    """Length of the differences by which the Jacobian is measured; longer where G jumps."""
    least = jnp.where(state.failures >= SECOND_PROBE, COARSE_PROBE, FINE_PROBE)
    across = jnp.clip(PROBE_OVER_ROOT * jnp.sqrt(state.best_jumps), least, LONGEST_PROBE)
    return jnp.where(state.best_jumps > SMOOTH, across, SMOOTH_PROBE)


def _size(move: Any) -> Any:
    norm = jnp.max(jnp.abs(move))
    return jnp.where(jnp.isfinite(norm), norm, jnp.inf)


def _broyden(jacobian: Any, step: Any, change: Any) -> Any:
    """Rank-one update with J·step = change."""
    missing = change - jacobian @ step
    return jacobian + jnp.outer(missing, step) / (step @ step + 1e-300)


def _newton_step(jacobian: Any, move: Any, blur: Any) -> Any:
    """−(JᵀJ + b²)⁻¹Jᵀf, cut to the largest step; the plain step where that is singular.

    With a blur b a direction in which f changes by less than b a unit is hardly stepped along;
    without any the step is Newton's.
    """
    matrix = jnp.where(blur > 0, jacobian.T @ jacobian + blur**2 * jnp.eye(move.size), jacobian)
    step = -solve_small(matrix, jnp.where(blur > 0, jacobian.T @ move, move))
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
