"""The ridgeless limit λ → 0⁺ where it needs no fixed point: fitted labels, recovery (theory §6)."""

from typing import Any

import jax
import jax.numpy as jnp

from attnlaw.denoisers import EigenThreshold, MatrixSide, SpectralParameters
from attnlaw.numerics.gaussian import LARGEST_CHUNK, in_chunks, normal_points
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps
from attnlaw.theory.assemble import fitted_solution
from attnlaw.theory.collapse import prepared
from attnlaw.theory.interpolation import (
    alpha_at_end,
    alpha_of_perfect_recovery,
    end_of_interpolation,
    interpolating,
)
from attnlaw.theory.search import SCRAMBLES
from attnlaw.theory.solution import Solution

POINT_COUNTS = (2**12, 2**14, 2**16)


def closed_form(problem: Problem, accuracy: float, seed: int) -> Solution | None:
    """The ridgeless solution where every label is fitted; None where it has to be searched for.

    Below α_interp it is that of (6.1) and (6.2). Without label noise it is S = (β0/β) S0 beyond
    α_perf.

    Args:
        problem: the problem; its weight decay is not looked at.
        accuracy: wanted relative standard error of the test error, the only Gaussian average.
        seed: seed of that average.
    """
    side = _matrix_side(prepared(problem))
    if side is None:
        return None
    pairs = problem.attention.constraints
    for count in POINT_COUNTS:
        points = normal_points(pairs, count, SCRAMBLES, seed)
        found = fitted_solution(problem, side, in_chunks(points, min(count, LARGEST_CHUNK)))
        if found.integration_error <= accuracy:
            break
    return found


def _matrix_side(problem: Problem) -> MatrixSide | None:
    alpha, ratio = float(problem.sample_ratio), float(problem.scale_of_target)
    if problem.noise == 0 and alpha >= alpha_of_perfect_recovery(problem):
        return _recovered(problem)
    end = end_of_interpolation(problem)
    if alpha > alpha_at_end(problem, end):
        return None
    try:
        found = interpolating(problem, end)
    except RuntimeError:
        return None
    side = _side(problem.target, found.noise_level, max(found.threshold, 0.0), ratio)
    return MatrixSide(*jax.tree.map(float, side))


def _recovered(problem: Problem) -> MatrixSide:
    """S = r S0."""
    ratio, power = float(problem.scale_of_target), float(problem.target_power)
    return MatrixSide(
        Overlaps(ratio**2 * power, ratio * power, float("inf"), 0.0),
        SpectralParameters(ratio, 0.0, 0.0),
        ratio * float(problem.target.mean),
        0.0,
        min(float(problem.target.rank_ratio), 1.0),
    )


@jax.jit
def _side(target: Any, noise_level: Any, threshold: Any, ratio: Any) -> MatrixSide:
    """(4.1) at η = r and given δ, ε; only these three matter, so that m̂ may be set to one."""
    hats = Conjugates(noise_level**2, jnp.ones(()), 1 / ratio)
    return EigenThreshold().matrix_side(target, hats, threshold / 2)
