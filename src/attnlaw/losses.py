"""Losses of one sequence as functions of the labels and the attention weights."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])
@dataclass(frozen=True)
class SquareLoss:
    """ℓ(Y, A) = Σ_ab (Y_ab − A_ab)², all T² entries, no 1/T (theory (1.4))."""

    def entry(self, labels: Any, weights: Any) -> Any:
        """(Y_ab − A_ab)², entry by entry."""
        return (labels - weights) ** 2

    def __call__(self, labels: Any, weights: Any) -> Any:
        """The loss of each sequence, labels and weights of shape (T, T, N)."""
        return jnp.sum(self.entry(labels, weights), axis=(0, 1))
