"""Theory beside training: the same problem solved and trained, number by number."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count
from attnlaw.problem import Problem
from attnlaw.records import Progress, ProgressCallback, silent
from attnlaw.results import header, plain
from attnlaw.spectra.discrete import Atoms
from attnlaw.theory.solution import Solution
from attnlaw.theory.solve import solve
from attnlaw.training.data import Data, sample
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
CURVE_RANGE = (0.05, 4.0)
CURVE_POINTS = 40
TRAINED_RATIOS = (0.1, 0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One quantity of a comparison.

    `difference` is (trained − theory at the drawn target), averaged over repeats, in units of its
    standard error; None with a single repeat, which gives no standard error.
    """

    quantity: str
    theory: float
    theory_at_target: float
    trained_mean: float
    trained_std_error: float | None
    difference: float | None


@dataclass(frozen=True)
class Curve:
    """Theory against α, and trained layers at some of them.

    ratios (40), test_error and train_loss of the theory; trained_ratios with the same two
    quantities of trained layers.
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
    curve: Curve | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether every solution and every trained layer converged."""
        solved = all(s.converged for s in (self.theory, *self.theory_at_target))
        return solved and all(fit.converged for fit in self.fits)

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
            difference = float(gap.mean() / noise) if noise > 0 else None
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
        ConvergenceError: the theory did not converge.
    """
    require_count("repeats", repeats, 1)
    key = jax.random.key(seed)
    theory = solve(problem, accuracy=accuracy, seed=seed, progress=progress)
    fits, at_target = [], []
    for repeat in range(repeats):
        progress(Progress("repeat", repeat, repeats, f"d = {dim}"))
        data = sample(problem, dim, jax.random.fold_in(key, repeat))
        fits.append(fit(problem, data, method, test_sequences=test_sequences, progress=progress))
        own = at_drawn_target(problem, data)
        at_target.append(solve(own, accuracy=accuracy, seed=seed, progress=progress))
    drawn_curve = None
    if curve:
        settings = {"method": method, "test_sequences": test_sequences, "progress": progress}
        drawn_curve = ratio_curve(problem, dim, seed, accuracy, settings)
        drawn_curve = _with_main_point(drawn_curve, problem, fits)
    return Comparison(problem, dim, theory, tuple(at_target), tuple(fits), drawn_curve)


def ratio_curve(
    problem: Problem, dim: int, seed: int, accuracy: float, settings: dict[str, Any]
) -> Curve:
    """Theory at 40 sample ratios in [0.05, 4], log-spaced, and layers trained at five of them."""
    progress = settings["progress"]
    ratios = np.geomspace(*CURVE_RANGE, CURVE_POINTS)
    solutions = []
    for index, ratio in enumerate(ratios):
        progress(Progress("curve", index, CURVE_POINTS, f"α = {ratio:.3g}"))
        own = problem.replace(sample_ratio=float(ratio))
        solutions.append(solve(own, accuracy=max(accuracy, 3e-3), seed=seed))
    fits = []
    for index, ratio in enumerate(TRAINED_RATIOS):
        progress(Progress("trained points", index, len(TRAINED_RATIOS), f"α = {ratio:g}"))
        own = problem.replace(sample_ratio=ratio)
        key = jax.random.fold_in(jax.random.key(seed), 1000 + index)
        fits.append(fit(own, sample(own, dim, key), **settings))
    return Curve(
        ratios,
        np.array([s.test_error for s in solutions]),
        np.array([s.train_loss for s in solutions]),
        np.array(TRAINED_RATIOS),
        np.array([f.test_error for f in fits]),
        np.array([f.train_loss for f in fits]),
    )


def _with_main_point(curve: Curve, problem: Problem, fits: list[Fit]) -> Curve:
    """The curve with the layers trained at the problem's own α among the trained points."""
    ratios = np.append(curve.trained_ratios, [problem.sample_ratio] * len(fits))
    test = np.append(curve.trained_test_error, [f.test_error for f in fits])
    loss = np.append(curve.trained_train_loss, [f.train_loss for f in fits])
    order = np.argsort(ratios, kind="stable")
    return Curve(
        curve.ratios, curve.test_error, curve.train_loss, ratios[order], test[order], loss[order]
    )
