"""Penalties on the trained weights."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from attnlaw.numerics.checks import require_nonnegative


@partial(jax.tree_util.register_dataclass, data_fields=["weight_decay"], meta_fields=[])
@dataclass(frozen=True)
class WeightDecay:
    """λ‖W‖²_F on the factor W: a nuclear norm d λ̃ ‖S‖_* on S, λ̃ = √κ λ (theory (1.5)).

    Args:
        weight_decay: λ ≥ 0.

    Raises:
        ValueError: λ is negative or not finite.
    """

    weight_decay: float

    def __post_init__(self) -> None:
        require_nonnegative("weight_decay", self.weight_decay)

    def scaled(self, width_ratio: Any) -> Any:
        """λ̃ = √κ λ, the penalty that S sees."""
        return width_ratio**0.5 * self.weight_decay
