"""The matrix side: what the penalty does to a noisy map, for the theory and for matrices."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.records import Conjugates, Overlaps
from attnlaw.spectra.free_convolution import Integrals, both_integrals

NEARLY_ALIGNED = 1e-3


class SpectralParameters(NamedTuple):
    """η, δ, ε of S = η (S0 + δZ − ε)₊."""

    scale: Any
    noise_level: Any
    threshold: Any


class MatrixSide(NamedTuple):
    """Answer of the matrix side at given conjugates.

    overlaps = (q, m, Σ) by (4.1), trace = Tr S/d, free_energy = (m̂²/4Σ̂) J, rank_ratio = F̄(ε).
    """

    overlaps: Overlaps
    parameters: SpectralParameters
    trace: Any
    free_energy: Any
    rank_ratio: Any


@dataclass(frozen=True)
class EigenThreshold:
    """Nuclear norm on a positive semidefinite S: eigenvalues are shifted down and cut at zero."""

    def parameters(self, conjugates: Conjugates, decay: Any) -> SpectralParameters:
        """η = m̂/Σ̂, δ = √q̂/m̂, ε = 2λ̃/m̂ (theory §4)."""
        return SpectralParameters(
            conjugates.m_hat / conjugates.sigma_hat,
            conjugates.q_hat**0.5 / conjugates.m_hat,
            2 * decay / conjugates.m_hat,
        )

    def matrix_side(self, law: Any, conjugates: Conjugates, decay: Any) -> MatrixSide:
        """q = η² J, m = η [J − (δ/2)∂_δJ − (ε/2)∂_εJ], Σ = ∂_δJ/(2δΣ̂); (4.1)."""
        parameters = self.parameters(conjugates, decay)
        scale, noise_level, threshold = parameters
        upper, misalignment = _integrals(law, noise_level, threshold)
        overlaps = Overlaps(
            scale**2 * upper.second,
            scale * _target_overlap(upper, noise_level, threshold),
            upper.noise_derivative / (2 * noise_level * conjugates.sigma_hat),
            misalignment,
        )
        free_energy = conjugates.m_hat**2 / (4 * conjugates.sigma_hat) * upper.second
        trace = -scale * upper.threshold_derivative / 2
        return MatrixSide(overlaps, parameters, trace, free_energy, upper.mass)

    def apply(self, matrix: Any, conjugates_sigma: Any, decay: Any) -> Any:
        """(B − 2λ̃)₊/Σ̂ on the eigenvalues of a symmetric matrix B (8.3)."""
        values, frame = jnp.linalg.eigh(matrix)
        kept = jax.nn.relu(values - 2 * decay) / conjugates_sigma
        return (frame * kept) @ frame.T


def _target_overlap(integrals: Any, noise_level: Any, threshold: Any) -> Any:
    """J − (δ/2)∂_δJ − (ε/2)∂_εJ."""
    by_noise = noise_level * integrals.noise_derivative / 2
    by_threshold = threshold * integrals.threshold_derivative / 2
    return integrals.second - by_noise - by_threshold


def _integrals(law: Any, noise_level: Any, threshold: Any) -> tuple[Integrals, Any]:
    """Integrals above ε, and 1 − ρ² with relative accuracy.

    With M the mean of the target, J₋ the integral below ε and B = (δ/2)∂_δJ₋ + (ε/2)∂_εJ₋ − J₋,
    J = Q0 + δ² + ε² − 2εM − J₋, m/η = Q0 − εM + B and
    Q0 J − (m/η)² = Q0 (δ² + ε² − J₋ − 2B) − (εM − B)²: nothing of order one cancels.
    """
    upper, lower = both_integrals(law, noise_level, threshold)
    power, mean = law.power, law.mean
    rest = -_target_overlap(lower, noise_level, threshold)
    small = noise_level**2 + threshold**2 - lower.second - 2 * rest
    gap = power * small - (threshold * mean - rest) ** 2
    whole = Integrals(
        power + noise_level**2 + threshold**2 - 2 * threshold * mean - lower.second,
        2 * noise_level - lower.noise_derivative,
        2 * threshold - 2 * mean - lower.threshold_derivative,
        1 - lower.mass,
    )
    aligned = _target_overlap(upper, noise_level, threshold) ** 2
    misalignment = jnp.where(upper.second > 0, 1 - aligned / (power * upper.second), 1.0)
    nearly = misalignment < NEARLY_ALIGNED
    chosen = jax.tree.map(partial(jnp.where, nearly), whole, Integrals(*upper[:4]))
    return chosen, jnp.where(nearly, gap / (power * whole.second), misalignment)
