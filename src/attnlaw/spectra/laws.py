"""Target laws: the limiting eigenvalue law μ0 of the target map S0.

A law gives its Cauchy transform g0(w) = ∫ μ0(ds)/(w − s) and g0′, for NumPy and JAX arrays alike,
its power Q0 = ∫ s² μ0(ds), its mean, the blocks of its support, and a matrix drawn from it. The
rest of the package asks nothing else of a target.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_positive

FloatArray = NDArray[np.float64]


class TargetLaw(Protocol):
    """What the theory and the training road ask of a target."""

    @property
    def power(self) -> Any:
        """Q0 = ∫ s² μ0(ds)."""

    @property
    def mean(self) -> Any:
        """∫ s μ0(ds)."""

    @property
    def rank_ratio(self) -> Any:
        """Share of nonzero eigenvalues."""

    @property
    def coincidence(self) -> Any:
        """Σ w² over the atoms: chance that two eigenvalues are the same number."""

    @property
    def upper(self) -> Any:
        """Upper end of the support."""

    def cauchy(self, w: Any) -> Any:
        """g0(w) = ∫ μ0(ds)/(w − s), for points w of any shape off the support."""

    def cauchy_pair(self, w: Any) -> tuple[Any, Any]:
        """g0(w) and g0′(w)."""
        ...

    def blocks(self) -> FloatArray:
        """The support as rows (left, right), sorted."""
        ...

    def draw(self, dim: int, key: jax.Array) -> jax.Array:
        """A d×d target matrix."""
        ...

    def check_dim(self, dim: int) -> None:
        """Raise ValueError unless a target of this dimension can be drawn."""
        ...


@partial(jax.tree_util.register_dataclass, data_fields=["target_rank_ratio"], meta_fields=[])
@dataclass(frozen=True)
class MarchenkoPastur:
    """Law of S0 = W0 W0ᵀ/√(p0 d), W0 a Gaussian d×p0 matrix, p0 = κ0 d (theory §1).

    Free Poisson law of rate κ0 and jump 1/√κ0: mean √κ0, power Q0 = 1 + κ0, an atom of weight
    1 − κ0 at zero when κ0 < 1, the rest between (1 ∓ √κ0)²/√κ0.

    Args:
        target_rank_ratio: κ0 = p0/d > 0.

    Raises:
        ValueError: κ0 is not a positive number.

    Example:
        >>> MarchenkoPastur(0.5).power
        1.5
    """

    target_rank_ratio: float

    def __post_init__(self) -> None:
        require_positive("kappa0 = p0/d (target_rank_ratio)", self.target_rank_ratio)

    @property
    def power(self) -> Any:
        """Q0 = 1 + κ0."""
        return 1 + self.target_rank_ratio

    @property
    def mean(self) -> Any:
        """√κ0."""
        return self.target_rank_ratio**0.5

    @property
    def rank_ratio(self) -> Any:
        """Rank of S0 over d: min(κ0, 1)."""
        return min(self.target_rank_ratio, 1.0)

    @property
    def coincidence(self) -> Any:
        """Square of the weight at zero, (1 − κ0)₊²."""
        return (1 - self.rank_ratio) ** 2

    @property
    def upper(self) -> Any:
        """Upper end of the support, (1 + √κ0)²/√κ0."""
        return (1 + self.mean) ** 2 / self.mean

    @property
    def lower(self) -> Any:
        """Lower end of the continuous part, (1 − √κ0)²/√κ0."""
        return (1 - self.mean) ** 2 / self.mean

    def blocks(self) -> FloatArray:
        """Support as rows (left, right), sorted: the atom at zero when κ0 < 1, then the bulk."""
        bulk = [self.lower, self.upper]
        return np.array([[0.0, 0.0], bulk] if self.target_rank_ratio < 1 else [bulk])

    def cauchy(self, w: Any) -> Any:
        """g0(w), the root of w g² − (√κ0 w − κ0 + 1) g + √κ0 = 0 that decays like 1/w."""
        return self.cauchy_pair(w)[0]

    def cauchy_pair(self, w: Any) -> tuple[Any, Any]:
        """g0(w), and g0′(w) by differentiating its quadratic equation."""
        xp = w.__array_namespace__()
        middle = w * self.mean - self.target_rank_ratio + 1
        centre = (self.lower + self.upper) / 2
        # √(w − l) √(w − u), cut between l and u alone, by one root: it points the way of w − centre
        root = xp.sqrt((w - self.lower) * (w - self.upper) + 0j)
        aligned = root.real * (w.real - centre) + root.imag * w.imag
        branch = self.mean * xp.where(aligned < 0, -root, root)
        plus, minus = middle + branch, middle - branch
        use_plus = xp.abs(plus) >= xp.abs(minus)
        above = xp.where(use_plus, 2 * self.mean, minus)
        below = xp.where(use_plus, plus, 2 * w)
        g = above / below
        return g, -g * (self.mean - g) / branch

    def draw(self, dim: int, key: jax.Array) -> jax.Array:
        """A d×d matrix W0 W0ᵀ/√(p0 d), p0 = κ0 d to the nearest whole number."""
        rank = self.target_rank(dim)
        factor = jax.random.normal(key, (dim, rank), dtype=float)
        return factor @ factor.T / (rank * dim) ** 0.5

    def check_dim(self, dim: int) -> None:
        """Raise ValueError unless κ0 d ≥ 1."""
        self.target_rank(dim)

    def target_rank(self, dim: int) -> int:
        """p0 = κ0 d, to the nearest whole number.

        Raises:
            ValueError: κ0 d < 1, no rank is left.
        """
        if self.target_rank_ratio * dim < 1:
            enough = int(np.ceil(1 / self.target_rank_ratio))
            raise ValueError(
                f"target_rank_ratio * dim must be at least 1, got {self.target_rank_ratio} * {dim} "
                f"= {self.target_rank_ratio * dim:g}; raise dim to {enough} or more"
            )
        return round(self.target_rank_ratio * dim)
