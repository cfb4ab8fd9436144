"""Optimisers of the training objective, each a small object with one `minimise`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count, require_positive
from attnlaw.problem import Problem
from attnlaw.records import Progress, ProgressCallback
from attnlaw.training.data import Chunk
from attnlaw.training.objective import value_and_gradient

FloatArray = NDArray[np.float64]
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


class Minimum(NamedTuple):
    """Where an optimiser stopped.

    relative_gradient = ‖∇L‖·‖W‖/L, free of units; converged means that it is at or below the
    optimiser's tolerance.
    """

    factor: FloatArray
    value: float
    relative_gradient: float
    evaluations: int
    converged: bool


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS on W (scipy).

    Args:
        tolerance: stop when ‖∇L‖·‖W‖/L is at or below it.
        max_evaluations: most evaluations of the objective.
        history: pairs of steps and gradient changes kept.

    Raises:
        ValueError: an argument out of its range.
    """

    tolerance: float = 1e-6
    max_evaluations: int = 5000
    history: int = 20

    def __post_init__(self) -> None:
        require_positive("tolerance", self.tolerance)
        require_count("max_evaluations", self.max_evaluations, 1)
        require_count("history", self.history, 1)

    def minimise(
        self, start: FloatArray, chunks: Chunk, problem: Problem, progress: ProgressCallback
    ) -> Minimum:
        """Minimise L(W) from `start` (d, p)."""
        from scipy.optimize import minimize

        recorder = _Recorder(start.shape, chunks, problem, progress, self.max_evaluations)

        def stop(_: Any) -> None:
            if recorder.relative_gradient <= self.tolerance:
                raise StopIteration

        found = minimize(
            recorder,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=stop,
            options={
                "maxcor": self.history,
                "maxfun": self.max_evaluations,
                "maxiter": self.max_evaluations,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        recorder(found.x)
        return recorder.minimum(found.x, self.tolerance)


@dataclass(frozen=True)
class Adam:
    """Adam on W, full batch, with a cosine decay of the step (optax).

    Args:
        learning_rate: first step size, in the units of W (entries of order one).
        steps: length of the schedule.
        tolerance: converged means ‖∇L‖·‖W‖/L at or below it after the last step.

    Raises:
        ValueError: an argument out of its range.
    """

    learning_rate: float = 0.1
    steps: int = 1000
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_count("steps", self.steps, 1)
        require_positive("tolerance", self.tolerance)

    def minimise(
        self, start: FloatArray, chunks: Chunk, problem: Problem, progress: ProgressCallback
    ) -> Minimum:
        """Minimise L(W) from `start` (d, p)."""
        import optax

        schedule = optax.cosine_decay_schedule(self.learning_rate, self.steps)
        adam = optax.adam(schedule)
        recorder = _Recorder(start.shape, chunks, problem, progress, self.steps + 1)
        factor = jax.numpy.asarray(start)
        state = adam.init(factor)
        advance = jax.jit(lambda g, s, w: _applied(adam.update(g, s, w), w))
        for _ in range(self.steps):
            _, gradient = recorder(np.asarray(factor))
            factor, state = advance(gradient.reshape(start.shape), state, factor)
        last = np.asarray(factor)
        recorder(last)
        return recorder.minimum(last, self.tolerance)


def _applied(answer: tuple[Any, Any], factor: Any) -> tuple[Any, Any]:
    updates, state = answer
    return factor + updates, state


class _Recorder:
    """The objective as NumPy sees it, with the last value and gradient kept."""

    def __init__(
        self,
        shape: tuple[int, ...],
        chunks: Chunk,
        problem: Problem,
        progress: ProgressCallback,
        most: int,
    ) -> None:
        self.shape, self.chunks, self.problem = shape, chunks, problem
        self.progress, self.most = progress, most
        self.value, self.relative_gradient, self.evaluations = np.inf, np.inf, 0

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        factor = np.asarray(flat).reshape(self.shape)
        value, gradient = value_and_gradient(factor, self.chunks, self.problem)
        self.value, found = float(value), np.asarray(gradient).ravel()
        size = np.linalg.norm(found) * np.linalg.norm(factor)
        self.relative_gradient = float(size / self.value) if self.value > 0 else float(size)
        self.evaluations += 1
        dim = self.shape[0]
        note = f"L/d² = {self.value / dim**2:.6g}, gradient {self.relative_gradient:.1e}"
        self.progress(Progress("train", self.evaluations, self.most, note))
        return self.value, found

    def minimum(self, flat: FloatArray, tolerance: float) -> Minimum:
        return Minimum(
            np.asarray(flat).reshape(self.shape),
            self.value,
            self.relative_gradient,
            self.evaluations,
            self.relative_gradient <= tolerance,
        )
