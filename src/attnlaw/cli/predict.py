"""The command that predicts: one problem, or a curve of them."""

import json
from typing import Any

import click

from attnlaw.cli.options import (
    accuracy_option,
    build_problem,
    curve_option,
    parse_axis,
    problem_options,
    run_options,
)
from attnlaw.cli.output import not_converged, run_attribute, warn, warn_of_width, write

TRUST_LESS = (
    "q, m and sigma can be off by more than their errors, and the theory itself may not hold"
)


@click.command("predict")
@problem_options
@accuracy_option
@curve_option
@click.option("--bayes", is_flag=True, help="Also the Bayes-optimal baseline, under `bayes`.")
@run_options
def predict_command(
    accuracy: float,
    axis: str | None,
    bayes: bool,
    seed: int,
    out: Any,
    as_json: bool,
    **options: Any,
) -> int:
    """Predict the trained layer: errors, spectrum, phase; or a curve of predictions."""
    from attnlaw.results import prepare_folder

    problem = build_problem(options)
    run = {"command": "predict", "seed": seed, "accuracy": accuracy, "bayes": bayes}
    if axis is not None:
        name, values = parse_axis(axis, problem)
        folder = prepare_folder(out) if out else None
        return _predict_curve(problem, name, values, run | {"curve": axis}, folder, as_json)
    return _predict_point(problem, run, prepare_folder(out) if out else None, as_json)


def _predict_point(problem: Any, run: dict[str, Any], folder: Any, as_json: bool) -> int:
    from attnlaw.cli.display import print_bayes, print_solution, shown_progress
    from attnlaw.results import bayes_record, solution_dataset, solution_record, with_bayes
    from attnlaw.theory.solution import MANY_MINIMA
    from attnlaw.theory.solve import solve

    accuracy, seed = run["accuracy"], run["seed"]
    with shown_progress() as progress:
        solution = solve(problem, accuracy=accuracy, seed=seed, throw=False, progress=progress)
    best = _bayes([problem], run)
    if as_json:
        record = solution_record(solution) | ({"bayes": bayes_record(best[0])} if best else {})
        click.echo(json.dumps(record | {"run": run}))
    else:
        print_solution(solution)
        if best:
            print_bayes(best[0])
    if folder:
        from attnlaw.figures import spectrum

        data = solution_dataset(solution).assign_attrs(run_attribute(run))
        data = with_bayes(data, best)
        write(folder, problem, data, "spectrum.png", spectrum.draw(data))
    if solution.converged and solution.integration_error > accuracy:
        warn(
            f"accuracy {accuracy:g} was not reached, "
            f"integration_error is {solution.integration_error:.1e}"
        )
    if not solution.width_sufficient:
        warn_of_width(problem.width_ratio)
    if solution.two_minima_fraction > MANY_MINIMA:
        warn(f"{_share(solution)} of the proximal steps have several minima; {TRUST_LESS}")
    return 0 if solution.converged else not_converged(solution.reason)


def _predict_curve(
    problem: Any, name: str, values: Any, run: dict[str, Any], folder: Any, as_json: bool
) -> int:
    from attnlaw.cli.display import print_curve, shown_progress
    from attnlaw.results import bayes_record, curve_dataset, curve_record, with_bayes
    from attnlaw.theory.curve import curve
    from attnlaw.theory.solution import MANY_MINIMA

    accuracy, seed = run["accuracy"], run["seed"]
    with shown_progress() as progress:
        line = curve(
            problem, accuracy=accuracy, seed=seed, throw=False, progress=progress, **{name: values}
        )
    best = _bayes([solution.problem for solution in line.solutions], run)
    if as_json:
        record = curve_record(problem, line)
        if best:
            rows = [bayes_record(own) for own in best]
            record["bayes"] = {key: [row[key] for row in rows] for key in rows[0]}
        click.echo(json.dumps(record | {"run": run}))
    else:
        print_curve(line, best)
    if folder:
        from attnlaw.figures import curve as figure

        data = curve_dataset(problem, line).assign_attrs(run_attribute(run))
        data = with_bayes(data, best, line.name)
        write(folder, problem, data, "curve.png", figure.draw(data))
    missed = sum(s.converged and s.integration_error > accuracy for s in line.solutions)
    if missed:
        warn(f"accuracy {accuracy:g} was not reached at {missed} of {len(line.values)} points")
    manifold = [s for s in line.solutions if s.two_minima_fraction > MANY_MINIMA]
    if manifold:
        worst = max(manifold, key=lambda s: s.two_minima_fraction)
        warn(
            f"up to {_share(worst)} of the proximal steps have several minima at {len(manifold)} "
            f"of {len(line.values)} points; {TRUST_LESS}"
        )
    narrow = sum(not s.width_sufficient for s in line.solutions)
    if narrow:
        warn(
            f"the width κ binds the rank of the layer at {narrow} of {len(line.values)} points; "
            "there the theory describes a wider one"
        )
    failed = [
        f"{name} = {value:g}: {solution.reason}"
        for value, solution in zip(line.values, line.solutions, strict=True)
        if not solution.converged
    ]
    return 0 if not failed else not_converged("; ".join(failed))


def _bayes(problems: list[Any], run: dict[str, Any]) -> list[Any]:
    """The Bayes-optimal baseline of each problem, where it was asked for."""
    from attnlaw.theory.bayes import bayes_optimal

    return [bayes_optimal(own, seed=run["seed"]) for own in problems] if run["bayes"] else []


def _share(solution: Any) -> str:
    return f"{100 * solution.two_minima_fraction:.0f} %"
