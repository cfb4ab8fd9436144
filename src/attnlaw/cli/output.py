"""What the commands share: files, warnings and exit codes."""

import json
from typing import Any

import click

NOT_CONVERGED = 3
PICTURES = ("spectrum.png", "curve.png", "compare.png")


def write(folder: Any, problem: Any, data: Any, name: str, figure: Any) -> None:
    """problem.json, result.nc and the picture; pictures of an earlier result go."""
    from attnlaw.figures.style import save
    from attnlaw.results import write_dataset, write_problem

    write_problem(folder, problem)
    write_dataset(folder, data)
    save(figure, folder / name)
    for other in set(PICTURES) - {name}:
        (folder / other).unlink(missing_ok=True)  # of what was in the folder before


def run_attribute(run: dict[str, Any]) -> dict[str, str]:
    """How a result was made, as an attribute of its file."""
    return {"run": json.dumps(run)}


def warn_of_width(width_ratio: float) -> None:
    """Warn that the width limits the rank."""
    warn(
        f"the width κ = {width_ratio:g} binds the rank of the layer; the theory describes a wider "
        "one"
    )


def warn(message: str) -> None:
    """One line on stderr."""
    click.echo(f"attnlaw: warning: {message}", err=True)


def not_converged(reason: str | None) -> int:
    """Say why on stderr; the exit code."""
    click.echo(f"attnlaw: not converged: {reason}", err=True)
    return NOT_CONVERGED
