"""Quadrature nodes on a half circle, graded towards one end."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@cache
def graded_half_circle(levels: int = 26, order: int = 16) -> tuple[FloatArray, FloatArray]:
    """Angles and weights for an integral over (0, π), panels cut at π·2^(-j), j = 0..levels.

    Each panel carries a Gauss–Legendre rule of `order` nodes, so an integrand whose nearest
    singularity sits near angle 0 at any distance above π·2^(-levels) is integrated to the
    accuracy of one well-separated panel.
    """
    if levels < 1 or order < 2:
        raise ValueError(f"levels must be >= 1 and order >= 2, got {levels} and {order}")
    x, w = np.polynomial.legendre.leggauss(order)
    cuts = np.concatenate([[0.0], np.pi * 2.0 ** -np.arange(levels, -1, -1)])
    left, right = cuts[:-1, None], cuts[1:, None]
    angles = (left + right) / 2 + (right - left) / 2 * x
    weights = (right - left) / 2 * w
    return angles.ravel(), weights.ravel()
