"""The spectrum of the learned map: η·ReLU(S0 + δZ − ε) (theory §5)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw.numerics.checks import require_count, require_nonnegative, require_positive
from attnlaw.numerics.precision import in_float64
from attnlaw.spectra import biane
from attnlaw.spectra.free_convolution import compiled_upper_integrals

FloatArray = NDArray[np.float64]


class Component(NamedTuple):
    """One interval of the learned spectrum: its ends (scale of S) and share of the eigenvalues."""

    left: float
    right: float
    mass: float


@dataclass(frozen=True)
class SpectralLaw:
    """Eigenvalue law of the learned S: η (x − ε)₊ with x drawn from the law of S0 + δZ (5.1).

    An atom 1 − F̄(ε) sits at zero; above it the density is ρ_δ(ε + s/η)/η.

    Args:
        scale: η > 0.
        noise_level: δ > 0.
        threshold: ε ≥ 0.
        target: law of S0.

    Raises:
        ValueError: an argument out of its range.
    """

    scale: float
    noise_level: float
    threshold: float
    target: Any

    def __post_init__(self) -> None:
        require_positive("scale", self.scale)
        require_positive("noise_level", self.noise_level)
        require_nonnegative("threshold", self.threshold)

    @cached_property
    def rank_ratio(self) -> float:
        """F̄(ε), share of nonzero eigenvalues (2.5)."""
        return float(self._mass_above(np.array([self.threshold]))[0])

    @property
    def atom(self) -> float:
        """1 − F̄(ε), share of zero eigenvalues."""
        return 1.0 - self.rank_ratio

    @cached_property
    def edges(self) -> FloatArray:
        """Ends of the intervals of the nonzero spectrum, rows (left, right), from left to right."""
        rows = biane.intervals(self.target, self.noise_level)
        kept = np.maximum(rows[rows[:, 1] > self.threshold], self.threshold)
        return np.asarray(self.scale * (kept - self.threshold))

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """Intervals of the nonzero spectrum from left to right, with the mass of each."""
        if not len(self.edges):
            return ()
        above = np.append(self.mass_above(self.edges[:, 0]), 0.0)
        return tuple(
            Component(float(left), float(right), float(mass))
            for (left, right), mass in zip(self.edges, above[:-1] - above[1:], strict=True)
        )

    @property
    def bulk_touches_zero(self) -> bool:
        """Whether the threshold cuts through an interval, so that the density starts at 0⁺."""
        return bool(len(self.edges)) and bool(self.edges[0, 0] == 0.0)

    @property
    def outliers(self) -> tuple[Component, ...]:
        """Intervals separated from zero by a gap: recovered directions of the target."""
        return self.components[1:] if self.bulk_touches_zero else self.components

    def density(self, s: ArrayLike) -> FloatArray:
        """Density of the nonzero eigenvalues at s, integrating to F̄(ε); zero for s ≤ 0."""
        s = np.asarray(s, dtype=float)
        rho = biane.density(self.target, self.noise_level, self.threshold + s / self.scale)
        return np.where(s > 0, rho / self.scale, 0.0)

    def mass_above(self, s: ArrayLike) -> FloatArray:
        """Share of eigenvalues above s ≥ 0."""
        s = np.asarray(s, dtype=float)
        return self._mass_above(self.threshold + s / self.scale)

    @in_float64
    def sample(self, dim: int, key: jax.Array) -> FloatArray:
        """The d eigenvalues of one draw of η (S0 + δZ − ε)₊, sorted: a finite matrix, not d
        independent values, so that their spacing is that of a trained layer.

        Args:
            dim: d ≥ 2.
            key: a JAX random key.
        """
        require_count("dim", dim, 2)
        target_key, noise_key = jax.random.split(key)
        gaussian = np.asarray(jax.random.normal(noise_key, (dim, dim), dtype=float))
        noise = (gaussian + gaussian.T) / np.sqrt(2 * dim)
        matrix = np.asarray(self.target.draw(dim, target_key)) + self.noise_level * noise
        return self.scale * np.maximum(np.linalg.eigvalsh(matrix) - self.threshold, 0.0)

    @in_float64
    def _mass_above(self, x: FloatArray) -> FloatArray:
        found = compiled_upper_integrals(self.target, self.noise_level, x)
        return np.array(found.mass)
