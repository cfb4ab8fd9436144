"""Entry point: commands, exit codes, and one line on stderr for whatever goes wrong.

Exit codes: 0 success, 2 bad input, 3 a computation did not converge, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from attnlaw.cli.commands import compare_command, explain_command, predict_command, train_command

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("attnlaw"), prog_name="attnlaw")
def cli() -> None:
    """Predict what a trained attention layer learns, and check it against trained layers."""


for _command in (predict_command, train_command, compare_command, explain_command):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    code = run(arguments)
    if code == INTERRUPTED:
        # compiled code may still be running in other threads: leave without tearing it down
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        code = cli.main(args=arguments, prog_name="attnlaw", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.ctx.get_help() if shown.ctx else "", err=True)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        print("attnlaw: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, MemoryError, ArithmeticError, RuntimeError) as error:
        return _fail(str(error) or type(error).__name__)
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"attnlaw: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
