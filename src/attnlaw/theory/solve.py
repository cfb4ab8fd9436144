"""`solve`: the state-evolution fixed point of a problem, with an error bar."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.channels.channel import attention_error
from attnlaw.equations import (
    Observables,
    Step,
    from_coordinates,
    is_collapsed,
    observables,
    state_evolution,
    to_coordinates,
)
from attnlaw.numerics.checks import require_positive
from attnlaw.numerics.fixed_point import anderson
from attnlaw.numerics.gaussian import normal_points
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps, Progress, ProgressCallback, silent
from attnlaw.theory.collapse import Collapse, compiled_collapse
from attnlaw.theory.solution import ConvergenceError, Solution

FloatArray = NDArray[np.float64]

SCRAMBLES = 8
# t-quantile of 7 degrees of freedom over the Gaussian one, at the coverage of ± 2.
SMALL_SAMPLE = 1.2166
POINT_COUNTS = (2**12, 2**14, 2**16)
TEST_FACTOR = 4
RESIDUAL_TOLERANCE = 1e-6
INNER_TOLERANCE = 1e-9
MAX_EVALUATIONS = 120


class _Solved(NamedTuple):
    """Answers of the compiled solver, one row a scramble."""

    coordinates: Any
    residual: Any
    iterations: Any
    overlaps: Overlaps
    conjugates: Conjugates
    observed: Observables
    two_minima: Any


@in_float64
def solve(
    problem: Problem,
    *,
    accuracy: float = 1e-3,
    seed: int = 0,
    start: Overlaps | None = None,
    throw: bool = True,
    progress: ProgressCallback = silent,
) -> Solution:
    """Solve the state-evolution equations of a problem; theory §4, (3.1)–(4.4).

    Half of the scrambles start near the target, half near zero; if they meet different fixed
    points, the one of lowest Φ is continued. S = 0 is compared too where it is stable.

    Args:
        problem: the problem; λ > 0.
        accuracy: wanted relative standard error of test_error.
        seed: seed of the scrambles; the same seed gives the same numbers.
        start: order parameters to start from, for continuation.
        throw: raise when the solution did not converge; otherwise return it marked.
        progress: called after each size of the Gaussian average.

    Returns:
        The `Solution`, with convergence evidence and error bars.

    Raises:
        ValueError: λ = 0, or an accuracy out of reach.
        ConvergenceError: not converged and `throw`; carries the solution.

    Example:
        >>> solution = solve(Problem(), accuracy=3e-3)
        >>> round(solution.test_error, 3)
        0.098
    """
    _check(problem, accuracy)
    constraints = problem.attention.constraints
    guess = None if start is None else np.asarray(to_coordinates(problem, Overlaps(*start)))
    for count in POINT_COUNTS:
        points = normal_points(constraints, count, SCRAMBLES, seed)
        test_points = normal_points(constraints, TEST_FACTOR * count, SCRAMBLES, seed + 1)
        solution = _solve_at(problem, points, test_points, guess)
        progress(Progress("solve", count, POINT_COUNTS[-1], f"{solution.integration_error:.1e}"))
        if solution.integration_error <= accuracy or not solution.converged:
            break
        if solution.rank_ratio > 0:
            guess = np.asarray(to_coordinates(problem, solution.overlaps))
    return _judged(solution, accuracy, throw)


def _check(problem: Problem, accuracy: float) -> None:
    require_positive("accuracy", accuracy)
    if accuracy < 1e-6:
        raise ValueError(
            f"accuracy must be at least 1e-06, got {accuracy!r}; "
            f"{SCRAMBLES} scrambles of {POINT_COUNTS[-1]} points cannot resolve less"
        )
    if problem.weight_decay_scaled == 0:
        raise ValueError(
            "weight_decay must be positive, got 0.0; the ridgeless limit λ → 0⁺ is not "
            "available yet, use a small weight_decay such as 1e-4"
        )


def _judged(solution: Solution, accuracy: float, throw: bool) -> Solution:
    if solution.converged or not throw:
        return solution
    raise ConvergenceError(
        f"solve did not converge: {solution.reason}; try a start from a neighbouring problem, "
        f"a larger weight_decay, or throw=False to look at where it stopped",
        solution,
    )


def _solve_at(
    problem: Problem, points: FloatArray, test_points: FloatArray, guess: FloatArray | None
) -> Solution:
    flat = compiled_collapse(problem, points)
    stable_collapse = bool(
        problem.weight_decay_scaled >= np.mean(np.asarray(flat.critical_decay_scaled))
    )
    informed, uninformed = _starts(problem)
    pair = [informed, uninformed] if guess is None else [guess, guess]
    starts = np.stack(pair * (SCRAMBLES // 2))
    solved = _to_numpy(_compiled(problem, starts, points, test_points))
    solved, found, which = _lowest(problem, solved, points, test_points, guess is not None)
    alive = ~np.asarray(is_collapsed(problem, solved.overlaps))
    loss_at_zero = problem.sample_ratio * float(np.mean(np.asarray(flat.loss)))
    if not alive.any():
        return _collapsed_solution(problem, flat, test_points, max(found, 1), solved)
    if stable_collapse:
        found += 1
        if loss_at_zero < np.mean(solved.observed.train_loss):
            return _collapsed_solution(problem, flat, test_points, found, solved)
    return _live_solution(problem, solved, found, which, points.shape[-1])


def _starts(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Coordinates of an informed start (ρ = 0.95) and an uninformed one (ρ = 0.1)."""
    power = problem.target_power
    length = power * problem.scale_of_target**2
    rows = []
    for rho, share in ((0.95, 0.9), (0.1, 0.1)):
        q = share * length
        overlaps = Overlaps(q, rho * np.sqrt(q * power), 1.0 / problem.attention.beta**2)
        rows.append(np.asarray(to_coordinates(problem, overlaps)))
    return rows[0], rows[1]


def _lowest(
    problem: Problem,
    solved: _Solved,
    points: FloatArray,
    test_points: FloatArray,
    guided: bool,
) -> tuple[_Solved, int, str]:
    """Where the starts disagree, solve all scrambles again from the side of lower Φ."""
    if guided:
        return solved, 1, "given"
    sides = [solved.coordinates[0::2], solved.coordinates[1::2]]
    means = [side.mean(axis=0) for side in sides]
    spread = max(float(side.std(axis=0).max()) for side in sides)
    if np.abs(means[0] - means[1]).max() <= 0.05 + 6 * spread:
        return solved, 1, "informed"
    losses = [solved.observed.train_loss[side::2].mean() for side in (0, 1)]
    side = int(np.argmin(losses))
    starts = np.tile(sides[side][0], (SCRAMBLES, 1))
    again = _to_numpy(_compiled(problem, starts, points, test_points))
    return again, 2, ("informed", "uninformed")[side]


@jax.jit
def _compiled(problem: Problem, starts: Any, points: Any, test_points: Any) -> _Solved:
    def one(row: tuple[Any, Any, Any]) -> _Solved:
        start, own, test_own = row

        def plain(x: Any) -> tuple[Any, Step]:
            step = state_evolution(problem, from_coordinates(problem, x), own)
            return to_coordinates(problem, step.overlaps), step

        fixed = anderson(plain, start, tolerance=INNER_TOLERANCE, max_evaluations=MAX_EVALUATIONS)
        overlaps = from_coordinates(problem, fixed.point)
        step = fixed.detail
        return _Solved(
            fixed.point,
            fixed.residual,
            fixed.iterations,
            overlaps,
            step.conjugates,
            observables(problem, overlaps, step, test_own),
            step.channel.two_minima,
        )

    return jax.lax.map(one, (starts, points, test_points))


@jax.jit
def _zero_map_test_errors(problem: Problem, test_points: Any) -> tuple[Any, Any]:
    zero = Overlaps(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def one(own: Any) -> tuple[Any, Any]:
        noisy = attention_error(problem.attention, zero, problem.score_variance, own)
        return noisy, attention_error(problem.attention, zero, problem.target_power, own)

    errors: tuple[Any, Any] = jax.lax.map(one, test_points)
    return errors


def _to_numpy(solved: _Solved) -> _Solved:
    return jax.tree.map(np.asarray, solved)


def _live_solution(
    problem: Problem, solved: _Solved, found: int, which: str, count: int
) -> Solution:
    residual = float(solved.residual.max())
    converged = residual <= RESIDUAL_TOLERANCE
    observed = {**solved.observed._asdict(), **solved.overlaps._asdict()}
    observed |= solved.conjugates._asdict()
    reason = None
    if not converged:
        bad = int((solved.residual > RESIDUAL_TOLERANCE).sum())
        reason = (
            f"residual {residual:.2e} above {RESIDUAL_TOLERANCE:.0e} on {bad} of {SCRAMBLES} "
            f"scrambles after {int(solved.iterations.max())} evaluations"
        )
    return _assembled(
        problem,
        observed,
        converged=converged,
        reason=reason,
        residual=residual,
        iterations=int(solved.iterations.max()),
        fixed_points_found=found,
        start=which,
        points=SCRAMBLES * count,
        two_minima_fraction=float(solved.two_minima.mean()),
    )


def _collapsed_solution(
    problem: Problem, flat: Collapse, test_points: FloatArray, found: int, solved: _Solved
) -> Solution:
    noisy, clean = (np.asarray(e) for e in _zero_map_test_errors(problem, test_points))
    loss = np.asarray(flat.loss)
    nothing = np.zeros(SCRAMBLES)
    observed = {
        "train_loss": problem.sample_ratio * loss,
        "train_error": loss,
        "test_error": noisy,
        "test_error_clean": clean,
        **dict.fromkeys(("q", "m", "sigma", "trace", "rank_ratio"), nothing),
        **{name: np.asarray(value) for name, value in flat.conjugates._asdict().items()},
    }
    return _assembled(
        problem,
        observed,
        converged=True,
        reason=None,
        residual=0.0,
        iterations=int(solved.iterations.max()),
        fixed_points_found=found,
        start="collapsed",
        points=test_points.shape[0] * test_points.shape[-1],
        two_minima_fraction=0.0,
    )


def _assembled(problem: Problem, observed: dict[str, FloatArray], **evidence: Any) -> Solution:
    means = {name: float(np.mean(values)) for name, values in observed.items()}
    errors = {
        name: float(np.std(values, ddof=1) / np.sqrt(len(values)))
        for name, values in observed.items()
    }
    return Solution(
        problem=problem,
        overlaps=Overlaps(means["q"], means["m"], means["sigma"]),
        conjugates=Conjugates(means["q_hat"], means["m_hat"], means["sigma_hat"]),
        train_loss=means["train_loss"],
        train_error=means["train_error"],
        test_error=means["test_error"],
        test_error_clean=means["test_error_clean"],
        trace=means["trace"],
        rank_ratio=means["rank_ratio"],
        integration_error=SMALL_SAMPLE * errors["test_error"] / means["test_error"],
        standard_errors=errors,
        **evidence,
    )
