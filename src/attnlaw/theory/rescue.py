"""Starts for problems whose fixed point the ordinary starts do not reach."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attnlaw.coordinates import sharpness
from attnlaw.problem import Problem
from attnlaw.theory.kernel import FEW, SOME, tolerance
from attnlaw.theory.search import Averages, searched, take
from attnlaw.theory.starts import Candidate, cold_candidates, lowest, recovered_candidate

FloatArray = NDArray[np.float64]

DECAY_FACTORS = (100.0, 30.0, 10.0, 5.0, 2.5, 1.6, 1.25, 1.0)
LOG_Q_FROM, LOG_Q_TO = -2.0, 14.0
TYPICAL_ANGLE = 1.4
SCAN_POINTS = 15
LOOSE = 0.05
LITTLE_NOISE = 0.1
LAST_RESORTS = ("scanned", "continued")
LEAST_DECAY = 1e-6
SHARES_OF_SAMPLES = np.geomspace(0.25, 1.0, 16)


def sought_further(problem: Problem, averages: Averages, candidate: Candidate) -> Candidate:
    """The candidate of a scan where it is settled, else the better of it and one from larger λ."""
    scanned = _scanned(problem, averages)
    if scanned and scanned.settled:
        return scanned
    followed = _from_larger_decay(problem, averages, candidate)
    return lowest([followed, scanned]) if scanned else followed


def rescue_starts(problem: Problem, averages: Averages, failed: Candidate) -> Iterator[Candidate]:
    """Starts to refine over all points, each made only when it is asked for.

    A scan over the same points would find again what has just failed, when one was made before.
    """
    scanned = None if failed.start in LAST_RESORTS else _scanned(problem, averages)
    if scanned:
        yield scanned
    if problem.noise <= LITTLE_NOISE:
        yield recovered_candidate(problem)
        fewer = [float(problem.sample_ratio * share) for share in SHARES_OF_SAMPLES]
        yield _followed([problem.replace(sample_ratio=alpha) for alpha in fewer], averages, failed)


def _from_larger_decay(problem: Problem, averages: Averages, candidate: Candidate) -> Candidate:
    """Follow the solution down from a larger weight decay, where the map contracts."""
    own = problem.penalty.weight_decay
    decays = [max(own, LEAST_DECAY) * factor for factor in DECAY_FACTORS]
    way = decays if own >= LEAST_DECAY else [*decays, own]
    return _followed([problem.replace(weight_decay=decay) for decay in way], averages, candidate)


def _followed(way: list[Problem], averages: Averages, candidate: Candidate) -> Candidate:
    """The solution followed along problems that lead to the last one, over few points."""
    starts = cold_candidates(way[-1])
    for nearby in way:
        solved = searched([nearby], averages, [(0, start) for start in starts], FEW)
        found = [Candidate.of(take(solved, place), "continued") for place in range(len(starts))]
        candidate = lowest(found)
        if candidate.alive:
            starts = [candidate]
    return candidate


def _scanned(problem: Problem, averages: Averages) -> Candidate | None:
    """What searches from the crossings of a scan find."""
    starts = list(_crossings(problem, averages))
    if not starts:
        return None
    solved = searched([problem], averages, [(0, start) for start in starts], SOME)
    return lowest([Candidate.of(take(solved, k), "scanned") for k in range(len(starts))])


def _crossings(problem: Problem, averages: Averages) -> Iterator[Candidate]:
    """Where the map keeps the scale of S, found along a grid of it with the rest solved for.

    A search can be caught where the map moves little and yet has no fixed point; along the grid
    the sign of its move of the scale tells. Past a crossing the scan ends where the map has moved
    down twice; with more and more minima in the proximal steps every further value costs more.
    """
    start = cold_candidates(problem)[0]
    before: tuple[Candidate, float] | None = None
    crossed = False
    unit = sharpness(problem, TYPICAL_ANGLE)
    for scale in unit * np.linspace(LOG_Q_FROM, LOG_Q_TO, SCAN_POINTS):
        guess = np.array([scale, *start.coordinates[1:]])
        if before is not None:
            guess[2] += (scale - before[0].coordinates[0]) / unit
        held = start._replace(coordinates=guess, start="scanned")
        solved = take(searched([problem], averages, [(0, held)], SOME, held=True), 0)
        if not solved.residual <= max(LOOSE, tolerance(solved)):
            continue
        start = Candidate.of(solved, "scanned")
        move = float(solved.step.image[0] - scale)
        if before is not None and crossed and max(before[1], move) < 0:
            return
        if before is not None and before[1] > 0 >= move:
            crossed = True
            share = before[1] / (before[1] - move)
            ends = before[0].coordinates, start.coordinates
            yield Candidate.at(ends[0] + share * (ends[1] - ends[0]), "scanned")
        before = start, move
