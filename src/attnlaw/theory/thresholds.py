"""Where the ridgeless layer stops interpolating, recovers the target, or collapses (theory §6)."""

from dataclasses import dataclass

import numpy as np

from attnlaw.numerics.checks import require_seed
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem, require_problem
from attnlaw.records import Overlaps
from attnlaw.theory.bayes import alpha_of_bayes_recovery
from attnlaw.theory.collapse import critical_weight_decay, prepared, require_few_tokens
from attnlaw.theory.interpolation import (
    Interpolation,
    alpha_at_end,
    alpha_of_perfect_recovery,
    end_of_interpolation,
    power_and_overlap_at_end,
)
from attnlaw.theory.search import errors_of_map


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of a problem in α = n/d², each a number, or None with its reason.

    Attributes:
        alpha_interp: α up to which the ridgeless layer fits every noisy label (6.3).
        noise_level_at_interp: δ̄ there.
        peak_test_error, peak_mse: test error (4.4) and ‖S − S0‖²_F/d of the ridgeless layer there.
        alpha_perf: α beyond which, without label noise, S = (β0/β) S0 exactly (6.4).
        alpha_bayes: α beyond which, without label noise, the best estimator is exact (6.5).
        critical_weight_decay: λ beyond which S = 0 at the problem's own α (5.3).
        reasons: why a number is None, by name.
    """

    alpha_interp: float
    noise_level_at_interp: float
    peak_test_error: float
    peak_mse: float
    alpha_perf: float | None
    alpha_bayes: float | None
    critical_weight_decay: float
    reasons: dict[str, str]


@in_float64
def thresholds(problem: Problem, *, seed: int = 0) -> Thresholds:
    """Thresholds of the ridgeless layer, of recovery and of collapse; (5.3), (6.3)–(6.5).

    The ridgeless peak at α_interp is finite: there η = r = β0/β, m = r(Q0 + Δ/2) and
    q = r² J(δ̄, 0), and the test error follows by one Gaussian average.

    Args:
        problem: the problem; its weight decay does not matter, its α only for the collapse.
        seed: seed of the Gaussian averages.

    Raises:
        ValueError: what is no problem, too many tokens, or a seed outside [0, 2³²).

    Example:
        >>> round(thresholds(Problem()).alpha_interp, 4)
        0.1535
    """
    require_problem(problem)
    require_few_tokens(problem)
    require_seed(seed)
    grouped = prepared(problem)
    end = end_of_interpolation(grouped)
    test_error, mse = _peak(grouped, end, seed)
    reasons = {}
    perf = bayes = None
    if problem.noise > 0:
        told = f"exact recovery needs noise = 0, got {float(problem.noise):g}"
        reasons = {"alpha_perf": told, "alpha_bayes": told}
    else:
        perf = alpha_of_perfect_recovery(problem)
        bayes = alpha_of_bayes_recovery(problem)
    return Thresholds(
        alpha_interp=alpha_at_end(grouped, end),
        noise_level_at_interp=end.noise_level if end else 0.0,
        peak_test_error=test_error,
        peak_mse=mse,
        alpha_perf=perf,
        alpha_bayes=bayes,
        critical_weight_decay=critical_weight_decay(problem, seed=seed),
        reasons=reasons,
    )


def _peak(problem: Problem, end: Interpolation | None, seed: int) -> tuple[float, float]:
    """Test error and MSE of the ridgeless layer at α_interp; zero where it has recovered S0."""
    q, m = power_and_overlap_at_end(problem, end)
    errors, _ = errors_of_map(problem, Overlaps(q, m, 0.0), seed)
    return float(np.mean(errors)), float(problem.target_power) - 2 * m + q
