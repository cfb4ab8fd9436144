"""Searches for fixed points: of which problem, from where, over how many Gaussian points."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.gaussian import LARGEST_CHUNK, in_chunks, normal_points
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem
from attnlaw.records import Overlaps
from attnlaw.theory.collapse import prepared
from attnlaw.theory.kernel import Jobs, Solved, map_test_errors, run
from attnlaw.theory.starts import Candidate

FloatArray = NDArray[np.float64]

SCRAMBLES, MAP_POINTS = 8, 2**12
TEST_FACTOR = 4
JOBS = 3
CHUNKS = 4
WORKERS = min(os.cpu_count() or 1, 8)

# shapes for which `run` has been compiled in this process
_COMPILED: set[Any] = set()


class Averages:
    """Gaussian points of one size.

    Args:
        pairs: K_eff.
        count: points in a scramble.
        seed: seed of the scrambles.
    """

    def __init__(self, pairs: int, count: int, seed: int) -> None:
        self.count = count
        self.flat = normal_points(pairs, count, SCRAMBLES, seed)
        test = normal_points(pairs, TEST_FACTOR * count, SCRAMBLES, seed + 2**32)
        size = min(LARGEST_CHUNK, count // CHUNKS)
        self.fine, self.test = in_chunks(self.flat, size), in_chunks(test, size)


def searched(
    problems: list[Problem],
    averages: Averages,
    rows: list[tuple[int, Candidate]],
    level: int,
    *,
    held: bool = False,
) -> Solved:
    """Searches from (problem, start), side by side on the machine's cores.

    The rows are dealt out to parts, each padded to one size, so that one program serves all. Where
    it may have to be compiled, one part is done before the others. A row's answer does not depend
    on the parts, nor on their number.
    """
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(prepared, problems))
    size = -(-JOBS * len(problems) // WORKERS)
    count = min(max(-(-len(rows) // size), WORKERS), len(rows))

    @in_float64
    def part(own: list[tuple[int, Candidate]]) -> Solved:
        padded = own + [own[-1]] * (size - len(own))
        jobs = Jobs(
            np.array([problem for problem, _ in padded]),
            np.stack([start.coordinates for _, start in padded]),
            np.stack([start.jacobian for _, start in padded]),
            np.full(size, held),
            np.array([start.rough for _, start in padded]),
        )
        solved = run(stacked, averages.fine, averages.test, jobs, len(own), level)
        return take(jax.tree.map(np.asarray, solved), slice(len(own)))

    parts = [rows[first::count] for first in range(count)]
    leaves, kind = jax.tree.flatten(stacked)
    shapes = kind, averages.fine.shape, *(leaf.shape for leaf in leaves)
    alone = 0 if shapes in _COMPILED else 1
    answers = [part(own) for own in parts[:alone]]
    _COMPILED.add(shapes)
    with ThreadPoolExecutor(WORKERS) as pool:
        answers += pool.map(part, parts[alone:])
    dealt = [np.arange(first, len(rows), count) for first in range(count)]
    order = np.argsort(np.concatenate(dealt))
    joined: Solved = jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *answers)
    return joined


def errors_of_map(
    problem: Problem, overlaps: Overlaps, seed: int, count: int = MAP_POINTS
) -> tuple[FloatArray, FloatArray]:
    """Test error and noiseless test error (4.4) at given q and m, one entry a scramble."""
    points = normal_points(problem.attention.constraints, count, SCRAMBLES, seed)
    noisy, clean = map_test_errors(problem, overlaps, in_chunks(points))
    return np.asarray(noisy), np.asarray(clean)


def take(record: Any, index: Any) -> Any:
    """Rows of every array of a record."""
    return jax.tree.map(lambda leaf: leaf[index], record)
