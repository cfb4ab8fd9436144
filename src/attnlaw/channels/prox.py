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
        found, definite = solve_symmetric(state.hessian, -state.slope[:, None], state.damping)
        step = jnp.where(state.active & definite, found[:, 0], 0.0)
        trial = state.point + step
        value, slope, hessian = derivatives(objective, trial)
        slack = 1e-13 * (jnp.abs(value) + jnp.abs(state.value)) + 1e-300
        accepted = state.active & definite & (value <= state.value + slack)
        trace = jnp.sum(jnp.abs(jnp.diagonal(hessian)), axis=-1)
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


def derivatives(function: Loss, y: Any) -> tuple[Any, Any, Any]:
    """Value (N), gradient (K, N) and Hessian (K, K, N) of a column-wise function."""

    def gradient(at: Any) -> Any:
        value, pull = jax.vjp(function, at)
        return pull(jnp.ones_like(value))[0], value

    def row(unit: Any) -> Any:
        direction = jnp.broadcast_to(unit[:, None], y.shape)
        return jax.jvp(lambda at: gradient(at)[0], (y,), (direction,))[1]

    slope, value = gradient(y)
    return value, slope, jax.vmap(row)(jnp.eye(y.shape[0]))


def solve_symmetric(matrix: Any, rhs: Any, damping: Any) -> tuple[Any, Any]:
    """Solve (M + damping·I) x = rhs column by column, and say where M + damping·I > 0.

    Elimination in symmetric order, without exchanges: the pivots are positive exactly where the
    matrix is positive definite, and elsewhere the solution is not to be used.

    Args:
        matrix: (K, K, N).
        rhs: right-hand sides (K, M, N).
        damping: (N) or a number.
    """
    count = matrix.shape[0]
    rest, below = matrix, rhs
    rows, tops, pivots = [], [], []
    definite: Any = True
    for _ in range(count):
        scale = jnp.abs(rest[0, 0]) + damping
        pivot = rest[0, 0] + damping
        positive = pivot > 1e-14 * scale
        definite = definite & positive
        pivot = jnp.where(positive, pivot, 1.0)
        row = rest[0, 1:] / pivot
        rows.append(row)
        tops.append(below[0])
        pivots.append(pivot)
        rest, below = (
            rest[1:, 1:] - rest[1:, :1] * row[None],
            below[1:] - row[:, None] * below[0][None],
        )
    solution = tops[-1][None] / pivots[-1]
    for row, top, pivot in zip(rows[-2::-1], tops[-2::-1], pivots[-2::-1], strict=True):
        first = top / pivot - jnp.sum(row[:, None] * solution, axis=0)
        solution = jnp.concatenate([first[None], solution])
    return solution, definite
