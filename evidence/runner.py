"""One loop for all pieces of evidence: cases, what is unfinished, verdict, record."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence import agreement, coverage, robustness

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Piece:
    """One claim: its cases (name → arguments), how to measure a case, and how to judge them."""

    claim: str
    cases: dict[str, dict[str, Any]]
    measure: Callable[..., dict[str, Any]]
    judge: Callable[[dict[str, Any]], dict[str, Any]]


PIECES = {
    "finite_size_gap": Piece(agreement.CLAIM, agreement.CASES, agreement.measure, agreement.judge),
    "error_bars": Piece(coverage.CLAIM, coverage.CASES, coverage.measure, coverage.judge),
    "random_problems": Piece(
        robustness.CLAIM, robustness.CASES, robustness.measure, robustness.judge
    ),
}


def run_piece(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Measure the cases that this commit lacks, judge all, and write the record.

    Until all are done they are kept in `unfinished/`, where an interrupted run goes on.
    """
    piece, commit = PIECES[name], current_commit()
    unfinished = folder / "unfinished" / f"{name}.json"
    done = _known(unfinished, commit) or _known(folder / f"{name}.json", commit)
    for case, arguments in piece.cases.items():
        if done.get(case, {}).get("arguments") == arguments:
            continue
        print(f"{name}: {case} …", flush=True)
        began = time.perf_counter()
        result = piece.measure(**arguments)
        seconds = round(time.perf_counter() - began, 1)
        done[case] = {"commit": commit, "arguments": arguments, "seconds": seconds, **result}
        _write(unfinished, {"commit": commit, "cases": done})
    verdict = piece.judge(done)
    record = {
        "claim": piece.claim,
        "command": f"make evidence  (python -m evidence {name})",
        "commit": commit,
        "machine": machine(),
        "seconds": round(sum(case["seconds"] for case in done.values()), 1),
        **verdict,
        "cases": done,
    }
    _write(folder / f"{name}.json", record)
    unfinished.unlink(missing_ok=True)
    print(f"{name}: {'holds' if verdict['holds'] else 'DOES NOT HOLD'}", flush=True)
    return record


def machine() -> str:
    """Kind of machine, cores and Python."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def current_commit() -> str:
    """The commit of the sources that figures come from, marked when they are changed.

    What only shows results does not count: commands, figures, files of results.
    """
    shown = ("cli", "figures", "results.py")
    sources = ["src", "pyproject.toml", "requirements.lock"]
    sources += [f":(exclude)src/attnlaw/{name}" for name in shown]
    commit = _git("log", "-1", "--format=%h", "--", *sources)
    return commit + ("+changes" if _git("status", "--porcelain", "--", *sources) else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=FOLDER.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _known(path: Path, commit: str) -> dict[str, Any]:
    if not path.exists():
        return {}
    stored = json.loads(path.read_text())
    return dict(stored["cases"]) if stored["commit"] == commit else {}


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(partial, path)
