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

_STEEPEST, _NEAR_ENOUGH, _MOST_SECANTS = 80.0, 1e-10, 60
_DESCENT, _FASTEST, _MOST_DESCENTS = 50, 8.0, 150
_CONTRACTION = 0.1


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
    u₊ − max supp μ0 ≤ δ. The logarithm of −g0′ is nearly straight over that of the distance, so
    secants of a bracket find it (Pegasus rule). H is stationary there: its error is squared in the
    edge.
    """

    def excess(distance: Any) -> Any:
        _, slope = law.cauchy_pair(law.upper + jnp.exp(distance) + 0j)
        value = jnp.log(-slope.real) + 2 * jnp.log(noise_level)
        return jnp.where(jnp.isfinite(value), jnp.clip(value, -_STEEPEST, _STEEPEST), _STEEPEST)

    near, far = jnp.log(noise_level * 1e-16), jnp.log(noise_level * (1 + 1e-12))

    def cut(state: _Secant) -> _Secant:
        slope = (state.at_new - state.at_old) / (state.new - state.old)
        inside = (state.new - state.at_new / slope).clip(near, far)
        new = jnp.where(state.count == 0, near, jnp.where(state.count == 1, far, inside))
        at_new = excess(new)
        crossed = at_new * state.at_new < 0
        shrunk = state.at_old * state.at_new / (state.at_new + at_new)
        return _Secant(
            jnp.where(crossed, state.new, state.old),
            jnp.where(crossed, state.at_new, shrunk),
            new,
            at_new,
            jnp.abs(new - state.new),
            state.count + 1,
        )

    def unsettled(state: _Secant) -> Any:
        far_off = (state.step > _NEAR_ENOUGH) & (state.at_new != 0)
        return (state.count < 2) | (far_off & (state.count < _MOST_SECANTS))

    found = jax.lax.while_loop(unsettled, cut, _Secant(near, 1.0, near, 1.0, jnp.inf, 0))
    return law.upper + jnp.exp(found.new)


class _Secant(NamedTuple):
    """Ends of a bracket, the excess there, and the last step."""

    old: Any
    at_old: Any
    new: Any
    at_new: Any
    step: Any
    count: Any


def boundary_point(law: Any, noise_level: Any, x: Any, height: Any) -> Any:
    """w(x + i0): the limit of the inverse of H, followed down from x + i·height by Newton steps.

    The inverse of H is analytic in the upper half plane, so halving the height and correcting
    twice cannot leave its branch. While the second correction is much shorter than the first, the
    height falls faster, by the square of the last factor; where it is not, the fall is taken back
    and made slower. The last steps are taken on the real axis itself.
    """

    def correct(_: int, state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        w, y, _, last = state
        image, slope = subordination_pair(law, noise_level, w)
        move = (x + 1j * y - image) / slope
        return (w + move).real + 1j * jnp.maximum((w + move).imag, y), y, last, jnp.abs(move)

    def descend(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        w, y, halvings, count = state
        lower = jnp.where(y < height * 2.0**-_DESCENT, 0.0, y * 2.0**-halvings)
        new, _, first, second = jax.lax.fori_loop(0, 2, correct, (w, lower, 0.0, 0.0))
        converging = second <= jnp.maximum(_CONTRACTION * first, 1e-13 * jnp.abs(new))
        kept = converging | (halvings <= 1)
        return (
            jnp.where(kept, new, w),
            jnp.where(kept, lower, y),
            jnp.where(converging, jnp.minimum(2 * halvings, _FASTEST), halvings / 4).clip(1),
            count + 1,
        )

    def above(state: tuple[Any, Any, Any, Any]) -> Any:
        return (state[1] > 0) & (state[3] < _MOST_DESCENTS)

    start = (x + 1j * (height + noise_level), height + 0.0, 1.0, 0)
    return jax.lax.while_loop(above, descend, start)[0]


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
    side = np.array([1.0, -1.0])[:, None]
    end = beyond[:, None] + side * jnp.abs(beyond[:, None] - start) / 2
    angles, weights = graded_half_circle(levels, order)
    radius = (end - start) / 2
    turn = np.exp(-side * 1j * angles)
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


@partial(jax.jit, static_argnames=("levels", "order"))
def compiled_upper_integrals(
    law: Any, noise_level: Any, threshold: Any, levels: int = 26, order: int = 16
) -> UpperIntegrals:
    """`upper_integrals`, compiled, for thresholds of any shape."""
    flat = jnp.ravel(jnp.asarray(threshold, dtype=float))
    rows = jax.lax.map(lambda t: upper_integrals(law, noise_level, t, levels, order), flat)
    return UpperIntegrals(*(jnp.reshape(row, np.shape(threshold)) for row in rows))
