"""The compiled solver: one scramble of the Gaussian average, many scrambles, a whole axis."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.channels.channel import attention_error
from attnlaw.equations import (
    Observables,
    Step,
    from_coordinates,
    is_collapsed,
    observables,
    state_evolution,
    to_coordinates,
)
from attnlaw.numerics.fixed_point import anderson
from attnlaw.problem import Problem
from attnlaw.records import Conjugates, Overlaps

FloatArray = NDArray[np.float64]

INNER_TOLERANCE = 1e-9
MAX_EVALUATIONS = 120


class Solved(NamedTuple):
    """What the solver answers for one scramble; arrays of these for many."""

    coordinates: Any
    residual: Any
    iterations: Any
    overlaps: Overlaps
    conjugates: Conjugates
    observed: Observables
    two_minima: Any
    collapsed: Any


def cold_starts(problem: Problem) -> tuple[Any, Any]:
    """Coordinates of an informed start (ρ = 0.95) and an uninformed one (ρ = 0.1)."""
    power = problem.target_power
    length = power * problem.scale_of_target**2
    rows = []
    for rho, share in ((0.95, 0.9), (0.1, 0.1)):
        q = jnp.asarray(share * length)
        sigma = jnp.asarray(1.0 / problem.attention.beta**2)
        rows.append(to_coordinates(problem, Overlaps(q, rho * jnp.sqrt(q * power), sigma)))
    return rows[0], rows[1]


def solve_scramble(problem: Problem, start: Any, points: Any, test_points: Any) -> Solved:
    """The fixed point of the state-evolution map over one set of points, from `start`."""

    def plain(x: Any) -> tuple[Any, Step]:
        step = state_evolution(problem, from_coordinates(problem, x), points)
        return to_coordinates(problem, step.overlaps), step

    fixed = anderson(plain, start, tolerance=INNER_TOLERANCE, max_evaluations=MAX_EVALUATIONS)
    overlaps, step = from_coordinates(problem, fixed.point), fixed.detail
    return Solved(
        fixed.point,
        fixed.residual,
        fixed.iterations,
        overlaps,
        step.conjugates,
        observables(problem, overlaps, step, test_points),
        step.channel.two_minima,
        is_collapsed(problem, overlaps),
    )


@jax.jit
def solve_scrambles(problem: Problem, starts: Any, points: Any, test_points: Any) -> Solved:
    """`solve_scramble` for each row of starts (R, 3) and points (R, 2, K, N)."""

    def one(row: tuple[Any, Any, Any]) -> Solved:
        return solve_scramble(problem, *row)

    return jax.lax.map(one, (starts, points, test_points))


@jax.jit
def solve_axis(problems: Problem, points: Any, test_points: Any) -> Solved:
    """A line of problems (leaves stacked along it), each point started from its neighbour.

    Even scrambles walk the line forwards from an uninformed start, odd ones backwards from an
    informed start, so that a region with two solutions is entered from both sides. Answers have
    shape (R, line, …), in the order of the line.
    """
    length = jax.tree.leaves(problems)[0].shape[0]

    def walk(row: tuple[Any, Any, Any]) -> Solved:
        backwards, own, test_own = row

        def visit(state: tuple[Any, Any], place: Any) -> tuple[tuple[Any, Any], Solved]:
            index = jnp.where(backwards, length - 1 - place, place)
            problem = jax.tree.map(lambda leaf: leaf[index], problems)
            informed, uninformed = cold_starts(problem)
            previous, usable = state
            start = jnp.where(usable, previous, jnp.where(backwards, informed, uninformed))
            solved = solve_scramble(problem, start, own, test_own)
            good = (solved.residual < 1e-6) & ~solved.collapsed
            return (solved.coordinates, good), solved

        nothing = (jnp.zeros(3), jnp.zeros((), dtype=bool))
        _, visited = jax.lax.scan(visit, nothing, jnp.arange(length))
        order = jnp.where(backwards, length - 1 - jnp.arange(length), jnp.arange(length))
        return jax.tree.map(lambda leaf: leaf[order], visited)

    flags = jnp.arange(points.shape[0]) % 2 == 1
    return jax.lax.map(walk, (flags, points, test_points))


@jax.jit
def zero_map_test_errors(problem: Problem, test_points: Any) -> tuple[Any, Any]:
    """Test error and noiseless test error of S = 0, for each scramble."""
    zero = Overlaps(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def one(own: Any) -> tuple[Any, Any]:
        noisy = attention_error(problem.attention, zero, problem.score_variance, own)
        return noisy, attention_error(problem.attention, zero, problem.target_power, own)

    errors: tuple[Any, Any] = jax.lax.map(one, test_points)
    return errors
