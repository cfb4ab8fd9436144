"""Commands that train, compare and explain. Heavy rooms are imported when a command runs."""

import json
from importlib.metadata import version
from typing import Any

import click

from attnlaw.cli import explanations
from attnlaw.cli.options import (
    accuracy_option,
    build_method,
    build_problem,
    json_option,
    problem_options,
    run_options,
    training_options,
)
from attnlaw.cli.output import not_converged, run_attribute, warn_of_width, write
from attnlaw.records import SCHEMA


@click.command("train")
@problem_options
@training_options
@run_options
def train_command(
    dim: int, repeats: int, method: str, seed: int, out: Any, as_json: bool, **options: Any
) -> int:
    """Train layers at finite dimension and measure them."""
    import jax

    from attnlaw.cli.display import print_fits, shown_progress
    from attnlaw.numerics.checks import require_count
    from attnlaw.problem import require_decay
    from attnlaw.records import Progress
    from attnlaw.results import fits_dataset, fits_record, prepare_folder
    from attnlaw.training.data import sample
    from attnlaw.training.fit import fit

    problem, optimiser = build_problem(options), build_method(method)
    require_count("repeats", repeats, 1)
    require_decay(problem)
    run = {"command": "train", "seed": seed, "dim": dim, "repeats": repeats, "method": method}
    folder = prepare_folder(out) if out else None
    key, fits = jax.random.key(seed), []
    with shown_progress() as progress:
        for repeat in range(repeats):
            progress(Progress("repeat", repeat, repeats, f"d = {dim}"))
            data = sample(problem, dim, jax.random.fold_in(key, repeat))
            fits.append(fit(problem, data, optimiser, progress=progress))
    if as_json:
        click.echo(json.dumps(fits_record(problem, fits) | {"run": run}))
    else:
        print_fits(fits)
    if folder:
        from attnlaw.figures import spectrum

        dataset = fits_dataset(problem, fits).assign_attrs(run_attribute(run))
        write(folder, problem, dataset, "spectrum.png", spectrum.draw(dataset))
    if any(fit.rank_ratio * dim >= fit.width < dim for fit in fits):
        warn_of_width(problem.width_ratio)
    stopped = [fit.relative_gradient for fit in fits if not fit.converged]
    if not stopped:
        return 0
    return not_converged(
        f"relative gradient {max(stopped):.1e} above {optimiser.tolerance:.0e} in {len(stopped)} "
        f"of {repeats} layers; try another --method, --seed or a larger --weight-decay"
    )


@click.command("compare")
@problem_options
@training_options
@accuracy_option
@click.option(
    "--curve/--no-curve",
    default=True,
    show_default=True,
    help="Also the learning curve over α in [0.05, 4] (right panel).",
)
@run_options
def compare_command(
    dim: int,
    repeats: int,
    method: str,
    accuracy: float,
    curve: bool,
    seed: int,
    out: Any,
    as_json: bool,
    **options: Any,
) -> int:
    """Lay theory beside trained layers: a table, a picture, a file."""
    from attnlaw.cli.display import print_comparison, shown_progress
    from attnlaw.comparison import check_curve, compare, with_curve
    from attnlaw.results import prepare_folder

    problem, optimiser = build_problem(options), build_method(method)
    run = {
        "command": "compare",
        "seed": seed,
        "accuracy": accuracy,
        "dim": dim,
        "repeats": repeats,
        "method": method,
    }
    folder = prepare_folder(out) if out else None
    settings: dict[str, Any] = {"seed": seed, "method": optimiser, "accuracy": accuracy}
    if folder and curve:
        check_curve(problem, dim)
    with shown_progress() as progress:
        comparison = compare(problem, dim, repeats, progress=progress, **settings)
    if not as_json:
        print_comparison(comparison)
    if folder:
        _write_comparison(folder, comparison, run)
    if folder and curve:
        click.echo("attnlaw: the table is saved, the learning curve follows", err=True)
        with shown_progress() as progress:
            comparison = with_curve(comparison, progress=progress, **settings)
        _write_comparison(folder, comparison, run)
    if as_json:
        click.echo(json.dumps(comparison.record() | {"run": run}))
    if not comparison.theory.width_sufficient:
        warn_of_width(problem.width_ratio)
    return 0 if comparison.converged else not_converged(comparison.reason)


@click.command("explain")
@click.argument("key")
@json_option
def explain_command(key: str, as_json: bool) -> None:
    """Explain a printed quantity in one paragraph, with its equation."""
    text = explanations.explain(key)
    if as_json:
        head = {"schema": SCHEMA, "version": version("attnlaw")}
        click.echo(json.dumps(head | {"key": key, "explanation": text}))
    else:
        click.echo(text)


def _write_comparison(folder: Any, comparison: Any, run: dict[str, Any]) -> None:
    from attnlaw.figures import comparison as figure

    data = figure.compute(comparison).assign_attrs(run_attribute(run))
    write(folder, comparison.problem, data, "compare.png", figure.draw(data))
