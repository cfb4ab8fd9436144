"""Where the search for a fixed point starts, and what a search found."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.coordinates import to_coordinates
from attnlaw.problem import Problem
from attnlaw.records import Overlaps
from attnlaw.theory.interpolation import (
    alpha_at_end,
    end_of_interpolation,
    power_and_overlap_at_end,
)
from attnlaw.theory.kernel import Solved, tolerance

FloatArray = NDArray[np.float64]

SAME_POINT = 1e-3
FAR, ROUGH = 0.7, 1e-3
# below it, Σ where every label is fitted starts no higher
LEAST_DECAY = 1e-9
# up to how many times α_interp its order parameters are starts without weight decay; their log Σ
BEYOND, END_RESPONSES = 2.0, (8.0, 12.0, 16.0)


class Candidate(NamedTuple):
    """A start for a search, or what it found.

    coordinates and jacobian (of G(x) − x), residual and its tolerance, how far the residual says
    that q and ρ of the fixed point still are, Φ, whether it is S = 0, the start that led here, and
    the number of different fixed points met so far.
    """

    coordinates: FloatArray
    jacobian: FloatArray
    residual: float
    tolerance: float
    distance: float
    train_loss: float
    collapsed: bool
    start: str
    found: int

    @classmethod
    def at(cls, coordinates: Any, start: str) -> "Candidate":
        """A start of which nothing else is known."""
        point = np.asarray(coordinates)
        return cls(point, -np.eye(3), np.inf, 0.0, np.inf, np.inf, False, start, 1)

    @classmethod
    def of(cls, solved: Solved, start: str) -> "Candidate":
        """What a search found."""
        return cls(
            solved.coordinates,
            solved.jacobian,
            float(solved.residual),
            float(tolerance(solved)),
            _distance(solved.jacobian, solved.step.image - solved.coordinates),
            float(solved.train_loss),
            bool(solved.collapsed),
            start,
            1,
        )

    @property
    def settled(self) -> bool:
        """Whether this is a fixed point, and not a valley where the map hardly moves."""
        return self.residual <= self.tolerance and self.distance <= FAR

    @property
    def rough(self) -> bool:
        """Whether jumps of the map keep this from being known better than to 10⁻³."""
        return self.tolerance > ROUGH

    @property
    def alive(self) -> bool:
        """Whether this is a fixed point with S ≠ 0."""
        return self.settled and not self.collapsed

    def is_same_as(self, other: "Candidate") -> bool:
        """Whether the Jacobian maps the difference to within the residuals."""
        moved = self.jacobian @ (self.coordinates - other.coordinates)
        allowed = max(SAME_POINT, 5 * max(self.tolerance, other.tolerance))
        return bool(np.abs(moved).max() <= allowed)


def _distance(jacobian: FloatArray, move: FloatArray) -> float:
    """Largest component of J⁻¹ f, but for that of log Σ, which diverges at α_interp as λ → 0."""
    if not (np.isfinite(jacobian).all() and np.isfinite(move).all()):
        return np.inf
    return float(np.abs(np.linalg.lstsq(jacobian, move, rcond=1e-12)[0][:2]).max())


def lowest(candidates: list[Candidate]) -> Candidate:
    """The fixed point of lowest Φ with S ≠ 0; else S = 0; else what came nearest.

    Its `found` counts the different fixed points among the candidates; S = 0 counts where it is
    met beside another.
    """
    alive = [candidate for candidate in candidates if candidate.alive]
    if not alive:
        flat = [candidate for candidate in candidates if candidate.settled]
        return flat[0] if flat else min(candidates, key=lambda c: c.residual)
    different: list[Candidate] = []
    for candidate in alive:
        if not any(candidate.is_same_as(known) for known in different):
            different.append(candidate)
    best = min(different, key=lambda candidate: candidate.train_loss)
    return best._replace(found=max(len(different), *(c.found for c in alive)))


def cold_candidates(problem: Problem) -> list[Candidate]:
    """Starts that need no neighbour.

    Informed: near the target. Uninformed: near zero. Interpolating: Σ ∝ 1/λ̃, where the layer
    fits every label. Without weight decay also the end of the interpolating phase, where α is near
    it; Σ, which is infinite there, starts from several values.
    """
    power, attention = problem.target_power, problem.attention
    ratio = problem.scale_of_target
    decay = max(problem.weight_decay_scaled, LEAST_DECAY)
    fitting = problem.sample_ratio * attention.constraints * ratio / decay
    rows = {
        "informed": (0.95, 0.9 * power * ratio**2, 1.0 / attention.beta**2),
        "uninformed": (0.1, 0.1 * power * ratio**2, 1.0 / attention.beta**2),
        "interpolating": (0.6, problem.score_variance * ratio**2, fitting),
    }
    starts = [start_at(problem, *row, name) for name, row in rows.items()]
    return starts + (_end_candidates(problem) if problem.weight_decay_scaled == 0 else [])


def _end_candidates(problem: Problem) -> list[Candidate]:
    """Starts at the end of the interpolating phase (6.3), where α is less than twice α_interp."""
    end = end_of_interpolation(problem)
    if end is None or problem.sample_ratio > BEYOND * alpha_at_end(problem, end):
        return []
    q, m = map(np.float64, power_and_overlap_at_end(problem, end))
    known = [Overlaps(q, m, np.exp(height)) for height in END_RESPONSES]
    return [Candidate.at(to_coordinates(problem, overlaps), "interpolating") for overlaps in known]


def start_at(problem: Problem, rho: float, q: float, sigma: float, name: str) -> Candidate:
    """A start at given ρ, q and Σ."""
    overlaps = Overlaps(q, rho * np.sqrt(q * problem.target_power), sigma)
    return Candidate.at(to_coordinates(problem, overlaps), name)


def recovered_candidate(problem: Problem) -> Candidate:
    """A start next to S = (β0/β) S0, where noiseless labels lead at small weight decay."""
    ratio, power = problem.scale_of_target, problem.target_power
    steepness = problem.attention.beta**2 * problem.sample_ratio
    threshold = 4 * problem.weight_decay_scaled / (steepness * ratio)
    rho = np.sqrt(1 - min(0.5, threshold**2))
    response = 1.0 / (problem.attention.beta**2 + 2 * steepness)
    overlaps = Overlaps(ratio**2 * power, rho * ratio * power, response, min(0.5, threshold**2))
    return Candidate.at(to_coordinates(problem, overlaps), "recovered")
