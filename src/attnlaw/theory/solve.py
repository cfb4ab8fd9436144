"""`solve`: the state-evolution fixed point of a problem, with an error bar."""

import numpy as np
from numpy.typing import NDArray

from attnlaw.coordinates import to_coordinates
from attnlaw.numerics.checks import (
    require_instance,
    require_positive,
    require_real,
    require_seed,
)
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem, require_problem
from attnlaw.records import Overlaps, Progress, ProgressCallback, silent
from attnlaw.theory.collapse import require_few_tokens
from attnlaw.theory.kernel import CHEAP_TOKENS
from attnlaw.theory.line import Answer, refined, solve_line
from attnlaw.theory.ridgeless import closed_form
from attnlaw.theory.search import SCRAMBLES, Averages
from attnlaw.theory.solution import MANY_MINIMA, ConvergenceError, Solution

FloatArray = NDArray[np.float64]

POINT_COUNTS = (2**12, 2**14, 2**16)
FEWEST, FEWEST_AT_TWO_TOKENS = 2**10, 2**11
LOOSE_ACCURACY = 3e-3
MOST_OF_JUMPY = 2**10


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

    Several starts (near the target, near zero, fitting every label) are tried on few Gaussian
    points; the fixed point of lowest Φ is refined over all points of eight scrambles. S = 0 is
    compared too where it is stable, and a fixed point whose Φ lies above that of S = 0 or of
    S = (β0/β) S0 is not accepted.

    Args:
        problem: the problem; λ = 0 stands for the ridgeless limit λ → 0⁺ (6.1)–(6.4).
        accuracy: wanted relative standard error of test_error.
        seed: seed of the scrambles; the same seed gives the same numbers.
        start: order parameters to start from, for continuation.
        throw: raise when the solution did not converge; otherwise return it marked.
        progress: called at the beginning and after each size of the Gaussian average.

    Returns:
        The `Solution`, with convergence evidence and error bars.

    Raises:
        ValueError: an accuracy out of reach, too many tokens, a seed outside [0, 2³²), or a start
            that no layer can have.
        ConvergenceError: not converged and `throw`; carries the solution.

    Example:
        >>> solution = solve(Problem(), accuracy=3e-3)
        >>> round(solution.test_error, 2)
        0.1
    """
    check_solvable(problem, accuracy)
    require_seed(seed)
    if problem.weight_decay_scaled == 0:
        fitted = closed_form(problem, accuracy, seed)
        if fitted is not None:
            return fitted
    guess = None if start is None else _coordinates_of(problem, start)
    first = point_counts(problem, accuracy)[0]
    progress(Progress("solve", 0, POINT_COUNTS[-1], "exploring"))
    (answer,) = solve_line([problem], averages(problem, first, seed), guess)
    progress(Progress("solve", first, POINT_COUNTS[-1], _state(answer.solution)))
    answer = refine_until(problem, answer, accuracy, seed, guess, progress)
    return judged(answer.solution, throw)


def ridgeless(
    problem: Problem,
    *,
    accuracy: float = 1e-3,
    seed: int = 0,
    throw: bool = True,
    progress: ProgressCallback = silent,
) -> Solution:
    """The limit λ → 0⁺ of a problem, the layer of least Tr S that fits best; theory §6.

    Up to α_interp every label is fitted, η = β0/β, and δ, ε solve ∂_δJ = 4α K_eff δ (6.1) and
    Q0 + Δ/2 = J − (δ/2)∂_δJ − ε∂_εJ (6.2) with no Gaussian average but that of the test error; Σ
    is infinite. Beyond, λ̃ = ε = 0 in the equations of `solve`. Without label noise S = (β0/β) S0
    beyond α_perf (6.4).

    Args:
        problem: the problem; its weight decay is not looked at.
        accuracy, seed, throw, progress: as in `solve`.

    Returns:
        The `Solution` of the problem with λ = 0, the same as `solve` gives.

    Raises:
        ValueError, ConvergenceError: as in `solve`.

    Example:
        >>> round(ridgeless(Problem(sample_ratio=0.1)).test_error, 2)
        0.33
    """
    require_problem(problem)
    limit = problem.replace(weight_decay=0.0)
    return solve(limit, accuracy=accuracy, seed=seed, throw=throw, progress=progress)


def _coordinates_of(problem: Problem, start: Overlaps) -> FloatArray:
    require_instance("start", start, Overlaps, "for example the overlaps of another solution")
    q, m, sigma, misalignment = start
    for name, value in zip(Overlaps._fields, start, strict=True):
        if not (name == "misalignment" and value is None):
            require_real(f"start.{name}", value)
    possible = q > 0 and sigma > 0 and m**2 <= q * problem.target_power * (1 + 1e-12)
    if not (possible and (misalignment is None or 0 <= misalignment <= 1)):
        raise ValueError(
            "start must have q > 0, sigma > 0, |m| at most √(q Q0) and misalignment in [0, 1], "
            f"got {tuple(start)}"
        )
    known = np.float64(q), np.float64(m), np.float64(sigma)
    return np.asarray(to_coordinates(problem, Overlaps(*known, misalignment)))


def refine_until(
    problem: Problem,
    answer: Answer,
    accuracy: float,
    seed: int,
    guess: FloatArray | None = None,
    progress: ProgressCallback = silent,
) -> Answer:
    """The answer over as many points as the accuracy needs; given up when too many fail.

    At three tokens or more, where many proximal steps have several minima, an evaluation costs up
    to a hundred times the usual, the lowest minimum is not always found and the theory may not even
    be stable: no more points than the first size, or 2¹⁰, unless that did not converge, and two
    sizes that fail are enough; at two tokens three.
    """
    most = 3 if problem.attention.tokens <= CHEAP_TOKENS else 2
    failures = 0
    for count in point_counts(problem, accuracy)[1:]:
        solution = answer.solution
        failures = 0 if solution.converged else failures + 1
        if failures == most or (solution.converged and solution.integration_error <= accuracy):
            break
        if solution.converged and _is_jumpy(solution) and count > MOST_OF_JUMPY:
            break
        answer = _over_more_points(problem, averages(problem, count, seed), answer, guess)
        progress(Progress("solve", count, POINT_COUNTS[-1], _state(answer.solution)))
    return answer


def _is_jumpy(solution: Solution) -> bool:
    many = solution.two_minima_fraction > MANY_MINIMA
    return many and solution.problem.attention.tokens > CHEAP_TOKENS


def _over_more_points(
    problem: Problem, points: Averages, answer: Answer, guess: FloatArray | None
) -> Answer:
    """The answer followed to more points, or sought anew there when it cannot be followed."""
    if answer.solution.converged:
        (followed,) = refined([problem], points, [answer.candidate])
        if followed.solution.converged:
            return followed
    (fresh,) = solve_line([problem], points, guess)
    return fresh


def _state(solution: Solution) -> str:
    if not solution.converged:
        return "not converged yet"
    return f"relative error {solution.integration_error:.1e}"


def check_solvable(problem: Problem, accuracy: float) -> None:
    """Refuse what is no problem, too many tokens and accuracies out of reach."""
    require_problem(problem)
    require_few_tokens(problem)
    require_positive("accuracy", accuracy)
    if accuracy > 1:
        raise ValueError(f"accuracy must be at most 1, got {accuracy!r}; 1e-3 is the default")
    if accuracy < 1e-6:
        raise ValueError(
            f"accuracy must be at least 1e-06, got {accuracy!r}; "
            f"{SCRAMBLES} scrambles of {POINT_COUNTS[-1]} points cannot resolve less"
        )


def point_counts(problem: Problem, accuracy: float) -> tuple[int, ...]:
    """Sizes of the Gaussian average to try, small ones only where they can be enough."""
    if accuracy >= LOOSE_ACCURACY:
        return FEWEST, *POINT_COUNTS
    if problem.attention.tokens <= CHEAP_TOKENS:
        return FEWEST_AT_TWO_TOKENS, *POINT_COUNTS
    return POINT_COUNTS


def averages(problem: Problem, count: int, seed: int) -> Averages:
    """Gaussian points for a problem."""
    return Averages(problem.attention.constraints, count, seed)


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
