"""The commands: parse, call, print. Heavy rooms are imported when a command runs."""

import json
from importlib.metadata import version
from typing import Any

import click

from attnlaw.cli import explanations
from attnlaw.cli.options import (
    accuracy_option,
    build_method,
    build_problem,
    curve_option,
    json_option,
    parse_axis,
    problem_options,
    run_options,
    training_options,
)
from attnlaw.records import SCHEMA

NOT_CONVERGED = 3
PICTURES = ("spectrum.png", "curve.png", "compare.png")
TRUST_LESS = (
    "q, m and sigma can be off by more than their errors, and the theory itself may not hold"
)


@click.command("predict")
@problem_options
@accuracy_option
@curve_option
@run_options
def predict_command(
    accuracy: float, axis: str | None, seed: int, out: Any, as_json: bool, **options: Any
) -> int:
    """Predict the trained layer: errors, spectrum, phase; or a curve of predictions."""
    from attnlaw.results import prepare_folder

    problem = build_problem(options)
    run = {"command": "predict", "seed": seed, "accuracy": accuracy}
    if axis is not None:
        name, values = parse_axis(axis, problem)
        folder = prepare_folder(out) if out else None
        return _predict_curve(problem, name, values, run | {"curve": axis}, folder, as_json)
    return _predict_point(problem, run, prepare_folder(out) if out else None, as_json)


def _predict_point(problem: Any, run: dict[str, Any], folder: Any, as_json: bool) -> int:
    from attnlaw.cli.display import print_solution, shown_progress
    from attnlaw.results import solution_dataset, solution_record
    from attnlaw.theory.solution import MANY_MINIMA
    from attnlaw.theory.solve import solve

    accuracy, seed = run["accuracy"], run["seed"]
    with shown_progress() as progress:
        solution = solve(problem, accuracy=accuracy, seed=seed, throw=False, progress=progress)
    if as_json:
        click.echo(json.dumps(solution_record(solution) | {"run": run}))
    else:
        print_solution(solution)
    if folder:
        from attnlaw.figures import spectrum

        data = solution_dataset(solution).assign_attrs(_run_attribute(run))
        _write(folder, problem, data, "spectrum.png", spectrum.draw(data))
    if solution.converged and solution.integration_error > accuracy:
        _warn(
            f"accuracy {accuracy:g} was not reached, "
            f"integration_error is {solution.integration_error:.1e}"
        )
    if not solution.width_sufficient:
        _warn_of_width(problem.width_ratio)
    if solution.two_minima_fraction > MANY_MINIMA:
        _warn(f"{_share(solution)} of the proximal steps have several minima; {TRUST_LESS}")
    return 0 if solution.converged else _not_converged(solution.reason)


def _predict_curve(
    problem: Any, name: str, values: Any, run: dict[str, Any], folder: Any, as_json: bool
) -> int:
    from attnlaw.cli.display import print_curve, shown_progress
    from attnlaw.results import curve_dataset, curve_record
    from attnlaw.theory.curve import curve
    from attnlaw.theory.solution import MANY_MINIMA

    accuracy, seed = run["accuracy"], run["seed"]
    with shown_progress() as progress:
        line = curve(
            problem, accuracy=accuracy, seed=seed, throw=False, progress=progress, **{name: values}
        )
    if as_json:
        click.echo(json.dumps(curve_record(problem, line) | {"run": run}))
    else:
        print_curve(line)
    if folder:
        from attnlaw.figures import curve as figure

        data = curve_dataset(problem, line).assign_attrs(_run_attribute(run))
        _write(folder, problem, data, "curve.png", figure.draw(data))
    missed = sum(s.converged and s.integration_error > accuracy for s in line.solutions)
    if missed:
        _warn(f"accuracy {accuracy:g} was not reached at {missed} of {len(line.values)} points")
    manifold = [s for s in line.solutions if s.two_minima_fraction > MANY_MINIMA]
    if manifold:
        worst = max(manifold, key=lambda s: s.two_minima_fraction)
        _warn(
            f"up to {_share(worst)} of the proximal steps have several minima at {len(manifold)} "
            f"of {len(line.values)} points; {TRUST_LESS}"
        )
    narrow = sum(not s.width_sufficient for s in line.solutions)
    if narrow:
        _warn(
            f"the width κ binds the rank of the layer at {narrow} of {len(line.values)} points; "
            "there the theory describes a wider one"
        )
    failed = [
        f"{name} = {value:g}: {solution.reason}"
        for value, solution in zip(line.values, line.solutions, strict=True)
        if not solution.converged
    ]
    return 0 if not failed else _not_converged("; ".join(failed))


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

        dataset = fits_dataset(problem, fits).assign_attrs(_run_attribute(run))
        _write(folder, problem, dataset, "spectrum.png", spectrum.draw(dataset))
    if any(fit.rank_ratio * dim >= fit.width < dim for fit in fits):
        _warn_of_width(problem.width_ratio)
    stopped = [fit.relative_gradient for fit in fits if not fit.converged]
    if not stopped:
        return 0
    return _not_converged(
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
        _warn_of_width(problem.width_ratio)
    return 0 if comparison.converged else _not_converged(comparison.reason)


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

    data = figure.compute(comparison).assign_attrs(_run_attribute(run))
    _write(folder, comparison.problem, data, "compare.png", figure.draw(data))


def _write(folder: Any, problem: Any, data: Any, name: str, figure: Any) -> None:
    from attnlaw.figures.style import save
    from attnlaw.results import write_dataset, write_problem

    write_problem(folder, problem)
    write_dataset(folder, data)
    save(figure, folder / name)
    for other in set(PICTURES) - {name}:
        (folder / other).unlink(missing_ok=True)  # of what was in the folder before


def _run_attribute(run: dict[str, Any]) -> dict[str, str]:
    """How a result was made, as an attribute of its file."""
    return {"run": json.dumps(run)}


def _warn_of_width(width_ratio: float) -> None:
    _warn(
        f"the width κ = {width_ratio:g} binds the rank of the layer; the theory describes a wider "
        "one"
    )


def _share(solution: Any) -> str:
    return f"{100 * solution.two_minima_fraction:.0f} %"


def _warn(message: str) -> None:
    click.echo(f"attnlaw: warning: {message}", err=True)


def _not_converged(reason: str | None) -> int:
    click.echo(f"attnlaw: not converged: {reason}", err=True)
    return NOT_CONVERGED
