"""Entry point: commands, exit codes, and one line on stderr for whatever goes wrong.

Exit codes: 0 success, 2 bad input, 3 a computation did not converge, 130 interrupted.
"""

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType

import click

from attnlaw.cli.commands import compare_command, explain_command, train_command
from attnlaw.cli.predict import predict_command
from attnlaw.cli.thresholds import thresholds_command

BAD_INPUT, INTERRUPTED = 2, 130
RETRY_SECONDS, DEAF_SECONDS = 0.05, 2.0


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(version("attnlaw"), prog_name="attnlaw")
def cli() -> None:
    """Predict what a trained attention layer learns, and check it against trained layers."""


for _command in (
    predict_command,
    train_command,
    compare_command,
    thresholds_command,
    explain_command,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if sys.stderr is None:  # closed by the caller, as some schedulers do
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    signal.signal(signal.SIGINT, _interrupt)
    _leave_when_deaf()
    code = run(arguments)
    if code == INTERRUPTED:
        # compiled code may still be running in other threads: leave without tearing it down
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    own = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if sys.stdout is None:
        return _fail("standard output is closed, so nothing can be shown; redirect it to a file")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show λ must not cost a result
            stream.reconfigure(errors="replace")
    try:
        with cli.make_context("attnlaw", own) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        print("attnlaw: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, MemoryError, ArithmeticError, RuntimeError) as error:
        return _fail(str(error) or type(error).__name__)
    return code if isinstance(code, int) else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, later where the garbage collector would swallow it."""
    while frame is not None:
        if "gc_callback" in frame.f_code.co_name:
            again = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave_when_deaf() -> None:
    """End the process when an interrupt is not taken up, as while compiled code runs."""
    told, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def watch() -> None:
        while os.read(told, 1) != bytes([signal.SIGINT]):
            pass
        time.sleep(DEAF_SECONDS)
        print("attnlaw: interrupted", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()


def _fail(message: str) -> int:
    print(f"attnlaw: error: {' '.join(message.split())}", file=sys.stderr)
    return BAD_INPUT
