"""Observables of a solution, with what each scramble alone would give.

The solution x* is the fixed point of the map averaged over all scrambles. Scramble s alone moves
the conjugates by δ_s at fixed x, hence the map by M δ_s with M the response of the matrix side,
hence its own fixed point by δx_s = −J⁻¹ M δ_s, J the Jacobian of G(x) − x, and with it every
observable, to first order. The δ_s sum to zero, so the mean over scrambles is the value at x*.
What is left of the residual, f, moves x* by −J⁻¹ f in the same way.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.coordinates import from_coordinates, slopes, to_coordinates
from attnlaw.denoisers import MatrixSide
from attnlaw.equations import DIFFERENCE, Step, test_errors
from attnlaw.problem import Problem
from attnlaw.records import Overlaps

FloatArray = NDArray[np.float64]


class Probes(NamedTuple):
    """Test errors at the solution and beside it.

    errors (R, 2): noisy and clean test error of each scramble; shifted_errors (3, 2): their means
    over some points, at x*, with its first and with its second coordinate shifted.
    """

    errors: Any
    shifted_errors: Any


def probe(problem: Problem, x: Any, points: Any, wanted: Any) -> Probes:
    """Test errors over all chunks, and with x shifted over the first chunk of every scramble.

    Args:
        problem: the problem.
        x: coordinates of the solution.
        points: points of the test errors, (scrambles, chunks, 2, K, B).
        wanted: when false nothing is computed and the answer means nothing.
    """
    scrambles, chunks = points.shape[:2]
    base = scrambles * chunks
    shifts = DIFFERENCE * jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

    def add(index: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        errors, shifted = state
        extra = index - base
        row = jnp.where(extra < 0, 0, extra // scrambles)
        scramble = jnp.where(extra < 0, index // chunks, extra % scrambles)
        chunk = jnp.where(extra < 0, index % chunks, 0)
        overlaps = from_coordinates(problem, x + shifts[row])
        own = jnp.stack(test_errors(problem, overlaps, points[scramble, chunk]))
        return (
            errors.at[scramble].add(jnp.where(extra < 0, own / chunks, 0.0)),
            shifted.at[row].add(jnp.where(extra < 0, 0.0, own / scrambles)),
        )

    count = jnp.where(wanted, base + 3 * scrambles, 0)
    start = (jnp.zeros((scrambles, 2)), jnp.zeros((3, 2)))
    return Probes(*jax.lax.fori_loop(0, count, add, start))


def observed(problem: Problem, solved: Any) -> dict[str, FloatArray]:
    """Observables at the solution (4.2)–(4.4), one entry a scramble, then where the residual leads.

    Args:
        problem: the problem.
        solved: the solver's answer, in NumPy arrays.
    """
    step, probes = solved.step, solved.probes
    response = _response(problem, step.matrix)
    stretch, overlaps_slope = slopes(problem, solved.coordinates)
    left_over = step.image - solved.coordinates
    pushes = np.column_stack([stretch @ response @ _relative_changes(step), left_over])
    moves = -_solution(solved.jacobian, pushes)
    plain_moves = _solution(stretch, moves)
    hat_moves = _solution(response, plain_moves)
    overlaps = np.stack(solved.overlaps)[:, None] + overlaps_slope @ plain_moves
    loss_moves = problem.sample_ratio * (step.scrambles.moreau - step.channel.moreau)
    loss_moves = np.append(loss_moves, 0.0)
    trace_moves = _slopes(step.matrix.trace) @ hat_moves
    # (4.3) holds along the moves
    fit_moves = (loss_moves - problem.weight_decay_scaled * trace_moves) / problem.sample_ratio
    errors = np.vstack([probes.errors, probes.errors.mean(axis=0)])
    errors = errors + (_slopes(probes.shifted_errors).T @ moves[:2]).T
    q_hat, m_hat, sigma_hat = (
        hat * (1 + move) for hat, move in zip(step.conjugates, hat_moves, strict=True)
    )
    return {
        **dict(zip(Overlaps._fields, overlaps, strict=True)),
        "q_hat": q_hat,
        "m_hat": m_hat,
        "sigma_hat": sigma_hat,
        "train_loss": solved.train_loss + loss_moves,
        "train_error": step.channel.loss + fit_moves,
        "test_error": errors[:, 0],
        "test_error_clean": errors[:, 1],
        "trace": step.side.trace + trace_moves,
        "rank_ratio": step.side.rank_ratio + _slopes(step.matrix.rank_ratio) @ hat_moves,
    }


def _response(problem: Problem, sides: MatrixSide) -> FloatArray:
    """Derivative of the plain coordinates in the logarithms of the conjugates.

    Where the scale of S matters to 10⁻⁹, η and J must be told apart in q = η² J: η changes by as
    much as the conjugates do, J much less.
    """
    q, _, sigma, _ = sides.overlaps
    second = q / sides.parameters.scale**2
    angle = to_coordinates(problem, sides.overlaps)[1]
    response = _slopes(np.stack([np.log(second), angle, np.log(sigma)], axis=1)).T
    response[0] += 0.0, 2.0, -2.0
    return response


def _relative_changes(step: Step) -> FloatArray:
    """Change of (log q̂, log m̂, log Σ̂) at fixed x from all scrambles to one; (3, R)."""
    names = ("gradient_square", "alignment", "divergence")
    return np.stack([getattr(step.scrambles, n) / getattr(step.channel, n) - 1 for n in names])


def _slopes(rows: FloatArray) -> FloatArray:
    """Derivatives from a first row and shifted ones."""
    return np.asarray((rows[1:] - rows[0]) / DIFFERENCE)


def _solution(matrix: FloatArray, rhs: FloatArray) -> FloatArray:
    """Least-squares solution, which also serves a singular matrix; zero where nothing is known.

    A search that found no point at all leaves entries that are not finite; its answer is marked as
    not converged in any case.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(rhs).all()):
        return np.zeros_like(rhs)
    return np.asarray(np.linalg.lstsq(matrix, rhs, rcond=1e-12)[0])
