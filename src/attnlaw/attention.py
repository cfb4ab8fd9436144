"""Attention layers as score geometry: which scores there are and what the softmax sees of them.

Scores live in unit coordinates z_ab = h_ab/√(1+δ_ab), a ≤ b, all with the same variance (theory
(1.6)). The softmax of a row ignores a constant added to the row, so only K_eff = (T²+T−2)/2
combinations of the K = T(T+1)/2 unit coordinates matter; `score_basis` is an orthonormal basis of
them, and everything downstream works in those K_eff coordinates.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count, require_positive

FloatArray = NDArray[np.float64]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["beta", "target_beta"],
    meta_fields=["tokens"],
)
@dataclass(frozen=True)
class Tied:
    """Tied softmax attention A = softmax_rows(β h), h_ab = (x_aᵀ S x_b − δ_ab Tr S)/√d (1.1).

    S = W Wᵀ/√(pd) is positive semidefinite.

    Args:
        tokens: T ≥ 2, tokens in a sequence.
        beta: β > 0, inverse temperature of the trained layer.
        target_beta: β0 > 0, inverse temperature of the target.

    Raises:
        ValueError: an argument out of its range.
    """

    tokens: int = 2
    beta: float = 1.0
    target_beta: float = 1.0

    def __post_init__(self) -> None:
        require_count("tokens", self.tokens, 2, "one token has no softmax to learn from")
        require_positive("beta", self.beta)
        require_positive("target_beta", self.target_beta)

    @property
    def constraints(self) -> int:
        """K_eff = (T²+T−2)/2, the score combinations that the softmax sees."""
        return self.score_basis.shape[2]

    @property
    def score_basis(self) -> FloatArray:
        """(T, T, K_eff): row scores, up to row constants, from K_eff orthonormal coordinates."""
        return _tied_score_basis(self.tokens)

    def scores(self, coordinates: Any) -> Any:
        """Row scores (T, T, N) from reduced coordinates (K_eff, N)."""
        return jnp.einsum("abk,kn->abn", self.score_basis, coordinates)

    def weights(self, scores: Any) -> Any:
        """A = softmax_rows(β h) for scores (T, T, N)."""
        return jax.nn.softmax(self.beta * scores, axis=1)

    def labels(self, scores: Any) -> Any:
        """Y = softmax_rows(β0 h0) for target scores (T, T, N), noise included."""
        return jax.nn.softmax(self.target_beta * scores, axis=1)


@cache
def _tied_score_basis(tokens: int) -> FloatArray:
    rows, columns = np.triu_indices(tokens)
    fill = np.zeros((tokens, tokens, rows.size))
    for k, (a, b) in enumerate(zip(rows, columns, strict=True)):
        fill[a, b, k] = fill[b, a, k] = np.sqrt(2.0) if a == b else 1.0
    return seen_by_softmax(fill)


def seen_by_softmax(fill: FloatArray) -> FloatArray:
    """Restrict a linear map (T, T, K) of unit coordinates to the directions that the softmax sees.

    The directions are the row space of the map to within-row differences; the answer is the map
    composed with an orthonormal basis of it, its row means removed.
    """
    differences = fill - fill.mean(axis=1, keepdims=True)
    _, values, right = np.linalg.svd(differences.reshape(-1, fill.shape[2]))
    rank = int((values > 1e-10 * values[0]).sum())
    return differences @ right[:rank].T
