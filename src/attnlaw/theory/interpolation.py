"""Closed forms of the ridgeless limit λ → 0⁺: the interpolating phase and its end (theory §6)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.problem import Problem
from attnlaw.spectra.free_convolution import UpperIntegrals, compiled_upper_integrals

FloatArray = NDArray[np.float64]

LEAST_EXCESS = 1e-9
LARGEST_LOG = 40.0
EXACT = 1e-12
SOLVED, ROUNDING = 1e-9, 1e-14
STEP, MOST_STEPS = 0.1, 400
GUESSES, NEAR_ZERO = (0.3, 0.8, 1.5), 5.0


class Interpolation(NamedTuple):
    """δ and ε of the learned map, and the integrals of the law of S0 + δZ above ε."""

    noise_level: float
    threshold: float
    upper: UpperIntegrals

    @property
    def overlap_with_target(self) -> float:
        """J − (δ/2)∂_δJ − (ε/2)∂_εJ, which is m/η; (4.1)."""
        upper = self.upper
        by_noise = self.noise_level * upper.noise_derivative / 2
        return upper.second - by_noise - self.threshold * upper.threshold_derivative / 2


def integrals(problem: Problem, noise_level: float, threshold: float) -> UpperIntegrals:
    """J(δ, ε), its derivatives and F̄(ε), as numbers."""
    found = compiled_upper_integrals(problem.target, noise_level, threshold)
    return UpperIntegrals(*map(float, found))


def end_of_interpolation(problem: Problem) -> Interpolation | None:
    """δ̄ with Q0 + Δ/2 = J(δ̄, 0) − (δ̄/2) ∂_δJ(δ̄, 0), ε = 0; (6.3).

    The right side minus Q0 rises with δ from zero to infinity. None where Δ is so small that
    rounding hides the rise (Δ = 0 among them): δ̄ → 0 there.
    """
    from scipy.optimize import brentq

    variance, power = float(problem.score_variance), float(problem.target_power)
    if variance / power - 1 < LEAST_EXCESS:
        return None

    def excess(log_noise: float) -> float:
        upper = integrals(problem, np.exp(log_noise), 0.0)
        return (upper.second - np.exp(log_noise) * upper.noise_derivative / 2) / variance - 1

    low = high = np.log(power) / 2
    while excess(high) < 0:
        high += 1
    while excess(low) > 0:
        low -= 1
    noise_level = float(np.exp(brentq(excess, low, high, xtol=1e-14)))
    return Interpolation(noise_level, 0.0, integrals(problem, noise_level, 0.0))


def alpha_at_end(problem: Problem, end: Interpolation | None) -> float:
    """α_interp = ∂_δJ(δ̄, 0)/(4 K_eff δ̄), or its limit (1 + 2κ0 − κ0²)/(4 K_eff) for Δ → 0; (6.3).

    κ0 is the share of nonzero eigenvalues of the target, at most 1.
    """
    constraints = 2 * problem.attention.constraints
    if end is None:
        rank = min(float(problem.target.rank_ratio), 1.0)
        return (1 + 2 * rank - rank**2) / 2 / constraints
    return end.upper.noise_derivative / (2 * end.noise_level) / constraints


def power_and_overlap_at_end(problem: Problem, end: Interpolation | None) -> tuple[float, float]:
    """q = r² J(δ̄, 0) and m = r (Q0 + Δ/2) at α_interp, r = β0/β; (6.3)."""
    ratio = float(problem.scale_of_target)
    second = end.upper.second if end else float(problem.target_power)
    return ratio**2 * second, ratio * float(problem.score_variance)


def alpha_of_perfect_recovery(problem: Problem) -> float:
    """α_perf, beyond which Δ = 0 and λ → 0⁺ give S = (β0/β) S0 exactly; (6.4).

    With j_k(τ) = ∫_τ^2 (x − τ)^k √(4 − x²)/(2π) dx and κ0 the share of nonzero eigenvalues:
    κ0 τ = (1 − κ0) j_1(τ), 2 K_eff α_perf = κ0(2 − κ0) + (1 − κ0)² [j_2(τ) + τ j_1(τ)].
    """
    rank = min(float(problem.target.rank_ratio), 1.0)
    constraints = 2 * problem.attention.constraints
    if rank >= 1:
        return 1 / constraints
    tau = perfect_threshold(problem)
    noise = semicircle_moment(2, tau) + tau * semicircle_moment(1, tau)
    return (rank * (2 - rank) + (1 - rank) ** 2 * noise) / constraints


def perfect_threshold(problem: Problem) -> float:
    """τ = ε/δ where δ → 0 at α_perf: κ0 τ = (1 − κ0) j_1(τ); (6.4)."""
    from scipy.optimize import brentq

    rank = min(float(problem.target.rank_ratio), 1.0)

    def balance(tau: float) -> float:
        return rank * tau - (1 - rank) * semicircle_moment(1, tau)

    return float(brentq(balance, 0.0, 2.0, xtol=1e-15))


def semicircle_moment(power: int, tau: float) -> float:
    """j_1 or j_2 of τ in [0, 2]: ∫_τ^2 (x − τ)^k √(4 − x²)/(2π) dx, in closed form."""
    angle = np.arccos(tau / 2)
    height = np.sqrt(4 - tau**2)
    mass = (2 * angle - tau * height / 2) / (2 * np.pi)
    first = height**3 / (6 * np.pi)
    if power == 1:
        return float(first - tau * mass)
    second = mass + tau * height**3 / (8 * np.pi)
    return float(second - 2 * tau * first + tau**2 * mass)


def interpolating(problem: Problem, end: Interpolation | None) -> Interpolation:
    """δ and ε of the interpolating phase; (6.1) and (6.2).

    ∂_δJ = 4α K_eff δ and Q0 + Δ/2 = J − (δ/2)∂_δJ − ε∂_εJ. Where the first attempt fails, the curve
    of (6.2) in (log δ, ε/δ), on which (6.1) gives α, is traced from the end of the phase.

    Args:
        problem: the problem, of α below the end of its interpolating phase.
        end: that end, of `end_of_interpolation`.

    Raises:
        RuntimeError: the two equations were not solved to rounding.
    """
    alpha = float(problem.sample_ratio)
    scale = end.noise_level if end else float(problem.target_power) ** 0.5
    guesses = [np.array([np.log(scale), ratio]) for ratio in GUESSES]
    if not end:
        guesses.append(np.array([np.log(scale) - NEAR_ZERO, perfect_threshold(problem)]))
    found = (_solved(problem, alpha, guess) for guess in guesses)
    point = next((x for x in found if x is not None), None)
    if point is None:
        point = _traced(problem, end, alpha)
    noise_level = float(np.exp(point[0]))
    threshold = noise_level * float(point[1])
    return Interpolation(noise_level, threshold, integrals(problem, noise_level, threshold))


def _gaps(problem: Problem, x: FloatArray) -> tuple[float, float]:
    """log α by (6.1), and by how much (6.2) is missed in units of δ² + Δ/2, at (log δ, ε/δ)."""
    noise_level = float(np.exp(min(x[0], LARGEST_LOG)))
    threshold = noise_level * float(x[1])
    upper = integrals(problem, noise_level, threshold)
    slope = max(upper.noise_derivative, 1e-300)
    fitted = upper.second - noise_level * slope / 2 - threshold * upper.threshold_derivative
    alpha = slope / (4 * problem.attention.constraints * noise_level)
    missed = (fitted - float(problem.score_variance)) / _unit(problem, noise_level)
    return float(np.log(alpha)), missed


def _unit(problem: Problem, noise_level: float) -> float:
    """Size of what balances in (6.2), δ² + Δ/2."""
    return float(problem.noise) / 2 + min(noise_level**2, float(problem.score_variance))


def _solved(problem: Problem, alpha: float, guess: FloatArray) -> FloatArray | None:
    """(log δ, ε/δ) solving both equations to rounding, or None."""
    from scipy.optimize import root

    goal = np.log(alpha)

    def gaps(x: FloatArray) -> list[float]:
        log_alpha, missed = _gaps(problem, x)
        return [log_alpha - goal, missed]

    try:
        found = root(gaps, guess, tol=EXACT)
    except ZeroDivisionError:  # a step of no length where the equations are flat
        return None
    rounding = ROUNDING * float(problem.score_variance) / _unit(problem, float(np.exp(found.x[0])))
    settled = float(np.max(np.abs(found.fun))) < SOLVED + rounding and found.x[1] >= -SOLVED
    return np.asarray(found.x) if settled else None


def _traced(problem: Problem, end: Interpolation | None, alpha: float) -> FloatArray:
    """The solution at α on the curve of (6.2), traced by its arc length."""
    goal = np.log(alpha)
    if end:
        point, direction = np.array([np.log(end.noise_level), 0.0]), np.array([0.0, 1.0])
    else:
        size = np.log(float(problem.target_power)) / 2 - NEAR_ZERO
        direction = np.array([1.0, 0.0])
        point = _corrected(problem, np.array([size, perfect_threshold(problem)]), direction)
    height = _gaps(problem, point)[0] - goal
    for _ in range(MOST_STEPS):
        ahead = _corrected(problem, point + STEP * direction, direction)
        new = _gaps(problem, ahead)[0] - goal
        if new * height <= 0:
            share = height / (height - new)
            found = _solved(problem, alpha, point + share * (ahead - point))
            if found is not None:
                return found
        direction = (ahead - point) / np.linalg.norm(ahead - point)
        point, height = ahead, new
    raise RuntimeError(f"the equations of the interpolating phase were not solved at α = {alpha:g}")


def _corrected(problem: Problem, point: FloatArray, direction: FloatArray) -> FloatArray:
    """The point of the curve of (6.2) beside `point`, across the direction."""
    from scipy.optimize import root

    across = np.array([-direction[1], direction[0]])

    def missed(shift: FloatArray) -> float:
        return _gaps(problem, point + float(shift[0]) * across)[1]

    return point + float(root(missed, [0.0], tol=EXACT).x[0]) * across
