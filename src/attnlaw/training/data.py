"""Sequences drawn from a problem: Gaussian tokens, noisy labels of a target layer (theory §1)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count
from attnlaw.numerics.memory import require_memory
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem, require_problem

FloatArray = NDArray[np.float64]

CHUNK = 1024


class Chunk(NamedTuple):
    """Sequences in the layout of the solver: tokens (T, B, d), labels (T, T, B), weight (B)."""

    tokens: Any
    labels: Any
    weight: Any


@dataclass(frozen=True)
class Data:
    """Training sequences with the target that labelled them.

    Attributes:
        problem: the problem that they were drawn from.
        dim: d.
        count: n = αd², to the nearest whole number.
        target: the drawn S0, d×d.
        chunks: tokens (C, T, B, d), labels (C, T, T, B) and weights (C, B), zero where padded.
        key: the random key that reproduces the draw.
    """

    problem: Problem
    dim: int
    count: int
    target: FloatArray = field(repr=False)
    chunks: Chunk = field(repr=False)
    key: jax.Array = field(repr=False)

    @property
    def width(self) -> int:
        """p = κd, to the nearest whole number and at least one."""
        return max(1, round(self.problem.width_ratio * self.dim))

    @property
    def target_eigenvalues(self) -> FloatArray:
        """Eigenvalues of the drawn S0, sorted; those of rank deficiency set to zero."""
        values = np.linalg.eigvalsh(self.target)
        return np.where(values > 1e-10 * values[-1], values, 0.0)

    @property
    def target_power(self) -> float:
        """Tr S0²/d of the drawn target."""
        return float(np.sum(self.target**2) / self.dim)

    @property
    def tokens(self) -> FloatArray:
        """Tokens of shape (n, T, d)."""
        stacked = np.moveaxis(np.asarray(self.chunks.tokens), 1, 2)
        return stacked.reshape(-1, *stacked.shape[2:])[: self.count]

    @property
    def labels(self) -> FloatArray:
        """Labels Y of shape (n, T, T)."""
        stacked = np.moveaxis(np.asarray(self.chunks.labels), 3, 1)
        return stacked.reshape(-1, *stacked.shape[2:])[: self.count]


@in_float64
def sample(problem: Problem, dim: int, key: jax.Array) -> Data:
    """Draw a target and n = αd² labelled sequences; theory (1.1)–(1.3).

    Args:
        problem: the problem; κ0 d must be at least 1 for a Gaussian target.
        dim: d ≥ 2.
        key: a JAX random key; the same key gives the same data.

    Returns:
        The `Data`.

    Raises:
        ValueError: a dimension that does not fit the target, no sequences, a size beyond the
            memory of this machine, or a key that is none.

    Example:
        >>> import jax
        >>> sample(Problem(sample_ratio=0.5), 20, jax.random.key(0)).count
        200
    """
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        raise ValueError(f"key must be a JAX random key, got {key!r}; use jax.random.key(0)")
    count = check_drawable(problem, dim)
    number = -(-count // CHUNK)
    size = min(CHUNK, count)
    target_key, data_key = jax.random.split(key)
    target = problem.target.draw(dim, target_key)
    drawn = [
        labelled_chunk(problem, target, size, jax.random.fold_in(data_key, index))
        for index in range(number)
    ]
    weight = jnp.ones((number, size)).at[-1].set(jnp.arange(size) < count - (number - 1) * size)
    chunks = Chunk(
        jnp.stack([chunk.tokens for chunk in drawn]),
        jnp.stack([chunk.labels for chunk in drawn]),
        weight,
    )
    return Data(problem, dim, count, np.asarray(target), chunks, key)


def check_drawable(problem: Problem, dim: int) -> int:
    """The number of sequences at dimension d; refuses what cannot be drawn or will not fit.

    Raises:
        ValueError: a dimension that does not fit the target, no sequences, or a size beyond the
            memory of this machine.
    """
    require_problem(problem)
    require_count("dim", dim, 2)
    problem.target.check_dim(dim)
    count = round(problem.sample_ratio * dim**2)
    if count < 1:
        raise ValueError(
            f"sample_ratio * dim² must be at least 1, got {problem.sample_ratio} * {dim}² = "
            f"{problem.sample_ratio * dim**2:g}; raise dim or sample_ratio"
        )
    tokens = problem.attention.tokens
    width = max(1.0, problem.width_ratio * dim)
    padded = count + CHUNK
    needed = 8.0 * padded * (tokens * dim + tokens**2) + 8.0 * 50 * dim * (dim + width)
    needed += 8.0 * dim * dim * getattr(problem.target, "target_rank_ratio", 1.0)
    what = f"{count} sequences of {tokens} tokens at dim = {dim}, width {width:.0f}"
    require_memory(needed, what, "lower dim, alpha or kappa")
    return count


def fresh_chunks(
    problem: Problem, target: Any, count: int, key: jax.Array
) -> Iterator[tuple[Chunk, Any]]:
    """Fresh test sequences in chunks, each with its noiseless labels beside the noisy ones."""
    for index in range(-(-count // CHUNK)):
        yield _labelled(problem, target, CHUNK, jax.random.fold_in(key, index))


def labelled_chunk(problem: Problem, target: Any, size: int, key: jax.Array) -> Chunk:
    """One chunk of labelled sequences."""
    return _labelled(problem, target, size, key)[0]


@partial(jax.jit, static_argnames="size")
def _labelled(problem: Problem, target: Any, size: int, key: jax.Array) -> tuple[Chunk, Any]:
    token_key, noise_key = jax.random.split(key)
    count, dim = problem.attention.tokens, target.shape[0]
    tokens = jax.random.normal(token_key, (count, size, dim), dtype=float)
    scores = map_scores(tokens, target)
    raw = jax.random.normal(noise_key, (count, count, size), dtype=float)
    # variance Δ on the diagonal, Δ/2 off it (1.3)
    noise = (raw + jnp.swapaxes(raw, 0, 1)) / 2 * jnp.sqrt(problem.noise)
    clean = problem.attention.labels(scores)
    labels = problem.attention.labels(scores + noise)
    return Chunk(tokens, labels, jnp.ones(size)), clean


def map_scores(tokens: Any, matrix: Any) -> Any:
    """h_ab = (x_aᵀ S x_b − δ_ab Tr S)/√d for tokens (T, B, d), as (T, T, B); (1.1)."""
    count, size, dim = tokens.shape
    moved = (tokens.reshape(-1, dim) @ matrix).reshape(count, size, dim)
    return pair_scores(moved, tokens, jnp.trace(matrix)) / dim**0.5


def pair_scores(left: Any, right: Any, centre: Any) -> Any:
    """left_a · right_b − δ_ab·centre for (T, B, k) arrays of a symmetric form, as (T, T, B)."""
    count = left.shape[0]
    entry: dict[tuple[int, int], Any] = {}
    for a in range(count):
        for b in range(a, count):
            value = jnp.sum(left[a] * right[b], axis=-1) - (centre if a == b else 0.0)
            entry[a, b] = entry[b, a] = value
    return jnp.stack([jnp.stack([entry[a, b] for b in range(count)]) for a in range(count)])
