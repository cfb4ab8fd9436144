"""The unknowns that the theory solves for, of order one over decades of the weight decay.

Plain coordinates are (log(q/(r² Q0)), atanh ρ, log Σ) with ρ = m/√(q Q0). The coordinates multiply
the first by k, the inverse of √(1 − ρ² Q0/(Q0 + Δ/2)): the share of the noisy target scores that
the layer's scores leave undetermined. Where noiseless labels bring ρ within 10⁻¹⁰ of 1, the test
error hangs on the scale of S to that precision, and k measures the scale in that unit.

Every function takes NumPy and JAX numbers alike.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnlaw.problem import Problem
from attnlaw.records import Overlaps

LEAST_MISALIGNMENT = 1e-30


def to_coordinates(problem: Problem, overlaps: Overlaps) -> Any:
    """Coordinates (3, …) of order parameters."""
    q, m, sigma, misalignment = overlaps
    xp, power = _namespace(q), problem.target_power
    rho = xp.clip(m / xp.sqrt(q * power), -1.0, 1.0)
    if misalignment is None:
        misalignment = 1 - rho**2
    least = xp.maximum(misalignment, LEAST_MISALIGNMENT)
    angle = xp.sign(rho) * (xp.log1p(xp.abs(rho)) - xp.log(least) / 2)
    scale = xp.log(q / (problem.scale_of_target**2 * power))
    return xp.stack([sharpness(problem, angle) * scale, angle, xp.log(sigma)])


def from_coordinates(problem: Problem, coordinates: Any) -> Overlaps:
    """Order parameters, 1 − ρ² among them."""
    xp, power, angle = _namespace(coordinates), problem.target_power, coordinates[1]
    scale = coordinates[0] / sharpness(problem, angle)
    q = problem.scale_of_target**2 * power * xp.exp(scale)
    m = xp.tanh(angle) * xp.sqrt(q * power)
    return Overlaps(q, m, xp.exp(coordinates[2]), 1 / xp.cosh(angle) ** 2)


def sharpness(problem: Problem, angle: Any) -> Any:
    """k at a given atanh ρ."""
    xp = _namespace(angle)
    undetermined = problem.noise / 2 + problem.target_power / xp.cosh(angle) ** 2
    return xp.sqrt(problem.score_variance / undetermined)


def slopes(problem: Problem, coordinates: Any) -> tuple[Any, Any]:
    """Derivative of the coordinates in the plain ones (3, 3), and of (q, m, Σ, 1 − ρ²) in them."""
    angle, k = coordinates[1], sharpness(problem, coordinates[1])
    overlaps = from_coordinates(problem, coordinates)
    misalignment = overlaps.misalignment
    share = problem.target_power * misalignment / problem.score_variance
    stretch = np.eye(3)
    stretch[0] = k, coordinates[0] * np.tanh(angle) * k**2 * share, 0.0
    across = (overlaps.q * problem.target_power) ** 0.5 * misalignment
    plain = np.array(
        [
            [overlaps.q, 0.0, 0.0],
            [overlaps.m / 2, across, 0.0],
            [0.0, 0.0, overlaps.sigma],
            [0.0, -2 * np.tanh(angle) * misalignment, 0.0],
        ]
    )
    return stretch, plain


def _namespace(value: Any) -> Any:
    return jnp if isinstance(value, jax.Array) else np
