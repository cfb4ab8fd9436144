"""`fit`: train one attention layer on drawn sequences and measure it."""

import time
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.checks import require_count, require_instance
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem, require_decay, require_problem
from attnlaw.records import ProgressCallback, silent
from attnlaw.training.data import Chunk, Data, fresh_chunks, map_scores
from attnlaw.training.objective import mean_train_error
from attnlaw.training.optimisers import LBFGS, Adam, Minimum

FloatArray = NDArray[np.float64]

RANK_TOLERANCE = 1e-4
TEST_SEQUENCES = 200_000


@dataclass(frozen=True)
class Fit:
    """A trained layer, in the field names of the theory's `Solution`.

    Attributes:
        problem: what was trained.
        dim, width: d and p.
        S: learned query–key map W Wᵀ/√(pd), d×d.
        eigenvalues: of S, sorted; those below 1e-4 of the largest are set to zero.
        q, m, Q0: Tr S²/d, Tr S S0/d, Tr S0²/d of the drawn target.
        train_loss: L/d², penalty included (1.4).
        train_error: mean loss of a training sequence.
        test_error, test_error_clean: on fresh sequences, against noisy and noiseless labels.
        test_error_std_error: standard error of test_error from its finite number of sequences.
        rank_ratio: nonzero eigenvalues over d.
        relative_gradient: ‖∇L‖·‖W‖/L where training stopped.
        converged: whether that met the optimiser's tolerance.
        evaluations: evaluations of the objective.
        seconds: time of the optimiser alone.
    """

    problem: Problem
    dim: int
    width: int
    S: FloatArray = field(repr=False)
    eigenvalues: FloatArray = field(repr=False)
    q: float
    m: float
    Q0: float
    train_loss: float
    train_error: float
    test_error: float
    test_error_clean: float
    test_error_std_error: float
    rank_ratio: float
    relative_gradient: float
    converged: bool
    evaluations: int
    seconds: float

    @property
    def mse(self) -> float:
        """‖S − S0‖²_F/d."""
        return self.Q0 - 2 * self.m + self.q


@in_float64
def fit(
    problem: Problem,
    data: Data,
    method: LBFGS | Adam | None = None,
    *,
    test_sequences: int = TEST_SEQUENCES,
    progress: ProgressCallback = silent,
) -> Fit:
    """Train one attention layer on W (d×p) by minimising (1.4), and measure it.

    Args:
        problem: the problem; it may differ from the one that drew the data in its penalty and
            in the temperature or width of the layer.
        data: training sequences.
        method: optimiser, `LBFGS()` when left out.
        test_sequences: fresh sequences for the test errors.
        progress: called after each evaluation of the objective.

    Returns:
        The `Fit`; look at `converged` before comparing numbers.

    Raises:
        ValueError: data of another target, number of tokens or samples, temperature of the target
            or noise; λ = 0; or an argument that is not what it should be.

    Example:
        >>> import jax
        >>> data = sample(Problem(), 20, jax.random.key(0))
        >>> fit(Problem(), data, test_sequences=2000).converged
        True
    """
    require_problem(problem)
    require_instance("data", data, Data, "draw them with sample(problem, dim, key)")
    method = LBFGS() if method is None else method
    require_instance("method", method, (LBFGS, Adam), "for example LBFGS()")
    require_count("test_sequences", test_sequences, 2)
    require_decay(problem)
    _require_own_data(problem, data.problem)
    start_key, test_key = jax.random.split(jax.random.fold_in(data.key, 1))
    width = max(1, round(problem.width_ratio * data.dim))
    start = np.asarray(jax.random.normal(start_key, (data.dim, width), dtype=float))
    began = time.perf_counter()
    found = method.minimise(start, data.chunks, problem, progress)
    seconds = time.perf_counter() - began
    return _measured(problem, data, found, seconds, test_sequences, test_key)


def _require_own_data(problem: Problem, drawn: Problem) -> None:
    """Raise unless the data could have been drawn from the problem."""
    if not _equal(problem.target, drawn.target):
        raise ValueError(
            f"target of problem and data must agree, got {problem.target!r} and {drawn.target!r}; "
            "draw the data from this problem"
        )
    for name in ("tokens", "target_beta", "sample_ratio", "noise"):
        own, other = getattr(problem, name), getattr(drawn, name)
        if own != other:
            raise ValueError(
                f"{name} of problem and data must agree, got {own} and {other}; "
                "draw the data from this problem"
            )


def _equal(one: Any, other: Any) -> bool:
    """Whether two target laws are the same, number by number."""
    kinds: list[Any] = [jax.tree.structure(law) for law in (one, other)]
    alike = bool(kinds[0] == kinds[1])
    return alike and all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def _measured(
    problem: Problem, data: Data, found: Minimum, seconds: float, count: int, key: jax.Array
) -> Fit:
    width = found.factor.shape[1]
    learned = found.factor @ found.factor.T / np.sqrt(width * data.dim)
    eigenvalues = _cleaned(np.linalg.eigvalsh(learned), data.target)
    noisy, clean, std_error = measured_errors(problem, data, learned, count, key)
    return Fit(
        problem=problem,
        dim=data.dim,
        width=width,
        S=learned,
        eigenvalues=eigenvalues,
        q=float(np.sum(learned**2) / data.dim),
        m=float(np.sum(learned * data.target) / data.dim),
        Q0=data.target_power,
        train_loss=found.value / data.dim**2,
        train_error=float(mean_train_error(found.factor, data.chunks, problem)),
        test_error=noisy,
        test_error_clean=clean,
        test_error_std_error=std_error,
        rank_ratio=float(np.count_nonzero(eigenvalues) / data.dim),
        relative_gradient=found.relative_gradient,
        converged=found.converged,
        evaluations=found.evaluations,
        seconds=seconds,
    )


def measured_errors(
    problem: Problem, data: Data, learned: FloatArray, count: int, key: jax.Array
) -> tuple[float, float, float]:
    """Test error, noiseless test error, and the standard error of the first, of a learned S."""
    rows = [
        np.asarray(_chunk_errors(problem, learned, chunk, clean))
        for chunk, clean in fresh_chunks(data.problem, data.target, count, key)
    ]
    errors = np.concatenate(rows, axis=1)[:, :count]
    noisy, clean = errors.mean(axis=1)
    return float(noisy), float(clean), float(errors[0].std(ddof=1) / np.sqrt(count))


@jax.jit
def _chunk_errors(problem: Problem, learned: Any, chunk: Chunk, clean: Any) -> Any:
    weights = problem.attention.weights(map_scores(chunk.tokens, learned))
    return jnp.stack(
        [jnp.sum((labels - weights) ** 2, axis=(0, 1)) for labels in (chunk.labels, clean)]
    )


def _cleaned(eigenvalues: FloatArray, target: FloatArray) -> FloatArray:
    """Eigenvalues with those below 1e-4 of the largest set to zero, all where S is negligible."""
    largest = eigenvalues[-1]
    negligible = largest <= 1e-6 * np.linalg.norm(target, 2)
    kept = (eigenvalues > RANK_TOLERANCE * largest) & ~negligible
    return np.where(kept, eigenvalues, 0.0)
