"""The compiled solver: fixed points of many problems from many starts, in one program."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.channel import Used
from attnlaw.coordinates import from_coordinates
from attnlaw.equations import (
    Step,
    free_energy,
    is_collapsed,
    state_evolution,
    test_errors,
)
from attnlaw.numerics.fixed_point import fixed_point
from attnlaw.numerics.gaussian import mean_over_chunks
from attnlaw.problem import Problem
from attnlaw.records import Overlaps
from attnlaw.theory.observed import Probes, probe

INNER_TOLERANCE, SCAN_TOLERANCE = 1e-8, 1e-2
MOST_OVER_FEW, MOST_OVER_MORE, MOST_WHEN_ROUGH = 120, 40, 16
FEW, SOME, ALL = 0, 1, 2
# up to so many tokens an evaluation over all points is cheap even where steps have many minima
CHEAP_TOKENS = 2
# of which the FEW points there come
FEW_SCRAMBLES = 2
RESIDUAL_TOLERANCE, LARGEST_TOLERANCE = 1e-6, 1e-2
COARSE = 4
# passes of XLA that take a quarter of the time to compile `run` and make it no faster
QUICK_COMPILE = {
    "xla_disable_hlo_passes": "while-loop-invariant-code-motion,tree_reduction_rewriter"
}


class Jobs(NamedTuple):
    """Fixed points to find: of which problem, from where; arrays (J, …).

    `jacobian` is that of G(x) − x at the start, as far as it is known. Where `held`, the first
    coordinate keeps its value and only the other two coordinates are solved for. A `rough` start
    was found where the map jumps; over more points it gets fewer evaluations where each is dear, at
    three tokens or more.
    """

    problem: Any
    start: Any
    jacobian: Any
    held: Any
    rough: Any


class Solved(NamedTuple):
    """What the solver answers for one job; arrays of these for many."""

    coordinates: Any
    jacobian: Any
    residual: Any
    iterations: Any
    overlaps: Overlaps
    train_loss: Any
    collapsed: Any
    step: Step
    probes: Probes


def accepted_residual(jump: Any) -> Any:
    """10⁻⁶, or twice the largest jump of the map by a single point, but never above 1 %."""
    return (2 * jump).clip(RESIDUAL_TOLERANCE, LARGEST_TOLERANCE)


def tolerance(solved: Any) -> Any:
    """The residual that is accepted for what the solver answers."""
    return accepted_residual(solved.step.jump)


@partial(jax.jit, compiler_options=QUICK_COMPILE)
def run(
    problems: Problem, points: Any, test_points: Any, jobs: Jobs, count: Any, level: Any
) -> Solved:
    """Fixed points of the state-evolution map for the first `count` jobs.

    Args:
        problems: problems of one structure, leaves stacked.
        points: standard normal points in chunks, (scrambles, chunks, 2, K, B).
        test_points: points of the test errors, in chunks of their own number.
        jobs: arrays of one length, which with the other shapes decides what is compiled.
        count: jobs to do; the answers of the others mean nothing.
        level: average over ALL points; over SOME, the first chunk of every scramble; or over FEW,
            a quarter of the first scramble, at two tokens of the first two. Over ALL the
            observables are computed at the end, over fewer points the Jacobian is measured there,
            but for jobs that are held.
    """
    scrambles, chunks = points.shape[:2]
    parts = jnp.array([max(chunks // COARSE, 1), 1, chunks])
    few = FEW_SCRAMBLES if problems.attention.tokens <= CHEAP_TOKENS else 1
    used = Used(jnp.where(level == FEW, few, scrambles), parts[level], level == ALL)

    def one(row: tuple[Any, Jobs]) -> Solved:
        index, job = row
        problem = jax.tree.map(lambda leaf: leaf[job.problem], problems)
        dear = job.rough & (problem.attention.tokens > CHEAP_TOKENS)
        over_more = jnp.where(dear, MOST_WHEN_ROUGH, MOST_OVER_MORE)
        most = jnp.where(level == FEW, MOST_OVER_FEW, over_more)

        def plain(x: Any) -> tuple[Any, Any, Step]:
            step = state_evolution(problem, from_coordinates(problem, x), points, used)
            image = step.image.at[0].set(jnp.where(job.held, job.start[0], step.image[0]))
            return image, step.jump.clip(max=LARGEST_TOLERANCE / 2), step

        fixed = fixed_point(
            plain,
            job.start,
            job.jacobian,
            tolerance=jnp.where(job.held, SCAN_TOLERANCE, INNER_TOLERANCE),
            max_evaluations=jnp.where(index < count, most, 0),
            measure_jacobian=(level != ALL) & ~job.held,
        )
        overlaps, step = from_coordinates(problem, fixed.point), fixed.detail
        wanted = (index < count) & (level == ALL)
        return Solved(
            coordinates=fixed.point,
            jacobian=fixed.jacobian,
            residual=fixed.residual,
            iterations=fixed.iterations,
            overlaps=overlaps,
            train_loss=free_energy(problem, overlaps, step),
            collapsed=is_collapsed(problem, overlaps),
            step=step,
            probes=probe(problem, fixed.point, test_points, wanted),
        )

    solved: Solved = jax.lax.map(one, (jnp.arange(jobs.problem.shape[0]), jobs))
    return solved


@jax.jit
def map_test_errors(problem: Problem, overlaps: Overlaps, test_points: Any) -> tuple[Any, Any]:
    """Test error and noiseless test error at given q and m, for each scramble of chunks."""

    def one(chunks: Any) -> tuple[Any, Any]:
        errors: tuple[Any, Any] = mean_over_chunks(
            lambda points: test_errors(problem, overlaps, points), chunks, chunks.shape[0]
        )
        return errors

    both: tuple[Any, Any] = jax.lax.map(one, test_points)
    return both
