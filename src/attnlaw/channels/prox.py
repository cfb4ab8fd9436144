"""Proximal step of a loss in score coordinates, for many points at once.

Arrays are laid out (coordinates, points): every operation runs along the points, and the small
linear systems are eliminated coordinate by coordinate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Loss = Callable[[Any], Any]

_STEP_TOLERANCE = 1e-9
_MAX_STEPS = 60


class Prox(NamedTuple):
    """Minimiser y of ℓ(y) + |y − ω|²/(2Σ): value, ∇ℓ, full Hessian, and whether it settled."""

    point: Any
    value: Any
    gradient: Any
    hessian: Any
    settled: Any


class _State(NamedTuple):
    point: Any
    value: Any
    slope: Any
    hessian: Any
    damping: Any
    active: Any
    step: Any


def prox(loss: Loss, omega: Any, sigma: Any, start: Any) -> Prox:
    """argmin_y ℓ(y) + |y − ω|²/(2Σ) from `start`, by damped Newton steps; the minimum of (3.1).

    Args:
        loss: maps coordinates (K, N) to N losses, each of its own column only.
        omega: centres ω, (K, N).
        sigma: Σ > 0.
        start: first points, (K, N).
    """

    def objective(y: Any) -> Any:
        return loss(y) + jnp.sum((y - omega) ** 2, axis=0) / (2 * sigma)

    def keep_going(state: _State) -> Any:
        return (state.step < _MAX_STEPS) & jnp.any(state.active)

    def advance(state: _State) -> _State:
        direction, definite = solve_symmetric(state.hessian, -state.slope, state.damping)
        step = jnp.where(state.active & definite, direction, 0.0)
        trial = state.point + step
        value, slope, hessian = derivatives(objective, trial)
        slack = 1e-13 * (jnp.abs(value) + jnp.abs(state.value)) + 1e-300
        accepted = state.active & definite & (value <= state.value + slack)
        trace = sum(jnp.abs(hessian[k][k]) for k in range(len(hessian)))
        grown = jnp.maximum(4 * state.damping, 0.1 * trace)
        eased = jnp.where(state.damping > 1e-3 * trace, state.damping / 4, 0.0)
        size = jnp.sqrt(jnp.sum(step**2, axis=0))
        scale = 1 + jnp.sqrt(jnp.sum(trial**2, axis=0))
        small = (size <= _STEP_TOLERANCE * scale) & definite & (state.damping <= trace)

        def choose(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda n, o: jnp.where(accepted, n, o), new, old)

        return _State(
            choose(trial, state.point),
            choose(value, state.value),
            choose(slope, state.slope),
            choose(hessian, state.hessian),
            jnp.where(accepted, eased, grown),
            state.active & ~small,
            state.step + 1,
        )

    value, slope, hessian = derivatives(objective, start)
    first = _State(
        start, value, slope, hessian, jnp.zeros_like(value), jnp.ones(value.shape, dtype=bool), 0
    )
    last = jax.lax.while_loop(keep_going, advance, first)
    gradient = last.slope - (last.point - omega) / sigma
    return Prox(last.point, last.value, gradient, last.hessian, ~last.active)


def derivatives(function: Loss, y: Any) -> tuple[Any, Any, list[list[Any]]]:
    """Value (N), gradient (K, N) and Hessian (rows of arrays N) of a column-wise function."""

    def gradient(at: Any) -> Any:
        value, pull = jax.vjp(function, at)
        return pull(jnp.ones_like(value))[0], value

    count = y.shape[0]
    rows: list[Any] = []
    for k in range(count):
        direction = jnp.zeros_like(y).at[k].set(1.0)
        slope, change, value = jax.jvp(gradient, (y,), (direction,), has_aux=True)
        rows.append(change)
    return value, slope, [[rows[i][j] for j in range(count)] for i in range(count)]


def solve_symmetric(matrix: list[list[Any]], rhs: Any, damping: Any) -> tuple[Any, Any]:
    """Solve (M + damping·I) x = rhs for each column by LDLᵀ, and say where M + damping·I > 0."""
    count = len(matrix)
    lower: list[list[Any]] = [[None] * count for _ in range(count)]
    pivots: list[Any] = []
    solution: list[Any] = []
    definite = True
    for i in range(count):
        for j in range(i):
            inner = sum((lower[i][k] * pivots[k] * lower[j][k] for k in range(j)), start=0.0)
            lower[i][j] = (matrix[i][j] - inner) / pivots[j]
        inner = sum((lower[i][k] ** 2 * pivots[k] for k in range(i)), start=0.0)
        pivot = matrix[i][i] + damping - inner
        positive = pivot > 1e-14 * (jnp.abs(matrix[i][i]) + damping)
        definite = definite & positive
        pivots.append(jnp.where(positive, pivot, 1.0))
        solution.append(rhs[i] - sum((lower[i][k] * solution[k] for k in range(i)), start=0.0))
    solution = [s / p for s, p in zip(solution, pivots, strict=True)]
    for i in reversed(range(count)):
        for k in range(i + 1, count):
            solution[i] = solution[i] - lower[k][i] * solution[k]
    return jnp.stack(solution), definite
