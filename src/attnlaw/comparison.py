"""Theory beside training: the same problem solved and trained, number by number."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count, require_seed
from attnlaw.problem import Problem, require_decay
from attnlaw.records import Progress, ProgressCallback, silent
from attnlaw.results import header, plain
from attnlaw.spectra.discrete import Atoms
from attnlaw.theory.curve import curve as curve_of
from attnlaw.theory.solution import Solution
from attnlaw.theory.solve import check_solvable, solve
from attnlaw.training.data import Data, check_drawable, sample
from attnlaw.training.fit import TEST_SEQUENCES, Fit, fit
from attnlaw.training.optimisers import LBFGS, Adam

FloatArray = NDArray[np.float64]

QUANTITIES = (
    "train_loss",
    "train_error",
    "test_error",
    "test_error_clean",
    "mse",
    "q",
    "m",
    "rank_ratio",
)
# scatter below this, relative to the value, is rounding
ROUNDING = 1e-12
CURVE_RANGE = (0.05, 4.0)
CURVE_POINTS = 40
TRAINED_RATIOS = (0.1, 0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One quantity of a comparison.

    `difference` is the mean over repeats of trained − theory at that repeat's own drawn target, in
    units of the standard error of that mean (a paired comparison: the scatter of the targets, which
    dominates `trained_std_error`, cancels); None with a single repeat.
    """

    quantity: str
    theory: float
    theory_at_target: float
    trained_mean: float
    trained_std_error: float | None
    difference: float | None


@dataclass(frozen=True)
class LearningCurve:
    """Theory against α, and trained layers at some of them.

    ratios (40 where all converge), test_error and train_loss of the theory; trained_ratios with
    the same two quantities of trained layers.
    """

    ratios: FloatArray
    test_error: FloatArray
    train_loss: FloatArray
    trained_ratios: FloatArray
    trained_test_error: FloatArray
    trained_train_loss: FloatArray


@dataclass(frozen=True)
class Comparison:
    """Theory and training of one problem.

    Attributes:
        problem, dim: what was compared, and at which d.
        theory: at the asymptotic target law.
        theory_at_target: at each drawn target's own eigenvalues.
        fits: the trained layers.
        curve: against α, when asked for.
    """

    problem: Problem
    dim: int
    theory: Solution
    theory_at_target: tuple[Solution, ...] = field(repr=False)
    fits: tuple[Fit, ...] = field(repr=False)
    curve: LearningCurve | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether every solution and every trained layer converged."""
        return self.reason is None

    @property
    def reason(self) -> str | None:
        """What did not converge, or None."""
        for name, solution in (
            ("theory", self.theory),
            *(("theory at a drawn target", s) for s in self.theory_at_target),
        ):
            if not solution.converged:
                return f"{name}: {solution.reason}"
        stopped = [fit.relative_gradient for fit in self.fits if not fit.converged]
        return f"a trained layer, relative gradient {max(stopped):.1e}" if stopped else None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The table, one row a quantity."""
        return tuple(self._row(name) for name in QUANTITIES)

    def record(self) -> dict[str, Any]:
        """One JSON object: the rows of the table, and the curve when there is one."""
        curve = None if self.curve is None else dataclasses.asdict(self.curve)
        body = {
            "dim": self.dim,
            "repeats": len(self.fits),
            "converged": self.converged,
            "width_sufficient": self.theory.width_sufficient,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "curve": curve,
        }
        return dict(plain(header(self.problem) | body))

    def _row(self, name: str) -> Row:
        trained = np.array([quantity(fit, name) for fit in self.fits])
        predicted = np.array([quantity(s, name) for s in self.theory_at_target])
        repeats = len(trained)
        std_error = difference = None
        if repeats > 1:
            std_error = float(trained.std(ddof=1) / np.sqrt(repeats))
            gap = trained - predicted
            noise = float(gap.std(ddof=1) / np.sqrt(repeats))
            scatters = noise > ROUNDING * np.abs(trained).max()
            difference = float(gap.mean() / noise) if scatters else None
        return Row(
            name,
            quantity(self.theory, name),
            float(predicted.mean()),
            float(trained.mean()),
            std_error,
            difference,
        )


def quantity(record: Solution | Fit, name: str) -> float:
    """A number of a solution or a trained layer by its common name."""
    if isinstance(record, Solution) and name in ("q", "m"):
        return float(getattr(record.overlaps, name))
    return float(getattr(record, name))


def at_drawn_target(problem: Problem, data: Data) -> Problem:
    """The problem with the target law replaced by the drawn target's own eigenvalues."""
    return problem.replace(target=Atoms(data.target_eigenvalues))


def compare(
    problem: Problem,
    dim: int = 100,
    repeats: int = 2,
    *,
    seed: int = 0,
    method: LBFGS | Adam | None = None,
    accuracy: float = 1e-3,
    curve: bool = False,
    test_sequences: int = TEST_SEQUENCES,
    progress: ProgressCallback = silent,
) -> Comparison:
    """Solve a problem, train it `repeats` times at dimension `dim`, and lay the two side by side.

    Args:
        problem: the problem; λ > 0.
        dim: d of the trained layers.
        repeats: trained layers, each with its own target, data and start.
        seed: seed of the draws and of the Gaussian average.
        method: optimiser, `LBFGS()` when left out.
        accuracy: relative accuracy of the theory.
        curve: also sweep α over [0.05, 4], with trained layers at some of the points.
        test_sequences: fresh sequences for each trained layer.
        progress: called along the way.

    Raises:
        ValueError: bad input, before any long work.
    """
    require_count("repeats", repeats, 1)
    require_seed(seed)
    key = jax.random.key(seed)
    check_solvable(problem, accuracy)
    require_decay(problem)
    check_drawable(problem, dim)
    if curve:
        check_curve(problem, dim)
    settings: dict[str, Any] = {"accuracy": accuracy, "seed": seed, "throw": False}
    settings["progress"] = progress
    theory = solve(problem, **settings)
    fits, at_target = [], []
    for repeat in range(repeats):
        progress(Progress("repeat", repeat, repeats, f"d = {dim}"))
        data = sample(problem, dim, jax.random.fold_in(key, repeat))
        fits.append(fit(problem, data, method, test_sequences=test_sequences, progress=progress))
        own = at_drawn_target(problem, data)
        at_target.append(solve(own, **settings))
    comparison = Comparison(problem, dim, theory, tuple(at_target), tuple(fits))
    if not curve:
        return comparison
    training: dict[str, Any] = {"method": method, "test_sequences": test_sequences}
    return with_curve(comparison, accuracy=accuracy, seed=seed, progress=progress, **training)


def check_curve(problem: Problem, dim: int) -> None:
    """Raise ValueError unless the layers of a learning curve can be drawn."""
    for ratio in TRAINED_RATIOS:
        check_drawable(problem.replace(sample_ratio=ratio), dim)


def with_curve(
    comparison: Comparison,
    *,
    seed: int = 0,
    method: LBFGS | Adam | None = None,
    accuracy: float = 1e-3,
    test_sequences: int = TEST_SEQUENCES,
    progress: ProgressCallback = silent,
) -> Comparison:
    """The comparison with its learning curve.

    Theory at 40 sample ratios over [0.05, 4] (wider if α lies outside), layers at some; those of
    the comparison join them. Points where the theory does not converge are left out. Arguments as
    in `compare`.
    """
    problem, dim, fits = comparison.problem, comparison.dim, comparison.fits
    training: dict[str, Any] = {"method": method, "test_sequences": test_sequences}
    training["progress"] = progress
    low, high = (
        f(problem.sample_ratio, end) for f, end in zip((min, max), CURVE_RANGE, strict=True)
    )
    ratios = np.geomspace(low, high, CURVE_POINTS)
    settings: dict[str, Any] = {"accuracy": max(accuracy, 3e-3), "seed": seed, "throw": False}
    line = curve_of(problem, sample_ratio=ratios, progress=progress, **settings)
    solved = [s for s in line.solutions if s.converged]
    layers = list(fits)
    for index, ratio in enumerate(TRAINED_RATIOS):
        progress(Progress("trained points", index, len(TRAINED_RATIOS), f"α = {ratio:g}"))
        own = problem.replace(sample_ratio=ratio)
        key = jax.random.fold_in(jax.random.key(seed), 1000 + index)
        layers.append(fit(own, sample(own, dim, key), **training))
    layers.sort(key=lambda layer: layer.problem.sample_ratio)
    learning = LearningCurve(
        np.array([s.problem.sample_ratio for s in solved]),
        np.array([s.test_error for s in solved]),
        np.array([s.train_loss for s in solved]),
        np.array([layer.problem.sample_ratio for layer in layers]),
        np.array([layer.test_error for layer in layers]),
        np.array([layer.train_loss for layer in layers]),
    )
    return dataclasses.replace(comparison, curve=learning)
