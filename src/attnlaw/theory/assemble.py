"""From the raw answers of the scrambles to a `Solution` with its evidence."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw.denoisers import EigenThreshold, MatrixSide, SpectralParameters
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps
from attnlaw.theory.collapse import Collapse
from attnlaw.theory.kernel import Solved, map_test_errors, tolerance
from attnlaw.theory.observed import observed
from attnlaw.theory.solution import Solution

FloatArray = NDArray[np.float64]

# t-quantile of 7 degrees of freedom over the Gaussian one, at the coverage of ± 2.
SMALL_SAMPLE = 1.2166
# share of the bound by which sampling may put Φ above it
ABOVE = 0.02
UNCERTAIN = 0.5


def live_solution(
    problem: Problem, solved: Solved, found: int, start: str, count: int, bound: float
) -> Solution:
    """The solution S ≠ 0; not converged where Φ lies above the `bound` that simple maps attain."""
    rows = observed(problem, solved)
    scrambles = {name: own[:-1] for name, own in rows.items()}
    left_over = {name: float(own[-1]) for name, own in rows.items()}
    solution = _assembled(
        problem,
        scrambles,
        left_over,
        converged=True,
        reason=None,
        residual=float(solved.residual),
        largest_jump=float(solved.step.jump),
        iterations=int(solved.iterations),
        fixed_points_found=found,
        start=start,
        points=solved.step.scrambles.loss.size * count,
        two_minima_fraction=float(solved.step.channel.two_minima),
        response_trace=float(solved.step.channel.response_trace),
        response_square=float(solved.step.channel.response_square),
    )
    reason = _reason_against(solution, float(tolerance(solved)), bound)
    return replace(solution, converged=reason is None, reason=reason)


def _reason_against(solution: Solution, allowed: float, bound: float) -> str | None:
    """Why this is not an answer."""
    loss, error = solution.train_loss, solution.integration_error
    if not solution.residual <= allowed:
        told = f"residual {solution.residual:.2e} above {allowed:.1e}"
        return f"{told} after {solution.iterations} evaluations"
    if not -ABOVE * bound <= loss <= (1 + ABOVE) * bound:
        return (
            f"a fixed point with train_loss {loss:.3g}, but S = 0 or the target itself has "
            f"{bound:.3g}; the minimum was not found"
        )
    if not error <= UNCERTAIN:
        return f"test_error is uncertain by {100 * error:.0f} %"
    return None


def collapsed_solution(
    problem: Problem, flat: Collapse, test_points: FloatArray, found: int, iterations: int
) -> Solution:
    """The solution S = 0."""
    noisy, clean = _errors_of(problem, Overlaps(0.0, 0.0, 0.0, 1.0), test_points)
    loss = np.asarray(flat.loss)
    nothing = np.zeros_like(loss)
    values = {
        "train_loss": problem.sample_ratio * loss,
        "train_error": loss,
        "test_error": noisy,
        "test_error_clean": clean,
        **dict.fromkeys(("q", "m", "sigma", "trace", "rank_ratio"), nothing),
        "misalignment": nothing + 1,
        **{name: np.asarray(value) for name, value in flat.conjugates._asdict().items()},
    }
    return _exact(
        problem,
        values,
        parameters=EigenThreshold().parameters(
            Conjugates(*(float(np.mean(hat)) for hat in flat.conjugates)),
            problem.weight_decay_scaled,
        ),
        iterations=iterations,
        fixed_points_found=found,
        start="collapsed",
        test_points=test_points,
    )


def fitted_solution(problem: Problem, side: MatrixSide, test_points: FloatArray) -> Solution:
    """The ridgeless solution where every label is fitted: its matrix side, at no loss."""
    noisy, clean = _errors_of(problem, side.overlaps, test_points)
    nothing = np.zeros_like(noisy)
    if side.parameters.noise_level == 0:  # S = r S0: no errors, not even those of rounding
        noisy = clean = nothing
    values = {
        "train_loss": nothing,
        "train_error": nothing,
        "test_error": noisy,
        "test_error_clean": clean,
        "trace": nothing + side.trace,
        "rank_ratio": nothing + side.rank_ratio,
        **{name: nothing + value for name, value in side.overlaps._asdict().items()},
        "sigma": nothing + np.inf,
        **dict.fromkeys(Conjugates._fields, nothing),
    }
    return _exact(
        problem,
        values,
        parameters=side.parameters,
        iterations=0,
        fixed_points_found=1,
        start="ridgeless",
        test_points=test_points,
    )


def _errors_of(
    problem: Problem, overlaps: Overlaps, test_points: FloatArray
) -> tuple[FloatArray, FloatArray]:
    noisy, clean = map_test_errors(problem, overlaps, test_points)
    return np.asarray(noisy), np.asarray(clean)


def _exact(
    problem: Problem,
    values: dict[str, FloatArray],
    *,
    parameters: SpectralParameters,
    test_points: FloatArray,
    **evidence: Any,
) -> Solution:
    """A solution in closed form, but for its test errors."""
    return _assembled(
        problem,
        values,
        {},
        parameters=parameters,
        converged=True,
        reason=None,
        residual=0.0,
        largest_jump=0.0,
        points=test_points.shape[0] * test_points.shape[1] * test_points.shape[-1],
        two_minima_fraction=0.0,
        response_trace=0.0,
        response_square=0.0,
        **evidence,
    )


def _standard_error(own: FloatArray, moved: float | None) -> float:
    """Of the mean over scrambles, and how far the rest of the residual may move it."""
    if not np.isfinite(own).all():
        return 0.0
    scatter = np.std(own, ddof=1) / np.sqrt(len(own))
    return float(scatter if moved is None else np.hypot(scatter, moved - np.mean(own)))


def _assembled(
    problem: Problem,
    values: dict[str, FloatArray],
    left_over: dict[str, float],
    *,
    parameters: SpectralParameters | None = None,
    **evidence: Any,
) -> Solution:
    """The solution from one value a scramble; η, δ and ε by the conjugates unless given."""
    means = {name: float(np.mean(own)) for name, own in values.items()}
    errors = {name: _standard_error(own, left_over.get(name)) for name, own in values.items()}
    hats = Conjugates(means["q_hat"], means["m_hat"], means["sigma_hat"])
    known = parameters or EigenThreshold().parameters(hats, problem.weight_decay_scaled)
    uncertain = SMALL_SAMPLE * errors["test_error"]
    return Solution(
        problem=problem,
        overlaps=Overlaps(*(means[name] for name in Overlaps._fields)),
        conjugates=hats,
        parameters=SpectralParameters(*map(float, known)),
        train_loss=means["train_loss"],
        train_error=max(means["train_error"], 0.0),  # rounding can put it below
        test_error=means["test_error"],
        test_error_clean=means["test_error_clean"],
        trace=means["trace"],
        rank_ratio=means["rank_ratio"],
        integration_error=uncertain / means["test_error"] if uncertain else 0.0,
        standard_errors=errors,
        **evidence,
    )
