"""The joint Gaussian law of target scores and layer scores (1.6)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from attnlaw.records import Overlaps

ROUNDING = 1e-18


class ScoreLaw(NamedTuple):
    """z0 = spread ζ0 and ω = slope ζ0 + free ζ1, with ζ0 and ζ1 independent standard normal.

    spread = √(Q0 + Δ/2), slope = m/spread, free = √(q − m²/(Q0 + Δ/2)).
    """

    spread: Any
    slope: Any
    free: Any

    @classmethod
    def of(cls, overlaps: Overlaps, target_power: Any, noise: Any) -> "ScoreLaw":
        """The law at q, m, for a target of power Q0 and label noise Δ.

        Where `overlaps` gives 1 − ρ² the free part keeps its relative accuracy however small.
        """
        q, m, _, misalignment = overlaps
        variance = target_power + noise / 2
        if misalignment is None:
            square = q - m**2 / variance
        else:
            square = q * misalignment + m**2 * noise / (2 * target_power * variance)
        free = jnp.sqrt(jnp.maximum(square, ROUNDING**2 * q))
        return cls(jnp.sqrt(variance), m / jnp.sqrt(variance), free)

    def scores(self, points: Any) -> tuple[Any, Any]:
        """(z0, ω) from standard normal points (2, K, N)."""
        return self.spread * points[0], self.slope * points[0] + self.free * points[1]
