"""Scrambled Sobol points mapped to standard normals: the deterministic Gaussian average."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


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
