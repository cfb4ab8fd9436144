"""A line of problems solved together: explored on few points, refined on many, S = 0 compared."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem
from attnlaw.theory.assemble import collapsed_solution, live_solution
from attnlaw.theory.collapse import Collapse, compiled_collapse, prepared
from attnlaw.theory.kernel import ALL, FEW, SOME, Solved
from attnlaw.theory.rescue import LAST_RESORTS, rescue_starts, sought_further
from attnlaw.theory.search import Averages, searched, take
from attnlaw.theory.solution import Solution
from attnlaw.theory.starts import Candidate, cold_candidates, lowest

FloatArray = NDArray[np.float64]

MOST_SPREADS = 10
NEAR = 2.0


class Answer(NamedTuple):
    """A solution, and the candidate from which more points can refine it."""

    solution: Solution
    candidate: Candidate


def solve_line(
    problems: list[Problem], averages: Averages, guess: FloatArray | None = None
) -> list[Answer]:
    """Answers to problems of one structure, in the order of their line.

    Every problem is explored from the cold starts (or the guess), then from its neighbours'
    solutions, so that a region with two solutions is entered from both sides.

    Args:
        problems: the line, neighbours being near each other.
        averages: the Gaussian points.
        guess: coordinates to start from instead of the cold starts.
    """
    collapses = _begin_collapses(problems, averages)
    explorer = _Explorer(problems, averages)
    explorer.from_starts(guess)
    explorer.from_neighbours()
    best = [
        candidate if candidate.settled else sought_further(problem, averages, candidate)
        for problem, candidate in zip(problems, explorer.best, strict=True)
    ]
    best = _closer(problems, averages, best)
    answers = refined(problems, averages, best, collapses)
    return [
        answer if answer.solution.converged else _rescued(problem, averages, answer, flat)
        for problem, answer, flat in zip(problems, answers, collapses, strict=True)
    ]


def _closer(problems: list[Problem], averages: Averages, best: list[Candidate]) -> list[Candidate]:
    """The candidates, those known only roughly because of jumps sought over some more points.

    One that is none there would not hold over all points either, and is sought further where that
    has not been done yet.
    """
    rough = [index for index, candidate in enumerate(best) if candidate.rough]
    if rough:
        solved = searched(problems, averages, [(index, best[index]) for index in rough], SOME)
        for place, index in enumerate(rough):
            known = best[index]
            found = Candidate.of(take(solved, place), known.start)._replace(found=known.found)
            if not found.alive and known.start not in LAST_RESORTS:
                found = sought_further(problems[index], averages, known)
            best[index] = found if found.alive else known
    return best


def refined(
    problems: list[Problem],
    averages: Averages,
    starts: list[Candidate],
    collapses: list[Future[Collapse]] | None = None,
) -> list[Answer]:
    """Answers over every scramble, from known candidates."""
    flats = collapses or _begin_collapses(problems, averages)
    solved = searched(problems, averages, list(enumerate(starts)), ALL)
    return [
        _chosen(problem, averages, take(solved, index), starts[index], flats[index])
        for index, problem in enumerate(problems)
    ]


def _begin_collapses(problems: list[Problem], averages: Averages) -> list[Future[Collapse]]:
    """S = 0 of every problem, computed (and compiled) beside the search."""
    pool = ThreadPoolExecutor(1)
    work = in_float64(compiled_collapse)
    started = [pool.submit(work, prepared(problem), averages.flat) for problem in problems]
    pool.shutdown(wait=False)
    return started


class _Explorer:
    """Candidates for every problem of a line, the best so far."""

    def __init__(self, problems: list[Problem], averages: Averages) -> None:
        self.problems, self.averages = problems, averages
        self.best: list[Candidate] = []

    def from_starts(self, guess: FloatArray | None) -> None:
        """Try the guess, or every cold start, at every problem."""
        starts = [
            cold_candidates(problem) if guess is None else [Candidate.at(guess, "given")]
            for problem in self.problems
        ]
        rows = [(index, start) for index, own in enumerate(starts) for start in own]
        found = self._second_look(rows, self._candidates(rows))
        remaining = iter(found)
        self.best = [lowest([next(remaining) for _ in own]) for own in starts]

    def from_neighbours(self) -> None:
        """Spread solutions along the line for as long as one of them lowers a neighbour's Φ."""
        last = len(self.problems) - 1
        fresh = set(range(last + 1))
        for _ in range(MOST_SPREADS):
            rows = [
                (place, self.best[index]._replace(start="neighbour"))
                for index in sorted(fresh)
                for place in (index - 1, index + 1)
                if 0 <= place <= last and self.best[index].alive
            ]
            fresh = set()
            for (place, *_), candidate in zip(rows, self._candidates(rows), strict=True):
                known = self.best[place]
                self.best[place] = best = lowest([known, candidate])
                if best.start == "neighbour" and not (known.alive and best.is_same_as(known)):
                    fresh.add(place)
            if not fresh:
                break

    def _candidates(self, rows: list[tuple[int, Candidate]], level: int = FEW) -> list[Candidate]:
        if not rows:
            return []
        solved = searched(self.problems, self.averages, rows, level)
        return [
            Candidate.of(take(solved, place), start.start) for place, (_, start) in enumerate(rows)
        ]

    def _second_look(
        self, rows: list[tuple[int, Candidate]], found: list[Candidate]
    ) -> list[Candidate]:
        """What was found, ends near a fixed point that few points blur sought over some more."""
        near = [
            k
            for k, end in enumerate(found)
            if not end.settled and end.residual <= NEAR * end.tolerance
        ]
        again = self._candidates([(rows[k][0], found[k]) for k in near], SOME)
        seen = dict(zip(near, again, strict=True))
        return [seen.get(k, end) for k, end in enumerate(found)]


def _rescued(
    problem: Problem, averages: Averages, answer: Answer, collapse: Future[Collapse]
) -> Answer:
    """The answer from other starts, where the first one did not hold over all points."""
    for start in rescue_starts(problem, averages, answer.candidate):
        (rescued,) = refined([problem], averages, [start], [collapse])
        if rescued.solution.converged:
            return rescued
    return answer


def _chosen(
    problem: Problem,
    averages: Averages,
    solved: Solved,
    candidate: Candidate,
    collapse: Future[Collapse],
) -> Answer:
    """The refined solution, or S = 0 where that is stable and of lower Φ."""
    flat = collapse.result()
    critical = np.mean(np.asarray(flat.critical_decay_scaled))
    flat_wins = bool(solved.collapsed)
    found = candidate.found
    if not flat_wins and problem.weight_decay_scaled >= critical:
        found += 1
        flat_wins = problem.sample_ratio * np.mean(np.asarray(flat.loss)) <= solved.train_loss
    if flat_wins:
        iterations = int(solved.iterations)
        solution = collapsed_solution(problem, flat, averages.test, found, iterations)
    else:
        bound = float(np.mean(np.asarray(flat.bound)))
        solution = live_solution(problem, solved, found, candidate.start, averages.count, bound)
    return Answer(solution, Candidate.of(solved, candidate.start)._replace(found=candidate.found))
