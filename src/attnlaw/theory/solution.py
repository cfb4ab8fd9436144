"""The theory's answer to a problem."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from attnlaw.denoisers import SpectralParameters
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps
from attnlaw.spectra.divided_differences import pair_means
from attnlaw.spectra.grouping import grouped
from attnlaw.spectra.spectral_law import SpectralLaw
from attnlaw.theory.kernel import accepted_residual

MANY_MINIMA = 0.3
MOST_PAIRED = 64
FULL_RANK = 1e-9
# noise level and threshold, over √Q0, at which the spectrum of an exactly recovered S0 is drawn
SHARP_NOISE, SHARP_THRESHOLD = 1e-6, 3e-6


class ConvergenceError(RuntimeError):
    """A computation stopped short of its tolerance; `solution` holds where it stopped."""

    def __init__(self, message: str, solution: "Solution") -> None:
        super().__init__(message)
        self.solution = solution

    def __reduce__(self) -> tuple[type, tuple[str, "Solution"]]:
        return type(self), (str(self), self.solution)


@dataclass(frozen=True)
class Solution:
    """Solution of the state-evolution equations (theory §4) with its evidence.

    Observables are means over independent scrambles of the Gaussian average. `standard_errors`
    gives their absolute standard errors; `integration_error` is the relative one of test_error,
    enlarged for the small number of scrambles so that ± 2 covers as often as for a Gaussian.

    Attributes:
        problem: what was solved.
        overlaps: q = Tr S²/d, m = Tr S S0/d, Σ, and misalignment = 1 − ρ², ρ = m/√(q Q0).
        conjugates: q̂, m̂, Σ̂; zero where a ridgeless layer fits every label (then Σ is infinite).
        parameters: η, δ, ε of the learned S = η (S0 + δZ − ε)₊.
        train_loss: Φ = lim L/d², penalty included (4.2).
        train_error: mean loss of a training sequence, E ℓ(h*).
        test_error: E Σ_ab (Y − A)²_ab on fresh sequences with noisy labels (4.4).
        test_error_clean: the same with noiseless labels.
        trace: Tr S/d (4.3).
        rank_ratio: learned rank over d, F̄(ε) (2.5).
        converged, reason: whether the residual met its tolerance; if not, why. The tolerance is the
            larger of 1e-6 and twice largest_jump, at most 1e-2.
        residual: largest change of (k log q, atanh ρ, log Σ) under one undamped map, with
            k = 1/√(1 − ρ² Q0/(Q0 + Δ/2)).
        largest_jump: largest change of the same by one Gaussian point passing from one minimum of
            its proximal step to the other.
        iterations: evaluations of the map, the most that any scramble used.
        integration_error: see above.
        fixed_points_found: distinct fixed points reached from the different starts.
        start: the start whose fixed point has the lowest Φ.
        points: Gaussian points used in all.
        two_minima_fraction: share of points where the proximal step has two minima or more.
        response_trace, response_square: E tr ∂g/∂ω and E‖∂g/∂ω‖²_F of (4.5), jumps not counted;
            zero in closed forms, which do not need them.
    """

    problem: Problem
    overlaps: Overlaps
    conjugates: Conjugates
    parameters: SpectralParameters
    train_loss: float
    train_error: float
    test_error: float
    test_error_clean: float
    trace: float
    rank_ratio: float
    converged: bool
    reason: str | None
    residual: float
    largest_jump: float
    iterations: int
    integration_error: float
    fixed_points_found: int
    start: str
    points: int
    two_minima_fraction: float
    response_trace: float
    response_square: float
    standard_errors: dict[str, float] = field(repr=False)

    @property
    def q(self) -> float:
        """q = Tr S²/d."""
        return float(self.overlaps.q)

    @property
    def m(self) -> float:
        """m = Tr S S0/d."""
        return float(self.overlaps.m)

    @property
    def mse(self) -> float:
        """‖S − S0‖²_F/d = Q0 − 2m + q (4.4), as q(1 − ρ²) + (m − Q0)²/Q0: nothing cancels."""
        q, m, _, misalignment = self.overlaps
        power = self.problem.target_power
        return float(q * misalignment + (m - power) ** 2 / power)

    @property
    def scale(self) -> float:
        """η = m̂/Σ̂."""
        return self.parameters.scale

    @property
    def noise_level(self) -> float:
        """δ = √q̂/m̂."""
        return self.parameters.noise_level

    @property
    def threshold(self) -> float:
        """ε = 2λ̃/m̂."""
        return self.parameters.threshold

    @cached_property
    def replicon(self) -> float | None:
        """2αE‖∂g/∂ω‖²_F R/Σ̂² of (4.5); None at S = (β0/β) S0, where nothing is left to vary.

        The factor by which the distance of two nearby replicas on the same data changes in an
        iteration; above one the replica-symmetric answer is unstable. The mean does not see the
        jumps of the proximal step, which make it infinite formally; `jump_weight` tells of them. R
        is that of at most 64 target atoms, within 1 %.
        """
        if self.rank_ratio == 0:
            return 0.0
        if self.noise_level == 0:
            return None
        target = grouped(self.problem.target, MOST_PAIRED)
        pairs = pair_means(target, self.noise_level, self.threshold).second
        if np.isinf(self.overlaps.sigma):
            return pairs / (2 * self.problem.sample_ratio * self.problem.attention.constraints)
        response = 2 * self.problem.sample_ratio * self.response_square
        return float(response * pairs / self.conjugates.sigma_hat**2)

    @property
    def jump_weight(self) -> float:
        """χ = −2αE tr(∂g/∂ω)/Σ̂, the derivative of g without its jumps over the whole.

        1 where the proximal step is continuous; χ − 1 is the weight of its jumps.
        """
        if self.rank_ratio == 0 or np.isinf(self.overlaps.sigma):
            return 1.0
        response = -2 * self.problem.sample_ratio * self.response_trace
        return float(response / self.conjugates.sigma_hat)

    @property
    def stable(self) -> bool:
        """Whether the replicon is below one, so that the replica-symmetric theory may hold."""
        return self.replicon is None or self.replicon < 1

    @property
    def tolerance(self) -> float:
        """The residual that counts as converged."""
        return float(accepted_residual(np.float64(self.largest_jump)))

    @property
    def width_sufficient(self) -> bool:
        """Whether κ ≥ F̄(ε): the layer is wide enough for the learned rank."""
        return bool(self.problem.width_ratio >= self.rank_ratio)

    @cached_property
    def spectrum(self) -> SpectralLaw:
        """Predicted eigenvalue law of S (5.1); an exactly recovered S0 is a hair blurred."""
        target = grouped(self.problem.target)
        noise_level, threshold = self.noise_level, self.threshold
        if noise_level == 0:
            size = float(self.problem.target_power) ** 0.5
            noise_level, threshold = SHARP_NOISE * size, SHARP_THRESHOLD * size
        return SpectralLaw(self.scale, noise_level, threshold, target)

    @cached_property
    def phase(self) -> str:
        """Phase of the learned spectrum, in words.

        collapsed: S = 0. bulk: one interval of eigenvalues that starts at zero, noise and signal
        together. outliers: directions of the target stand clear of a bulk that starts at zero.
        recovered: the threshold has removed the noise bulk, only separated directions are left.
        """
        if self.rank_ratio == 0:
            return "collapsed"
        law = self.spectrum
        if not law.bulk_touches_zero:
            return "recovered" if self.rank_ratio < 1 - FULL_RANK else "bulk"
        return "outliers" if len(law.edges) > 1 else "bulk"

    @property
    def consistency_gap(self) -> float:
        """|Φ − (α E ℓ + λ̃ Tr S/d)|/Φ, an internal check (4.3)."""
        problem = self.problem
        direct = problem.sample_ratio * self.train_error + problem.weight_decay_scaled * self.trace
        gap = abs(self.train_loss - direct)
        return gap / abs(self.train_loss) if gap else 0.0
