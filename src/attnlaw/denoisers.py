"""The matrix side: what the penalty does to a noisy map, for the theory and for matrices."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.records import Conjugates, Overlaps
from attnlaw.spectra.free_convolution import upper_integrals


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
            jnp.sqrt(conjugates.q_hat) / conjugates.m_hat,
            2 * decay / conjugates.m_hat,
        )

    def matrix_side(self, law: Any, conjugates: Conjugates, decay: Any) -> MatrixSide:
        """q = η² J, m = η [J − (δ/2)∂_δJ − (ε/2)∂_εJ], Σ = ∂_δJ/(2δΣ̂); (4.1)."""
        parameters = self.parameters(conjugates, decay)
        scale, noise_level, threshold = parameters
        upper = upper_integrals(law, noise_level, threshold)
        by_noise = noise_level * upper.noise_derivative / 2
        by_threshold = threshold * upper.threshold_derivative / 2
        overlaps = Overlaps(
            scale**2 * upper.second,
            scale * (upper.second - by_noise - by_threshold),
            upper.noise_derivative / (2 * noise_level * conjugates.sigma_hat),
        )
        free_energy = conjugates.m_hat**2 / (4 * conjugates.sigma_hat) * upper.second
        trace = -scale * upper.threshold_derivative / 2
        return MatrixSide(overlaps, parameters, trace, free_energy, upper.mass)

    def apply(self, matrix: Any, conjugates_sigma: Any, decay: Any) -> Any:
        """(B − 2λ̃)₊/Σ̂ on the eigenvalues of a symmetric matrix B (8.3)."""
        values, frame = jnp.linalg.eigh(matrix)
        kept = jax.nn.relu(values - 2 * decay) / conjugates_sigma
        return (frame * kept) @ frame.T
