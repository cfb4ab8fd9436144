"""The Bayes-optimal estimator of the target map: the best that any method can do (theory (9.2))."""

from dataclasses import dataclass, field

import numpy as np

from attnlaw.numerics.checks import require_seed
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem
from attnlaw.records import Overlaps
from attnlaw.spectra.divided_differences import axis_rule
from attnlaw.theory.collapse import prepared, require_few_tokens
from attnlaw.theory.search import SCRAMBLES, errors_of_map

# the least noise level over √Q0 that is told from none, for noiseless labels
LEAST = 1e-6
# room for rounding at the ends of the bracket
ROOM = 1e-9


@dataclass(frozen=True)
class BayesOptimal:
    """The posterior mean of the target map given the data, β0 and Δ known.

    Attributes:
        problem: what was estimated; its weight decay, width and β do not matter.
        noise_level: δ of the noisy map S0 + δZ that the data are worth; large if they tell little.
        q: Tr E[S0|data]²/d, also its overlap with S0.
        mmse: ‖E[S0|data] − S0‖²_F/d = Q0 − q, the least that any estimator can reach.
        test_error: of the layer whose map is r·E[S0|data], r = β0/β, noisy labels (4.4).
        test_error_clean: the same with noiseless labels.
        standard_errors: of the two test errors.
    """

    problem: Problem
    noise_level: float
    q: float
    mmse: float
    test_error: float
    test_error_clean: float
    standard_errors: dict[str, float] = field(repr=False)


@in_float64
def bayes_optimal(problem: Problem, *, seed: int = 0) -> BayesOptimal:
    """The Bayes-optimal baseline of a problem; theory (9.2).

    The data are worth a noisy map S0 + δZ with 1/δ² = 2αK_eff/(MMSE + Δ/2), and
    MMSE = δ² − (4π²/3) δ⁴ ∫ρ_δ³ is that of denoising it.

    Args:
        problem: the problem.
        seed: seed of the Gaussian average of the test errors.

    Raises:
        ValueError: more than six tokens, or a seed outside [0, 2³²).

    Example:
        >>> found = bayes_optimal(Problem(noise=0.0, sample_ratio=0.02354))
        >>> round(found.mmse, 3)
        0.887
    """
    require_few_tokens(problem)
    require_seed(seed)
    known = prepared(problem)
    noise_level = _noise_level(known)
    mmse = denoising_error(known, noise_level)
    power, ratio = float(known.target_power), float(known.scale_of_target)
    q = power - mmse
    overlaps = Overlaps(ratio**2 * q, ratio * q, 0.0, mmse / power)
    both = errors_of_map(known, overlaps, seed)
    if mmse == 0:  # S0 itself, and noiseless labels: no errors, not even those of rounding
        both = np.zeros(SCRAMBLES), np.zeros(SCRAMBLES)
    errors = dict(zip(("test_error", "test_error_clean"), both, strict=True))
    means = {name: float(own.mean()) for name, own in errors.items()}
    scatter = {name: float(own.std(ddof=1)) / SCRAMBLES**0.5 for name, own in errors.items()}
    return BayesOptimal(problem, noise_level, q, mmse, **means, standard_errors=scatter)


def alpha_of_bayes_recovery(problem: Problem) -> float:
    """α beyond which noiseless data determine S0: 2αK_eff = 1 − Σ w² over its atoms; (6.5).

    For a target of rank κ0 d < d without repeated eigenvalues but zero that is 2κ0 − κ0².
    """
    return float(1 - problem.target.coincidence) / (2 * problem.attention.constraints)


def denoising_error(problem: Problem, noise_level: float) -> float:
    """MMSE(δ) = δ² − (4π²/3) δ⁴ ∫ρ_δ³ of S0 seen as S0 + δZ."""
    if noise_level == 0:
        return 0.0
    _, weights, density = axis_rule(problem.target, noise_level)
    cube = float(weights @ density**2)
    return noise_level**2 * (1 - 4 * np.pi**2 / 3 * noise_level**2 * cube)


def _noise_level(problem: Problem) -> float:
    """δ with δ² 2αK_eff = MMSE(δ) + Δ/2; zero where noiseless data are enough."""
    from scipy.optimize import brentq

    weight = 2 * float(problem.sample_ratio) * problem.attention.constraints
    noise, size = float(problem.noise) / 2, float(problem.target_power) ** 0.5
    if noise == 0 and float(problem.sample_ratio) >= alpha_of_bayes_recovery(problem):
        return 0.0

    def excess(log_level: float) -> float:
        level = float(np.exp(log_level))
        return weight - (denoising_error(problem, level) + noise) / level**2

    # MMSE lies between zero and Q0
    high = np.log((size**2 + noise) / weight) / 2 + ROOM
    low = np.log(noise / weight) / 2 - ROOM if noise else np.log(LEAST * size)
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))
