"""The law μ_δ of S0 + δZ, Z a GOE matrix, and its integrals above a threshold (theory §2).

The subordination map H(w) = w + δ² g0(w) carries a domain of the upper half plane onto the upper
half plane, and the Cauchy transform of μ_δ at z = H(w) is g0(w). Every integral over x > ε is
therefore taken in the w plane, on a half circle from the point w(ε) to a real point right of the
support: there z, g and dz are explicit, no equation is solved along the path, and the integrand
stays analytic at the start even when ε lies inside the support.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attnlaw.numerics.contour import graded_half_circle

_BISECTIONS = 60
_DESCENT = 50


class Integrals(NamedTuple):
    """Integral of (x − ε)² μ_δ(dx) over one side of ε, its derivatives in δ and ε, and the mass."""

    second: Any
    noise_derivative: Any
    threshold_derivative: Any
    mass: Any


class UpperIntegrals(NamedTuple):
    """Integrals of μ_δ above ε: J, ∂J/∂δ, ∂J/∂ε, F̄ = μ_δ((ε, ∞)), and the right edge."""

    second: Any
    noise_derivative: Any
    threshold_derivative: Any
    mass: Any
    right_edge: Any


def subordination(law: Any, noise_level: Any, w: Any) -> Any:
    """z = H(w) = w + δ² g0(w)."""
    return subordination_pair(law, noise_level, w)[0]


def subordination_pair(law: Any, noise_level: Any, w: Any) -> tuple[Any, Any]:
    """H(w) and H′(w)."""
    g, slope = law.cauchy_pair(w)
    return w + noise_level**2 * g, 1 + noise_level**2 * slope


def right_edge_point(law: Any, noise_level: Any) -> Any:
    """The real u₊ right of the support of μ0 with −g0′(u₊) = 1/δ²; μ_δ ends at H(u₊).

    −g0′ falls from ∞ (or a finite value, then the edge sits at the support's end) to 0, and
    u₊ − max supp μ0 ≤ δ, so bisection on the logarithm of the distance finds it.
    """

    def halve(_: int, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
        near, far = bracket
        middle = jnp.sqrt(near * far)
        inside = subordination_pair(law, noise_level, law.upper + middle + 0j)[1].real < 0
        return jnp.where(inside, middle, near), jnp.where(inside, far, middle)

    start = (noise_level * 1e-16, noise_level * (1 + 1e-12))
    _, far = jax.lax.fori_loop(0, _BISECTIONS, halve, start)
    return law.upper + far


def boundary_point(law: Any, noise_level: Any, x: Any, height: Any) -> Any:
    """w(x + i0): the limit of the inverse of H, followed down from x + i·height by Newton steps.

    The inverse of H is analytic in the upper half plane, so halving the height and correcting
    twice cannot leave its branch; the last steps are taken on the real axis itself.
    """

    def descend(step: int, w: Any) -> Any:
        halvings = step // 2
        y = jnp.where(halvings < _DESCENT, height * 2.0**-halvings, 0.0)
        image, slope = subordination_pair(law, noise_level, w)
        w = w - (image - (x + 1j * y)) / slope
        return w.real + 1j * jnp.maximum(w.imag, y)

    return jax.lax.fori_loop(0, 2 * (_DESCENT + 2), descend, x + 1j * (height + noise_level))


def upper_integrals(
    law: Any, noise_level: Any, threshold: Any, levels: int = 26, order: int = 16
) -> UpperIntegrals:
    """J(δ, ε) = ∫_ε^∞ (x − ε)² μ_δ(dx), its derivatives and F̄(ε); (2.1)–(2.5).

    Args:
        law: target law.
        noise_level: δ > 0.
        threshold: ε, any real number; at or beyond the right edge every integral is zero.
        levels, order: panels of the contour and Gauss–Legendre nodes on each.
    """
    return both_integrals(law, noise_level, threshold, levels, order)[0]


def both_integrals(
    law: Any, noise_level: Any, threshold: Any, levels: int = 26, order: int = 16
) -> tuple[UpperIntegrals, Integrals]:
    """Integrals above ε, and for ε ≥ 0 those below, each with its own relative accuracy.

    A law with no negative eigenvalue has −g0′(−δ) ≤ 1/δ², so that H(−δ) lies left of μ_δ.
    """
    edge_point = right_edge_point(law, noise_level)
    edge = subordination(law, noise_level, edge_point + 0j).real
    start = boundary_point(law, noise_level, threshold, edge + noise_level + jnp.abs(threshold))
    beyond = jnp.stack([edge_point, -noise_level])
    side = jnp.array([1.0, -1.0])[:, None]
    end = beyond[:, None] + side * jnp.abs(beyond[:, None] - start) / 2
    angles, weights = graded_half_circle(levels, order)
    radius = (end - start) / 2
    turn = jnp.exp(-side * 1j * angles)
    w = start + radius * (1 - turn)
    g, slope = law.cauchy_pair(w)
    z = w + noise_level**2 * g - threshold
    dz = (1 + noise_level**2 * slope) * (1j * radius * turn * weights)

    def integral(values: Any) -> Any:
        return jnp.sum(values * dz, axis=-1).imag / jnp.pi

    sides = jnp.stack(
        [
            -integral(z * z * g),
            -2 * noise_level * integral(z * g * g),
            2 * integral(z * g),
            -integral(g),
        ]
    )
    upper = Integrals(*jnp.where(threshold < edge, sides[:, 0], 0.0))
    return UpperIntegrals(*upper, edge), Integrals(*sides[:, 1])


@jax.jit
def compiled_boundary_point(law: Any, noise_level: Any, x: Any) -> Any:
    """`boundary_point`, compiled, started above the whole support."""
    edge = subordination(law, noise_level, right_edge_point(law, noise_level) + 0j).real
    return boundary_point(law, noise_level, x, edge + noise_level + jnp.abs(x))


@partial(jax.jit, static_argnames=("levels", "order"))
def compiled_upper_integrals(
    law: Any, noise_level: Any, threshold: Any, levels: int = 26, order: int = 16
) -> UpperIntegrals:
    """`upper_integrals`, compiled, for thresholds of any shape."""
    flat = jnp.ravel(jnp.asarray(threshold, dtype=float))
    rows = jax.lax.map(lambda t: upper_integrals(law, noise_level, t, levels, order), flat)
    return UpperIntegrals(*(jnp.reshape(row, np.shape(threshold)) for row in rows))
