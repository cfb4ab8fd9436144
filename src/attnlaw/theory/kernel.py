"""The compiled solver: fixed points of many problems over many scrambles, in one program."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.equations import (
    Observables,
    Step,
    from_coordinates,
    is_collapsed,
    largest_jump,
    observables,
    state_evolution,
    test_errors,
    to_coordinates,
)
from attnlaw.numerics.fixed_point import fixed_point
from attnlaw.numerics.gaussian import mean_over_chunks
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

INNER_TOLERANCE = 1e-8
MAX_EVALUATIONS = 80
RESIDUAL_TOLERANCE = 1e-6


class Jobs(NamedTuple):
    """Fixed points to find: which problem, over which scramble, from where; arrays (J, …).

    `jacobian` is that of G(x) − x at the start, as far as it is known.
    """

    problem: Any
    scramble: Any
    start: Any
    jacobian: Any


class Solved(NamedTuple):
    """What the solver answers for one job; arrays of these for many."""

    coordinates: Any
    jacobian: Any
    residual: Any
    jump: Any
    iterations: Any
    overlaps: Overlaps
    conjugates: Conjugates
    observed: Observables
    two_minima: Any
    collapsed: Any


def tolerance(solved: Any) -> Any:
    """Accepted residual: 10⁻⁶, or twice the largest single-point jump."""
    return (2 * solved.jump).clip(RESIDUAL_TOLERANCE)


def settled(solved: Any) -> Any:
    """Whether the residuals are accepted."""
    return solved.residual <= tolerance(solved)


@jax.jit
def run(
    problems: Problem, points: Any, test_points: Any, jobs: Jobs, count: Any, coarse: Any
) -> Solved:
    """Fixed points of the state-evolution map for the first `count` jobs.

    Args:
        problems: problems of one structure, leaves stacked.
        points: standard normal points in chunks, (scrambles, chunks, 2, K, B).
        test_points: points of the test errors, in chunks of their own number.
        jobs: arrays of one length, which with the other shapes decides what is compiled.
        count: jobs to do; the answers of the others mean nothing.
        coarse: average over the first chunk only, measure the Jacobian at the end and leave the
            test errors out.
    """

    def one(row: tuple[Any, Jobs]) -> Solved:
        index, job = row
        evaluations = jnp.where(index < count, MAX_EVALUATIONS, 0)
        problem = _at(problems, job.problem)
        return _answer(problem, points, test_points, job, coarse, evaluations)

    solved: Solved = jax.lax.map(one, (jnp.arange(jobs.problem.shape[0]), jobs))
    return solved


def _answer(
    problem: Problem, points: Any, test_points: Any, job: Jobs, coarse: Any, evaluations: Any
) -> Solved:
    own, test_own = points[job.scramble], test_points[job.scramble]
    used = jnp.where(coarse, 1, points.shape[1])

    def plain(x: Any) -> tuple[Any, Step]:
        step = state_evolution(problem, from_coordinates(problem, x), own, used)
        return to_coordinates(problem, step.overlaps), step

    fixed = fixed_point(
        plain,
        job.start,
        job.jacobian,
        tolerance=INNER_TOLERANCE,
        max_evaluations=evaluations,
        measure_jacobian=coarse,
    )
    overlaps, step = from_coordinates(problem, fixed.point), fixed.detail
    test_used = jnp.where(coarse | (evaluations == 0), 0, test_points.shape[1])
    return Solved(
        coordinates=fixed.point,
        jacobian=fixed.jacobian,
        residual=fixed.residual,
        jump=largest_jump(problem, step),
        iterations=fixed.iterations,
        overlaps=overlaps,
        conjugates=step.conjugates,
        observed=observables(problem, overlaps, step, test_own, test_used),
        two_minima=step.channel.two_minima,
        collapsed=is_collapsed(problem, overlaps),
    )


def _at(problems: Problem, index: Any) -> Problem:
    return jax.tree.map(lambda leaf: leaf[index], problems)


@jax.jit
def zero_map_test_errors(problem: Problem, test_points: Any) -> tuple[Any, Any]:
    """Test error and noiseless test error of S = 0, for each scramble of chunks."""
    zero = Overlaps(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def one(chunks: Any) -> tuple[Any, Any]:
        errors: tuple[Any, Any] = mean_over_chunks(
            lambda points: test_errors(problem, zero, points), chunks, chunks.shape[0]
        )
        return errors

    both: tuple[Any, Any] = jax.lax.map(one, test_points)
    return both
