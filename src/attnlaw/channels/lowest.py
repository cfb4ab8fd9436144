"""The lowest of the several minima that a proximal step has at large Σβ².

Each row of the softmax can be fitted to its label or left where ω put it, and with three tokens or
more a row can be fitted in part; every choice can be a local minimum. The search goes down from ω
and from the scores of the label. Points where these two end apart are sought further: from single
rows exchanged between the two ends, and from mixtures of the ends. At two tokens that is every
choice of rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attnlaw.channels.prox import Objective, prox_minima

FloatArray = NDArray[np.float64]

SAME_MINIMUM = 1e-4
AT_ONCE = 2
MIXTURES, FARTHEST = 12, 1.2
GOLDEN = 0.618034
WIDTHS = (0.15, 0.4, 0.65)
STRIDE = 37


class Lowest(NamedTuple):
    """The minima found, point by point.

    point (K, N) and value (N) of the lowest and of the next (`rival`), which is meaningful where
    there are two (`apart`); settled: whether the steps to the lowest converged.
    """

    point: Any
    value: Any
    rival: Any
    rival_value: Any
    settled: Any
    apart: Any


def lowest_minima(
    objective: Objective,
    data: Any,
    ends: Any,
    basis: FloatArray,
    noise: Any,
    single: Any,
    reach: Any,
) -> Lowest:
    """Lowest minima of a function of each point's data.

    Args:
        objective: as for `prox_minima`.
        data: arrays with the points along the last axis.
        ends: ω and the scores of the label, (2, K, N).
        basis: row scores from the coordinates, (T, T, K).
        noise: standard normal numbers (2, K, N) that spread the mixtures.
        single: whether there is certainly one minimum, so that going down from ω is enough.
        reach: as for `prox_minima`.
    """
    shares, widths = starting_points(basis)
    size = ends.shape[2]
    between = ends[1] - ends[0]
    length = jnp.sqrt(jnp.mean(between**2, axis=0))

    def starts(batch: Any) -> Any:
        """Two starts, (2, K, N): the ends at first, then a pair from the table."""

        def other(place: Any) -> Any:
            index = AT_ONCE * (batch - 1) + place
            spread = jnp.roll(noise[place], STRIDE * (index + 1), axis=1)
            away = jnp.asarray(shares)[index] @ between
            return ends[0] + away + jnp.asarray(widths)[index] * length * spread

        return jax.lax.cond(
            batch == 0, lambda: ends, lambda: jnp.stack([other(k) for k in range(AT_ONCE)])
        )

    def search(state: tuple[Any, Lowest]) -> tuple[Any, Lowest]:
        batch, found = state
        first = jnp.stack([jnp.ones(size, bool), jnp.full(size, jnp.logical_not(single))])
        active = jnp.where(batch == 0, first, found.apart)
        new = prox_minima(objective, data, starts(batch), active, reach)
        for k in range(AT_ONCE):
            found = _with(found, new.points[k], new.values[k], new.settled[k] & active[k], reach)
        return batch + 1, found

    def wanted(state: tuple[Any, Lowest]) -> Any:
        batch, found = state
        return (batch == 0) | ((batch <= len(widths) // AT_ONCE) & jnp.any(found.apart))

    never, nowhere = jnp.full(size, jnp.inf), jnp.zeros(size, bool)
    blank = Lowest(ends[0], never, ends[0], never, nowhere, nowhere)
    return jax.lax.while_loop(wanted, search, (0, blank))[1]


def _with(found: Lowest, point: Any, value: Any, settled: Any, reach: Any) -> Lowest:
    """The minima found, and one more."""
    known = jnp.isfinite(found.value)
    other = jnp.sum((point - found.point) ** 2, axis=0) > (SAME_MINIMUM * reach) ** 2
    lower = value < found.value
    passed = lower & known & other
    second = ~lower & other & (value < found.rival_value)
    return Lowest(
        jnp.where(lower, point, found.point),
        jnp.where(lower, value, found.value),
        jnp.where(passed, found.point, jnp.where(second, point, found.rival)),
        jnp.where(passed, found.value, jnp.where(second, value, found.rival_value)),
        jnp.where(lower, settled, found.settled),
        found.apart | (known & other & settled & found.settled),
    )


def starting_points(basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Starts ω + M (h − ω) + w |h − ω| n between ω and the label's scores h: M (S, K, K), w (S).

    Args:
        basis: row scores from the coordinates, (T, T, K).
    """
    tokens, _, count = basis.shape
    rows = [_onto(basis[[row]]) for row in range(tokens)]
    if tokens == 2:
        return np.stack(rows), np.zeros(2)
    others = [_onto(np.delete(basis, row, axis=0)) for row in range(tokens)]
    mixed = [FARTHEST * ((k * GOLDEN + 0.5) % 1) * np.eye(count) for k in range(MIXTURES)]
    widths = [0.0] * (2 * tokens) + [WIDTHS[k % len(WIDTHS)] for k in range(MIXTURES)]
    return np.stack(rows + others + mixed), np.array(widths)


def _onto(rows: FloatArray) -> FloatArray:
    """Projection of the coordinates onto what some rows of the softmax see, (K, K)."""
    seen = rows.reshape(-1, rows.shape[-1])
    return np.asarray(np.linalg.pinv(seen) @ seen)
