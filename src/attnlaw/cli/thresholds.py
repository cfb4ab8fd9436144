"""The command that prints where the ridgeless layer changes its behaviour."""

import json
from typing import Any

import click

from attnlaw.cli.options import build_problem, json_option, layer_options, seed_option


@click.command("thresholds")
@layer_options
@seed_option
@json_option
def thresholds_command(seed: int, as_json: bool, **options: Any) -> None:
    """Thresholds in α of interpolation and recovery, the ridgeless peak, and collapse.

    The critical weight decay λ of collapse is that at --alpha.
    """
    from attnlaw.cli.display import print_thresholds
    from attnlaw.results import thresholds_record
    from attnlaw.theory.thresholds import thresholds

    problem = build_problem(options)
    found = thresholds(problem, seed=seed)
    if as_json:
        run = {"command": "thresholds", "seed": seed}
        click.echo(json.dumps(thresholds_record(problem, found) | {"run": run}))
    else:
        print_thresholds(found)
