"""Tables on stdout, progress on stderr."""

import dataclasses
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from attnlaw.records import Progress, ProgressCallback
from attnlaw.results import BAYES_MEANINGS, FIT_KEYS, MEANINGS, solution_values

if TYPE_CHECKING:
    from attnlaw.comparison import Comparison
    from attnlaw.theory.bayes import BayesOptimal
    from attnlaw.theory.curve import Curve
    from attnlaw.theory.solution import Solution
    from attnlaw.theory.thresholds import Thresholds
    from attnlaw.training.fit import Fit

CURVE_COLUMNS = ("train_loss", "train_error", "test_error_clean", "mse", "rank_ratio")
SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def shown_progress() -> Iterator[ProgressCallback]:
    """A progress callback that draws on stderr, or writes a line now and then to a file there."""
    console = Console(stderr=True)
    if not console.is_terminal:
        with _lines_now_and_then() as tell:
            yield tell
        return
    columns = ("{task.description}", BarColumn(), TextColumn("{task.fields[note]}"))
    with Bar(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        tasks: dict[str, int] = {}

        def show(progress: Progress) -> None:
            if progress.task not in tasks:
                tasks[progress.task] = bar.add_task(progress.task, note="")
            bar.update(
                tasks[progress.task],  # type: ignore[arg-type]
                completed=progress.done,
                total=progress.total,
                note=progress.note,
            )

        yield show


@contextmanager
def _lines_now_and_then() -> Iterator[ProgressCallback]:
    """A line every ten seconds with the last report, also while none comes."""
    began, over = time.monotonic(), threading.Event()
    latest: Progress | None = None

    def tell(progress: Progress) -> None:
        nonlocal latest
        latest = progress

    def speak() -> None:
        while not over.wait(min(SECONDS_BETWEEN_LINES, threading.TIMEOUT_MAX)):
            if latest is not None:
                of = "" if latest.total is None else f" of {latest.total}"
                note = f", {latest.note}" if latest.note else ""
                spent = f"{time.monotonic() - began:.0f} s"
                print(f"attnlaw: {latest.task} {latest.done}{of}{note}, {spent}", file=sys.stderr)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield tell
    finally:
        over.set()
        speaker.join()


def print_solution(solution: "Solution") -> None:
    """The solution as a table: quantity, value, standard error, meaning."""
    table = _table("quantity", "value", "± std. error", "meaning")
    errors = solution.standard_errors
    for key, value in solution_values(solution).items():
        error = f"{errors[key]:.1e}" if key in errors else ""
        table.add_row(key, _shown(value), error, MEANINGS.get(key, ""))
    _console().print(table)


def print_bayes(best: "BayesOptimal") -> None:
    """The Bayes-optimal baseline as a table."""
    table = _table("bayes-optimal", "value", "± std. error", "meaning")
    for key, meaning in BAYES_MEANINGS.items():
        error = best.standard_errors.get(key)
        shown = "" if error is None else f"{error:.1e}"
        table.add_row(key, _shown(getattr(best, key)), shown, meaning)
    _console().print(table)


def print_curve(line: "Curve", best: "Sequence[BayesOptimal]" = ()) -> None:
    """A curve as a table, one row a value."""
    more = ("bayes test_error",) if best else ()
    table = _table(line.name, "test_error", "±", *more, *CURVE_COLUMNS, "phase", "converged")
    for index, (value, solution) in enumerate(zip(line.values, line.solutions, strict=True)):
        table.add_row(
            _shown(value.item()),
            _shown(solution.test_error),
            f"{solution.standard_errors['test_error']:.1e}",
            *(_shown(best[index].test_error) for _ in more),
            *(_shown(getattr(solution, key)) for key in CURVE_COLUMNS),
            solution.phase,
            _shown(solution.converged),
        )
    _console().print(table)


def print_thresholds(found: "Thresholds") -> None:
    """Thresholds as a table, with the reason where there is none."""
    table = _table("quantity", "value", "meaning")
    values = dataclasses.asdict(found)
    reasons = values.pop("reasons")
    for key, value in values.items():
        told = f"{MEANINGS[key]}; {reasons[key]}" if key in reasons else MEANINGS[key]
        table.add_row(key, _shown(value), told)
    _console().print(table)


def print_fits(fits: "list[Fit]") -> None:
    """Trained layers, one column each."""
    table = _table("quantity", *(f"layer {i}" for i in range(len(fits))), "meaning")
    for key in FIT_KEYS:
        values = (_shown(getattr(fit, key)) for fit in fits)
        table.add_row(key, *values, MEANINGS.get(key, ""))
    _console().print(table)


def print_comparison(comparison: "Comparison") -> None:
    """Theory beside training."""
    repeats = len(comparison.fits)
    table = _table(
        "quantity",
        "theory",
        "at drawn target",
        f"trained, d={comparison.dim} ×{repeats}",
        "diff./s.e.",
    )
    for row in comparison.rows:
        error = "" if row.trained_std_error is None else f" ± {row.trained_std_error:.2g}"
        gap = "" if row.difference is None else f"{row.difference:+.1f}"
        table.add_row(
            row.quantity,
            _shown(row.theory),
            _shown(row.theory_at_target),
            _shown(row.trained_mean) + error,
            gap,
        )
    console = _console()
    console.print(table)
    if repeats > 1:
        from scipy.special import stdtrit

        bound = stdtrit(repeats - 1, 0.975)
        console.print(
            f"If theory and layers agree, diff./s.e. lies within ± {bound:.1f} in 95 % of "
            f"comparisons of {repeats} layers. At finite d a small shift "
            "adds to the chance; it shows where layers scatter little, as in rank_ratio."
        )


def _console() -> Console:
    """Standard output; wide enough for every table when it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        number = index > 0 and heading != "meaning"
        table.add_column(heading, justify="right" if number else "left", no_wrap=number)
    return table


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
