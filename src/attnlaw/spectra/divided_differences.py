"""Averages over μ_δ on the real axis: of pairs in (4.5), of the squared density in (9.2).

The law is integrated along Biane's curve: with w = u + iv(u) on it, x = H(w) is real and
μ_δ(dx) = v/(πδ²) · |H′(w)|²/Re H′(w) du, so no density has to be inverted and nothing is offset
from the axis. Panels end where the curve meets the axis, between the blocks of the target, and at
ε, towards which they are graded.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.spectra import biane
from attnlaw.spectra.free_convolution import subordination_pair

FloatArray = NDArray[np.float64]

# panels wider than this share of the whole are cut further, and all where there are few
WIDE, FEW = 0.02, 20
# levels and order of both kinds
FINE, COARSE = (7, 8), (0, 5)


class PairMeans(NamedTuple):
    """Means of D(x, y) = ((x−ε)₊ − (y−ε)₊)/(x−y) and of D² over μ_δ × μ_δ; and F̄(ε)."""

    first: float
    second: float
    mass: float


def pair_means(law: Any, noise_level: float, threshold: float) -> PairMeans:
    """∬ D and R = ∬ D², D = 1 where both lie above ε and 0 where both lie below; (2.6), (4.5).

    The first is ∂_δJ/(2δ).

    Args:
        law: target law.
        noise_level: δ > 0.
        threshold: ε.
    """
    x, weights, _ = axis_rule(law, noise_level, threshold)
    over = x > threshold
    mass = float(weights[over].sum())
    above = (x[over] - threshold)[:, None]
    share = above / (above + (threshold - x[~over]))
    both = weights[over] @ share @ weights[~over], weights[over] @ share**2 @ weights[~over]
    return PairMeans(mass**2 + 2 * float(both[0]), mass**2 + 2 * float(both[1]), mass)


def axis_rule(
    law: Any, noise_level: float, split: float | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points x on the support of μ_δ, their weights, of sum one, and the density there.

    Args:
        law: target law.
        noise_level: δ > 0.
        split: where the integrand has a kink, which panels are graded towards.
    """
    intervals = biane.edges(law, noise_level)
    cuts = _middles(law)
    if split is not None:
        cuts = np.sort(np.append(cuts, biane.arguments(law, noise_level, split, intervals)))
    ends = [
        np.concatenate([[left], cuts[(cuts > left) & (cuts < right)], [right]])
        for left, right in intervals
    ]
    lefts = np.concatenate([own[:-1] for own in ends])
    rights = np.concatenate([own[1:] for own in ends])
    width = rights - lefts
    wide = (width > WIDE * width.sum()) | (width.size <= FEW)
    parts = [
        (lefts[kind, None] + width[kind, None] * share, width[kind, None] * rule)
        for kind, (share, rule) in ((wide, _graded_rule(*FINE)), (~wide, _graded_rule(*COARSE)))
    ]
    u, du = (np.concatenate([part.ravel() for part in own]) for own in zip(*parts, strict=True))
    v = biane.height(law, noise_level, u)
    inside = v > 0
    u, v, du = u[inside], v[inside], du[inside]
    image, slope = subordination_pair(law, noise_level, u + 1j * v)
    density = v / (np.pi * noise_level**2)
    weights = density * np.abs(slope) ** 2 / slope.real * du
    return np.asarray(image.real), np.asarray(weights), density


def _middles(law: Any) -> FloatArray:
    """Ends of the target's blocks and the middles of the gaps between them."""
    blocks = law.blocks()
    gaps = (blocks[:-1, 1] + blocks[1:, 0]) / 2
    wide = blocks[blocks[:, 1] > blocks[:, 0]]
    return np.unique(np.concatenate([gaps, wide.ravel()]))


@cache
def _graded_rule(levels: int, order: int) -> tuple[FloatArray, FloatArray]:
    """Points in (0, 1) and weights, panels halving towards both ends, where roots may vanish."""
    nodes, rule = np.polynomial.legendre.leggauss(order)
    half = 2.0 ** np.arange(-levels, 0)
    cuts = np.unique(np.concatenate([[0.0], half, 1 - half, [1.0]]))
    left, right = cuts[:-1, None], cuts[1:, None]
    points = (left + right) / 2 + (right - left) / 2 * nodes
    # t ↦ t²(3 − 2t) on the whole takes square roots at both ends away
    t, weights = points.ravel(), ((right - left) / 2 * rule).ravel()
    return t * t * (3 - 2 * t), weights * 6 * t * (1 - t)
