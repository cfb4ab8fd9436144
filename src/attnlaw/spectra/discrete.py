"""Target laws carried by finitely many eigenvalues: given values, a matrix, a power law."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw.numerics.checks import is_concrete, require_count, require_real

FloatArray = NDArray[np.float64]

MOST_EIGENVALUES = 10_000_000


# kinds that JAX never puts in an array's place
_NEVER_TRACED = (list, tuple, set, frozenset, dict, range, Iterator, type(None))


class _Discrete:
    """A law carried by finitely many weighted values."""

    values: Any
    weights: Any

    @property
    def power(self) -> Any:
        """Q0 = Σ wᵢ sᵢ²."""
        return _as_number((self.weights * self.values**2).sum())

    @property
    def mean(self) -> Any:
        """Σ wᵢ sᵢ."""
        return _as_number((self.weights * self.values).sum())

    @property
    def rank_ratio(self) -> Any:
        """Weight of the values that are not zero (rank of S0 over d)."""
        tiny = 1e-12 * np.abs(self.values).max()
        return float(self.weights[np.abs(self.values) > tiny].sum())

    @property
    def coincidence(self) -> Any:
        """Σ w² over the different values: chance that two eigenvalues are the same number."""
        tiny = 1e-12 * np.abs(self.values).max()
        clear = np.where(np.abs(self.values) > tiny, self.values, 0.0)
        _, place = np.unique(clear, return_inverse=True)
        return float((np.bincount(place, self.weights) ** 2).sum())

    @property
    def upper(self) -> Any:
        """Largest value."""
        return self.values.max()

    def blocks(self) -> FloatArray:
        """Support as rows (value, value), sorted."""
        points = np.unique(self.values)
        return np.stack([points, points], axis=1)

    def cauchy(self, w: Any) -> Any:
        """g0(w) = Σ wᵢ/(w − sᵢ)."""
        return (self.weights / (w[..., None] - self.values)).sum(-1)

    def cauchy_pair(self, w: Any) -> tuple[Any, Any]:
        """g0(w) and g0′(w) = −Σ wᵢ/(w − sᵢ)²."""
        inverse = 1 / (w[..., None] - self.values)
        first = self.weights * inverse
        return first.sum(-1), -(first * inverse).sum(-1)


@partial(jax.tree_util.register_dataclass, data_fields=["values", "weights"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Atoms(_Discrete):
    """A target with given eigenvalues, in a random orthogonal frame when it is drawn.

    Args:
        values: eigenvalues of S0, all ≥ 0, in the scale of S0 (order one).
        weights: their fractions, summing to one; equal when left out.

    Raises:
        ValueError: values that are not a finite, nonnegative, nonzero 1-D array, or weights that
            do not match them.

    Example:
        >>> Atoms([0.0, 2.0], [0.75, 0.25]).power
        1.0
    """

    values: Any
    weights: Any = None

    def __post_init__(self) -> None:
        if is_concrete(self.values) or isinstance(self.values, _NEVER_TRACED):
            values = _eigenvalue_array("values", self.values)
            weights = _weight_array(self.weights, values.size)
            order = np.argsort(values, kind="stable")
            object.__setattr__(self, "values", values[order])
            object.__setattr__(self, "weights", weights[order])

    def draw(self, dim: int, key: jax.Array) -> jax.Array:
        """S0 = O diag(values) Oᵀ, O a Haar orthogonal frame; `dim` must fit the weights."""
        return _in_random_frame(self.spectrum(dim), key)

    def check_dim(self, dim: int) -> None:
        """Raise ValueError unless d makes every wᵢ d whole."""
        self.spectrum(dim)

    def spectrum(self, dim: int) -> FloatArray:
        """The d eigenvalues, each value repeated wᵢ d times.

        Raises:
            ValueError: some wᵢ d is not a whole number.
        """
        counts = np.asarray(self.weights) * dim
        whole = np.rint(counts)
        if np.abs(counts - whole).max() > 1e-6 * dim**0.5:
            raise ValueError(
                f"dim must make every weight * dim a whole number, got dim = {dim} for "
                f"{self.values.size} eigenvalues; use dim = {self.values.size} or a multiple"
            )
        return np.repeat(self.values, whole.astype(int))


@partial(
    jax.tree_util.register_dataclass, data_fields=["values", "weights", "matrix"], meta_fields=[]
)
@dataclass(frozen=True, eq=False)
class MatrixTarget(_Discrete):
    """A given target matrix: its eigenvalues for the theory, itself for training.

    Build it with `from_matrix`.
    """

    values: Any
    weights: Any
    matrix: Any = field(repr=False)

    def draw(self, dim: int, key: jax.Array) -> jax.Array:
        """The matrix itself; `key` is not used.

        Raises:
            ValueError: `dim` is not its size.
        """
        self.check_dim(dim)
        return jax.numpy.asarray(self.matrix)

    def check_dim(self, dim: int) -> None:
        """Raise ValueError unless d is the size of the matrix."""
        if dim != len(self.matrix):
            raise ValueError(
                f"dim must equal the size of the target matrix, got {dim} for "
                f"{len(self.matrix)}; use dim = {len(self.matrix)}"
            )


def from_matrix(matrix: ArrayLike) -> MatrixTarget:
    """The target S0 given as a symmetric positive semidefinite d×d matrix.

    Raises:
        ValueError: the array is not square, finite, symmetric and positive semidefinite.
    """
    array = _real_array("target matrix", matrix)
    square = array.ndim == 2 and array.shape[0] == array.shape[1] and array.size > 0
    if not square or not np.isfinite(array).all():
        raise ValueError(
            f"target matrix must be a finite square array, got shape {array.shape}; "
            "give a d×d matrix or a 1-D array of eigenvalues"
        )
    scale = np.abs(array).max()
    if np.abs(array - array.T).max() > 1e-8 * scale:
        raise ValueError(
            f"target matrix must be symmetric, got a largest asymmetry of "
            f"{np.abs(array - array.T).max():.3g}; give (S + Sᵀ)/2"
        )
    values = np.linalg.eigvalsh((array + array.T) / 2)
    values = _eigenvalue_array("target matrix eigenvalues", values)
    values = np.sort(values)
    return MatrixTarget(values, _weight_array(None, values.size), (array + array.T) / 2)


@partial(jax.tree_util.register_dataclass, data_fields=["exponent"], meta_fields=["dim"])
@dataclass(frozen=True)
class PowerLaw(_Discrete):
    """Power-law target: eigenvalues √d i^(−γ), i = 1..d (theory §1).

    Args:
        exponent: γ > 1/2 (at or below 1/2 the power Q0 = Σ i^(−2γ) diverges with d).
        dim: d, the number of eigenvalues.

    Raises:
        ValueError: γ ≤ 1/2, d < 2 or d > 10⁷.

    Example:
        >>> round(PowerLaw(1.0, 1000).power, 4)
        1.6439
    """

    exponent: float
    dim: int

    def __post_init__(self) -> None:
        remedy = "at or below 1/2 the power of the target diverges"
        require_real("exponent", self.exponent, remedy)
        if is_concrete(self.exponent) and self.exponent <= 0.5:
            raise ValueError(f"exponent must be above 1/2, got {self.exponent!r}; {remedy}")
        require_count("dim", self.dim, 2)
        if is_concrete(self.dim) and self.dim > MOST_EIGENVALUES:
            raise ValueError(f"dim must be at most {MOST_EIGENVALUES}, got {self.dim}")

    @property
    def values(self) -> Any:
        """√d i^(−γ)."""
        return self.dim**0.5 * np.arange(1.0, self.dim + 1) ** -self.exponent

    @property
    def weights(self) -> Any:
        """1/d each."""
        return np.full(self.dim, 1.0 / self.dim)

    def draw(self, dim: int, key: jax.Array) -> jax.Array:
        """S0 in a Haar orthogonal frame.

        Raises:
            ValueError: `dim` differs from the law's own d.
        """
        self.check_dim(dim)
        return _in_random_frame(self.values, key)

    def check_dim(self, dim: int) -> None:
        """Raise ValueError unless d is the law's own."""
        if dim != self.dim:
            raise ValueError(f"dim must equal that of the power law, got {dim} for {self.dim}")


def _as_number(value: Any) -> Any:
    """A plain float where the value can be looked at."""
    return float(value) if isinstance(value, np.floating) else value


def _in_random_frame(values: Any, key: jax.Array) -> jax.Array:
    dim = len(values)
    frame, upper = jax.numpy.linalg.qr(jax.random.normal(key, (dim, dim), dtype=float))
    frame = frame * jax.numpy.sign(jax.numpy.diag(upper))
    return (frame * jax.numpy.asarray(values)) @ frame.T


def _eigenvalue_array(name: str, values: ArrayLike) -> FloatArray:
    array = _real_array(name, values)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be a finite, non-empty 1-D array, got shape {array.shape}"
            + ("" if np.isfinite(array).all() else " with non-finite entries")
        )
    # eigenvalues computed from a matrix come with rounding of either sign
    array = np.where(np.abs(array) <= 1e-10 * np.abs(array).max(), 0.0, array)
    if array.min() < 0:
        raise ValueError(
            f"{name} must be zero or positive, got a smallest value of {array.min():.6g}; "
            "S = W Wᵀ/√(pd) is positive semidefinite and can only learn such a target"
        )
    return array


def _real_array(name: str, values: Any) -> FloatArray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be numbers in one row, got {values!r}") from None
    if array.dtype.kind not in "biuf" and array.size:
        raise ValueError(f"{name} must be real numbers, got an array of type {array.dtype}")
    return array.astype(float)


def _weight_array(weights: Any, size: int) -> FloatArray:
    if weights is None:
        return np.full(size, 1.0 / size)
    array = _real_array("weights", weights)
    if array.shape != (size,) or not (array > 0).all() or abs(array.sum() - 1) > 1e-9:
        raise ValueError(
            f"weights must be {size} positive numbers that sum to 1, got shape {array.shape} "
            f"with sum {array.sum():.6g}"
        )
    return array
