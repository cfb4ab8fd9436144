"""Scrambled Sobol points mapped to standard normals: the deterministic Gaussian average."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LARGEST_CHUNK = 1024


@lru_cache(maxsize=8)
def normal_points(pairs: int, count: int, scrambles: int, seed: int) -> FloatArray:
    """Standard normal points (scrambles, 2, pairs, count), independent between scrambles.

    Args:
        pairs: coordinates of each of the two Gaussian vectors (ζ0, ζ1).
        count: points in a scramble, a power of two.
        scrambles: independent Owen scrambles, for an error bar.
        seed: the same seed gives the same points.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    streams = np.random.SeedSequence(seed).spawn(scrambles)
    sets = []
    for stream in streams:
        sampler = qmc.Sobol(2 * pairs, rng=np.random.default_rng(stream))
        uniform = sampler.random_base2(int(np.log2(count)))
        sets.append(ndtri(np.clip(uniform, 1e-16, 1 - 1e-16)).T.reshape(2, pairs, count))
    return np.stack(sets)


def in_chunks(points: FloatArray, size: int = LARGEST_CHUNK) -> FloatArray:
    """Points (…, 2, pairs, count) as chunks (…, chunks, 2, pairs, size)."""
    *front, two, pairs, count = points.shape
    size = min(size, count)
    split = points.reshape(*front, two, pairs, count // size, size)
    return np.ascontiguousarray(np.moveaxis(split, -2, len(front)))


def mean_over_chunks(function: Callable[[Any], Any], chunks: Any, used: Any) -> Any:
    """Mean of the answers of `function` to the first `used` chunks; zero when there is none."""
    shape = jax.eval_shape(function, chunks[0])
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)

    def add(index: Any, total: Any) -> Any:
        return jax.tree.map(jnp.add, total, function(chunks[index]))

    total = jax.lax.fori_loop(0, used, add, nothing)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(used, 1), total)
