"""`curve`: a whole line of problems in one compiled call."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_seed
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import ALIASES, PARTS, Problem, require_problem
from attnlaw.records import Conjugates, Overlaps, Progress, ProgressCallback, silent
from attnlaw.theory.line import solve_line
from attnlaw.theory.ridgeless import closed_form
from attnlaw.theory.solution import Solution
from attnlaw.theory.solve import (
    averages,
    check_solvable,
    judged,
    point_counts,
    refine_until,
    solve,
)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Solutions along one field of a problem.

    Attributes:
        name: the field that varies.
        values: its values.
        solutions: one `Solution` a value; any quantity of theirs is an array here under the same
            name, for example `curve.test_error` or `curve.q`.
    """

    name: str
    values: FloatArray
    solutions: tuple[Solution, ...] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether every point converged."""
        return all(solution.converged for solution in self.solutions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *dir(self.solutions[0]), *Overlaps._fields, *Conjugates._fields]

    def __getattr__(self, name: str) -> NDArray[Any]:
        """An attribute of the solutions, or of their order parameters, as an array."""
        if name.startswith("_") or name == "solutions":
            raise AttributeError(name)
        rows = [
            getattr(s.overlaps, name)
            if name in Overlaps._fields
            else getattr(s.conjugates, name)
            if name in Conjugates._fields
            else getattr(s, name)
            for s in self.solutions
        ]
        return np.array(rows)


@in_float64
def curve(
    problem: Problem,
    *,
    accuracy: float = 1e-3,
    seed: int = 0,
    throw: bool = True,
    progress: ProgressCallback = silent,
    **axis: Sequence[float] | FloatArray,
) -> Curve:
    """Solve a problem along one of its fields, all points together.

    Every point is explored from the starts of `solve` and from its neighbours' solutions, so that a
    region with two solutions is entered from both sides; the lowest Φ wins at each point. Points
    that miss the accuracy or do not converge are refined on their own.

    Args:
        problem: the problem; the field named below is replaced.
        accuracy, seed, throw, progress: as in `solve`.
        **axis: one field with its values, for example `alpha=[0.1, 0.3, 1.0]`.

    Returns:
        A `Curve`: `curve.test_error` and any other quantity is an array over the values.

    Raises:
        ValueError: not exactly one field, an unknown one, or values that are empty, not sorted or
            out of range.
        ConvergenceError: a point did not converge and `throw`.

    Example:
        >>> line = curve(Problem(), accuracy=3e-3, alpha=[0.5, 1.0, 2.0])
        >>> bool((line.test_error[:-1] > line.test_error[1:]).all())
        True
    """
    require_problem(problem)
    require_seed(seed)
    name, values = _checked_axis(problem, axis)
    problems = [problem.replace(**{name: value.item()}) for value in values]
    for own in problems:
        check_solvable(own, accuracy)
    if len({jax.tree.structure(own) for own in problems}) > 1:
        solved = tuple(
            solve(own, accuracy=accuracy, seed=seed, throw=throw, progress=progress)
            for own in problems
        )
        return Curve(name, values, solved)
    solutions = [
        closed_form(own, accuracy, seed) if own.weight_decay_scaled == 0 else None
        for own in problems
    ]
    places = [index for index, known in enumerate(solutions) if known is None]
    count = point_counts(problem, accuracy)[0]
    line = [problems[index] for index in places]
    progress(Progress("curve", 0, len(problems), "exploring"))
    answers = solve_line(line, averages(problem, count, seed)) if line else []
    for index, own, answer in zip(places, line, answers, strict=True):
        progress(Progress("curve", index, len(problems), f"{name} = {values[index]:.4g}"))
        solution = refine_until(own, answer, accuracy, seed).solution
        solutions[index] = judged(solution, throw)
    return Curve(name, values, tuple(known for known in solutions if known is not None))


def _checked_axis(problem: Problem, axis: dict[str, Any]) -> tuple[str, FloatArray]:
    if len(axis) != 1:
        raise ValueError(
            f"curve must be given one field with its values, got {sorted(axis) or 'none'}; "
            "for example curve(problem, alpha=[0.1, 1.0])"
        )
    ((name, given),) = axis.items()
    values = np.asarray(given)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a non-empty list of values, got shape {values.shape}")
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a list of numbers, got {given!r}")
    if values.size > 1 and not (np.diff(values) > 0).all():
        raise ValueError(f"{name} must be sorted, each value above the one before; sort it first")
    require_axis(problem, name)
    return name, values


def require_axis(problem: Problem, name: str) -> None:
    """Raise ValueError unless `name` is a number that describes this problem."""
    field_name = ALIASES.get(name, name)
    if problem.part_of(field_name) is None and field_name in PARTS:
        rank = "kappa0" if hasattr(problem.target, "target_rank_ratio") else "exponent"
        raise ValueError(
            f"curve must run over a number of the problem, got {name!r}; for example alpha, "
            f"weight_decay, noise, {rank}, beta or tokens"
        )
