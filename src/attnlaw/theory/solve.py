"""`solve`: the state-evolution fixed point of a problem, with an error bar."""

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.equations import to_coordinates
from attnlaw.numerics.checks import require_positive
from attnlaw.numerics.gaussian import normal_points
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem
from attnlaw.records import Overlaps, Progress, ProgressCallback, silent
from attnlaw.theory.assemble import (
    RESIDUAL_TOLERANCE,
    collapsed_solution,
    live_solution,
    to_numpy,
)
from attnlaw.theory.collapse import compiled_collapse
from attnlaw.theory.kernel import Solved, cold_starts, solve_scrambles
from attnlaw.theory.solution import ConvergenceError, Solution

FloatArray = NDArray[np.float64]

SCRAMBLES = 8
POINT_COUNTS = (2**10, 2**12, 2**14, 2**16)
LOOSE_ACCURACY = 3e-3
TEST_FACTOR = 4
MOST_TOKENS = 6
DECAY_FACTORS = (100.0, 30.0, 10.0, 5.0, 2.5, 1.6, 1.25, 1.0)
SIDES = ("informed", "uninformed")


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
        >>> round(solution.test_error, 2)
        0.1
    """
    check_solvable(problem, accuracy)
    if start is not None and not (np.isfinite(start).all() and start[0] > 0 and start[2] > 0):
        raise ValueError(f"start must be finite with q > 0 and sigma > 0, got {tuple(start)}")
    guess = None if start is None else np.asarray(to_coordinates(problem, Overlaps(*start)))
    counts = point_counts(accuracy)
    for count in counts:
        solution = solve_at(problem, *gaussian_points(problem, count, seed), guess)
        note = f"relative error {solution.integration_error:.1e}"
        progress(Progress("solve", count, counts[-1], note))
        if solution.integration_error <= accuracy or not solution.converged:
            break
        if solution.rank_ratio > 0:
            guess = np.asarray(to_coordinates(problem, solution.overlaps))
    return judged(solution, throw)


def check_solvable(problem: Problem, accuracy: float) -> None:
    """Refuse λ = 0 and accuracies out of reach."""
    require_positive("accuracy", accuracy)
    if problem.attention.tokens > MOST_TOKENS:
        raise ValueError(
            f"tokens must be at most {MOST_TOKENS} in the theory, got {problem.attention.tokens}; "
            "the Gaussian average has T² + T − 2 dimensions; train layers instead"
        )
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


def point_counts(accuracy: float) -> tuple[int, ...]:
    """Sizes of the Gaussian average to try, the smallest only where it can be enough."""
    return POINT_COUNTS if accuracy >= LOOSE_ACCURACY else POINT_COUNTS[1:]


def gaussian_points(problem: Problem, count: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Points of the fixed point, and more of them, of their own, for the test errors."""
    constraints = problem.attention.constraints
    points = normal_points(constraints, count, SCRAMBLES, seed)
    return points, normal_points(constraints, TEST_FACTOR * count, SCRAMBLES, seed + 2**32)


def judged(solution: Solution, throw: bool) -> Solution:
    """The solution, or the error that says what to try."""
    if throw and not solution.converged:
        raise ConvergenceError(
            f"solve did not converge: {solution.reason}; try a start from a neighbouring "
            "problem, another seed, a larger weight_decay, or throw=False to look at where it "
            "stopped",
            solution,
        )
    return solution


def solve_at(
    problem: Problem, points: FloatArray, test_points: FloatArray, guess: FloatArray | None
) -> Solution:
    """Solve over given points, from a guess or from both cold starts."""
    pair = [guess, guess] if guess is not None else [*map(np.asarray, cold_starts(problem))]
    starts = np.stack(pair * (SCRAMBLES // 2))
    solved = to_numpy(solve_scrambles(problem, starts, points, test_points))
    if not _settled(solved).any():
        solved = _from_larger_decay(problem, points, test_points)
    return chosen(problem, solved, points, test_points, "given" if guess is not None else None)


def _settled(solved: Solved) -> NDArray[np.bool_]:
    """Which scrambles met the tolerance."""
    return np.asarray(solved.residual) <= RESIDUAL_TOLERANCE


def _from_larger_decay(problem: Problem, points: FloatArray, test_points: FloatArray) -> Solved:
    """Follow the solution down from a larger weight decay, where the map contracts."""
    starts = np.tile(np.asarray(cold_starts(problem)[0]), (SCRAMBLES, 1))
    for factor in DECAY_FACTORS:
        nearby = problem.replace(weight_decay=problem.penalty.weight_decay * factor)
        solved = to_numpy(solve_scrambles(nearby, starts, points, test_points))
        usable = _settled(solved) & ~solved.collapsed
        if usable.any():
            starts = solved.coordinates.copy()
            starts[~usable] = starts[np.flatnonzero(usable)[0]]
    return solved


def chosen(
    problem: Problem,
    solved: Solved,
    points: FloatArray,
    test_points: FloatArray,
    label: str | None,
) -> Solution:
    """The solution of lowest Φ among what the scrambles met and S = 0 where it is stable.

    `label` names the start when both halves of the scrambles had the same one.
    """
    solved, found, side = _lowest(problem, solved, points, test_points)
    flat = compiled_collapse(problem, points)
    critical = np.mean(np.asarray(flat.critical_decay_scaled))
    # within a hair of the critical decay some scrambles collapse and others do not
    alive = np.flatnonzero(~solved.collapsed)
    flat_wins = 2 * alive.size <= SCRAMBLES
    if alive.size and problem.weight_decay_scaled >= critical:
        found += 1
        loss_at_zero = problem.sample_ratio * np.mean(np.asarray(flat.loss))
        flat_wins |= bool(loss_at_zero <= np.mean(solved.observed.train_loss))
    if flat_wins:
        iterations = int(solved.iterations.max())
        return collapsed_solution(problem, flat, test_points, max(found, 1), iterations)
    kept = jax.tree.map(lambda leaf: leaf[alive], solved)
    return live_solution(problem, kept, found, label or side, points.shape[-1])


def _lowest(
    problem: Problem, solved: Solved, points: FloatArray, test_points: FloatArray
) -> tuple[Solved, int, str]:
    """All scrambles on the fixed point of lowest Φ that either half of them met.

    Scrambles that did not settle, or that settled elsewhere, are solved again from one that did.
    """
    settled = _settled(solved)
    halves = [np.flatnonzero(settled[side::2]) * 2 + side for side in (0, 1)]
    met = [side for side in (0, 1) if halves[side].size]
    if not met:
        return solved, 0, SIDES[0]
    means = [solved.coordinates[halves[side]].mean(axis=0) for side in met]
    spread = max(float(solved.coordinates[halves[side]].std(axis=0).max()) for side in met)
    apart = np.abs(means[0] - means[-1]).max() > 0.05 + 6 * spread
    if settled.all() and not apart:
        return solved, 1, SIDES[0]
    losses = [solved.observed.train_loss[halves[side]].mean() for side in met]
    side = met[int(np.argmin(losses))]
    starts = np.tile(solved.coordinates[halves[side][0]], (SCRAMBLES, 1))
    again = to_numpy(solve_scrambles(problem, starts, points, test_points))
    return again, 2 if apart else 1, SIDES[side]
