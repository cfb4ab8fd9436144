"""The density of μ_δ on the real axis by Biane's parametrisation (theory §2).

For real u, v(u) ≥ 0 solves ∫ μ0(ds)/((u−s)² + v²) = 1/δ²; then x = u + δ²∫(u−s)μ0(ds)/((u−s)²+v²)
carries density ρ(x) = v/(πδ²). No root has to be selected. Plain NumPy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_HALVINGS = 60
_SETTLED = 1e-14
_CLOSEST = 1e-16


def height(law: Any, noise_level: float, u: FloatArray) -> FloatArray:
    """v(u): zero outside the support, else between 0 and δ.

    Newton's steps in v² on the reciprocal of the integral, which is concave in it, within a bracket
    that is halved on a logarithmic scale where a step leaves it.
    """
    shape, u = u.shape, u.ravel()
    low = np.full(u.shape, 1e-14 * noise_level)
    answer = np.zeros(u.shape)
    (left,) = np.nonzero(_pull(law, u, low) > noise_level**-2)
    low, high = low[left], np.full(left.shape, noise_level * (1 + 1e-12))
    v = np.sqrt(low * high)
    for _ in range(_HALVINGS):
        g, slope = law.cauchy_pair(u[left] + 1j * v)
        pull = -g.imag / v
        by_square = (-slope.real - pull) / (2 * v**2)
        above = pull > noise_level**-2
        low, high = np.where(above, v, low), np.where(above, high, v)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = np.sqrt(v**2 + (1 / pull - noise_level**2) * pull**2 / by_square)
        new = np.where((low <= new) & (new <= high), new, np.sqrt(low * high))
        answer[left] = new
        moving = np.abs(new - v) > _SETTLED * v
        left, low, high, v = left[moving], low[moving], high[moving], new[moving]
        if not left.size:
            break
    return answer.reshape(shape)


def position(law: Any, noise_level: float, u: FloatArray, v: FloatArray) -> FloatArray:
    """x(u) = Re H(u + iv)."""
    w = u + 1j * v
    return np.asarray((w + noise_level**2 * law.cauchy(w)).real)


def edges(law: Any, noise_level: float) -> FloatArray:
    """The intervals of u where v(u) > 0, as rows (left, right), sorted."""
    blocks = law.blocks()
    lefts, rights = blocks[:, 0], blocks[:, 1]
    opening = _outer_edge(law, noise_level, lefts[0], -1.0)
    closing = _outer_edge(law, noise_level, rights[-1], 1.0)
    starts, ends = [opening], []
    for near, far in _candidate_gaps(law, noise_level, rights[:-1], lefts[1:]):
        bottom = _lowest(law, near, far)
        if _strength(law, bottom) < noise_level**-2:
            ends.append(_crossing(law, noise_level, near, bottom))
            starts.append(_crossing(law, noise_level, far, bottom))
    return np.array([starts, [*ends, closing]]).T


def intervals(law: Any, noise_level: float) -> FloatArray:
    """The support of μ_δ as rows (left, right) on the x axis."""
    u = edges(law, noise_level)
    return position(law, noise_level, u, np.zeros_like(u))


def arguments(law: Any, noise_level: float, x: float, between: FloatArray) -> FloatArray:
    """u with x(u) = x, or none outside the support; between: the intervals of `edges`."""
    from scipy.optimize import brentq

    def excess(u: float) -> float:
        own = np.array([u])
        return float(position(law, noise_level, own, height(law, noise_level, own))[0]) - x

    held = [(left, right) for left, right in between if excess(left) < 0 < excess(right)]
    return np.array([brentq(excess, *pair, xtol=1e-14) for pair in held])


def density(law: Any, noise_level: float, x: FloatArray) -> FloatArray:
    """ρ_δ(x) at points x of any shape."""
    shape, x = np.shape(x), np.ravel(np.asarray(x, dtype=float))
    answer = np.zeros(x.size)
    for left, right in edges(law, noise_level):
        ends = position(law, noise_level, np.array([left, right]), np.zeros(2))
        inside = (x > ends[0]) & (x < ends[1])
        if inside.any():
            answer[inside] = _density_inside(law, noise_level, left, right, x[inside])
    return answer.reshape(shape)


def _density_inside(
    law: Any, noise_level: float, left: float, right: float, x: FloatArray
) -> FloatArray:
    """Bisection on u: x(u) is increasing."""
    low, high = np.full(x.shape, left), np.full(x.shape, right)
    for _ in range(_HALVINGS):
        u = (low + high) / 2
        below = position(law, noise_level, u, height(law, noise_level, u)) < x
        low, high = np.where(below, u, low), np.where(below, high, u)
    u = (low + high) / 2
    return _polished(law, noise_level, u + 1j * height(law, noise_level, u), x) / (
        np.pi * noise_level**2
    )


def _polished(law: Any, noise_level: float, w: Any, x: FloatArray) -> FloatArray:
    """Im w after Newton steps on H(w) = x, kept where they lower the residual."""
    for _ in range(3):
        g, slope = law.cauchy_pair(w)
        residual = w + noise_level**2 * g - x
        trial = w - residual / (1 + noise_level**2 * slope)
        better = np.abs(trial + noise_level**2 * law.cauchy(trial) - x) < np.abs(residual)
        w = np.where(better & (trial.imag > 0), trial, w)
    return np.asarray(w.imag)


def _pull(law: Any, u: FloatArray, v: FloatArray) -> FloatArray:
    """∫ μ0(ds)/((u−s)² + v²) = −Im g0(u + iv)/v."""
    return np.asarray(-law.cauchy(u + 1j * v).imag / v)


def _strength(law: Any, u: float) -> float:
    """∫ μ0(ds)/(u−s)² = −g0′(u) off the support; infinite at its ends."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(-law.cauchy_pair(np.asarray(u + 0j))[1].real)
    return value if np.isfinite(value) else np.inf


def _outer_edge(law: Any, noise_level: float, end: float, side: float) -> float:
    return _crossing(law, noise_level, end, end + side * noise_level * (1 + 1e-12))


def _crossing(law: Any, noise_level: float, near: float, far: float) -> float:
    """Where −g0′ falls through 1/δ² between a support end and a point beyond, on a log scale."""
    from scipy.optimize import brentq

    length = far - near

    def excess(log_share: float) -> float:
        strength = _strength(law, near + length * float(np.exp(log_share)))
        return float(np.log(min(strength, 1e300)) + 2 * np.log(noise_level))

    closest = np.log(_CLOSEST)
    if excess(closest) <= 0:
        return float(near + length * _CLOSEST)
    if excess(0.0) >= 0:
        return float(far)
    return float(near + length * np.exp(brentq(excess, closest, 0.0, xtol=1e-14)))


def _candidate_gaps(
    law: Any, noise_level: float, lefts: FloatArray, rights: FloatArray
) -> list[tuple[float, float]]:
    """Gaps of μ0 wide enough to stay open: at the middle, −g0′ must be able to fall below 1/δ²."""
    gaps = [(a, b) for a, b in zip(lefts, rights, strict=True)]
    weight = getattr(law, "weights", None)
    if weight is None:
        return gaps
    least = float(np.min(weight))
    return [(a, b) for a, b in gaps if (b - a) > 2 * noise_level * least**0.5]


def _lowest(law: Any, left: float, right: float) -> float:
    """Minimiser of −g0′ in a gap, where it is convex."""
    from scipy.optimize import minimize_scalar

    width = right - left
    found = minimize_scalar(
        lambda t: np.log(_strength(law, left + width * t)),
        bounds=(1e-9, 1 - 1e-9),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(left + width * found.x)
