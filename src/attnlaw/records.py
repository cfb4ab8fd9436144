"""Small records that every floor of the package speaks in."""

from collections.abc import Callable
from typing import Any, NamedTuple

SCHEMA = 1


class Overlaps(NamedTuple):
    """Order parameters of the learned map S.

    q = Tr S²/d, m = Tr S S0/d, sigma = Σ the response of the scores; misalignment = 1 − ρ²,
    ρ = m/√(q Q0), where it is known better than from the rounded q and m.
    """

    q: Any
    m: Any
    sigma: Any
    misalignment: Any = None


class Conjugates(NamedTuple):
    """Conjugate order parameters q̂, m̂, Σ̂: the strength of noise, signal and curvature in S."""

    q_hat: Any
    m_hat: Any
    sigma_hat: Any


class Progress(NamedTuple):
    """One report of a long computation: what runs, how far it is, and a figure of merit."""

    task: str
    done: int
    total: int | None
    note: str


ProgressCallback = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """A progress callback that shows nothing."""
