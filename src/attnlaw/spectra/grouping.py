"""Many eigenvalues grouped into fewer weighted ones, so that cost does not depend on dimension."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw.spectra.discrete import Atoms

FloatArray = NDArray[np.float64]

MOST_ATOMS = 400
_BISECTIONS = 40


def grouped(law: Any, most: int = MOST_ATOMS) -> Any:
    """The law itself, or one of `most` atoms (400) that stands for a larger discrete law.

    The range is cut into equal cells, as narrow as the number of atoms allows. In a cell with more
    than two values these are replaced by the two-point Gauss rule of their measure, which has the
    same moments up to the third, so that mean and power are exact. What is left out of the Cauchy
    transform at a distance r from a cell of width h falls like (h/r)⁴; the isolated values at the
    top of a power law are kept as they are.

    For power laws of 10⁵ eigenvalues with γ = 0.75, 1 and 1.5 the relative error is below 1e-7 in
    J and below 1e-4 in its derivatives and F̄ for δ ≥ 0.1 and ε ≤ 1.9 δ.
    """
    values = getattr(law, "values", None)
    if values is None or values.size <= most:
        return law
    return _grouped(law, most)


@lru_cache(maxsize=16)
def _grouped(law: Any, most: int) -> Atoms:
    values, weights = np.asarray(law.values), np.asarray(law.weights)
    order = np.argsort(values)
    return Atoms(*_in_cells(values[order], weights[order], most))


def _in_cells(values: FloatArray, weights: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Weighted atoms from sorted values, over the most cells that give no more than `most`."""
    span = values[-1] - values[0]
    few, many = 0.0, np.log2(16 * most * values.size)
    for _ in range(_BISECTIONS):
        middle = (few + many) / 2
        atoms = np.minimum(np.bincount(_cells(values, span * 2**-middle)), 2).sum()
        few, many = (middle, many) if atoms <= most else (few, middle)
    cell = _cells(values, span * 2**-few)
    counts = np.bincount(cell)[cell]
    alone = counts <= 2
    nodes, masses = _gauss(values[~alone], weights[~alone], cell[~alone])
    every = np.concatenate([values[alone], nodes]), np.concatenate([weights[alone], masses])
    return _padded(*every, most)


def _padded(values: FloatArray, weights: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """The same law with exactly `most` atoms, the heaviest one split.

    Problems along a line need arrays of one shape.
    """
    missing, heaviest = most - values.size, int(np.argmax(weights))
    share = weights[heaviest] / (missing + 1)
    kept = weights.copy()
    kept[heaviest] = share
    return (
        np.concatenate([values, np.full(missing, values[heaviest])]),
        np.concatenate([kept, np.full(missing, share)]),
    )


def _cells(values: FloatArray, width: float) -> NDArray[np.int64]:
    """Number of the cell of each value, counting only those that hold one."""
    raw = np.floor((values - values[0]) / width).astype(np.int64)
    return np.cumsum(np.diff(raw, prepend=raw[0]) > 0)


def _gauss(
    values: FloatArray, weights: FloatArray, cell: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Two-point Gauss rules of the measures in each cell."""
    _, own = np.unique(cell, return_inverse=True)
    mass = np.bincount(own, weights)
    mean = np.bincount(own, weights * values) / mass
    away = values - mean[own]
    variance = np.bincount(own, weights * away**2) / mass
    third = np.bincount(own, weights * away**3) / mass
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.where(variance > 0, third / (2 * variance), 0.0)
    reach = np.sqrt(skew**2 + variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.where(reach > 0, (1 - skew / reach) / 2, 0.5)
    nodes = np.concatenate([mean + skew - reach, mean + skew + reach])
    return np.maximum(nodes, 0.0), np.concatenate([mass * (1 - upper), mass * upper])
