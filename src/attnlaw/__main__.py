"""The command `attnlaw`, also as `python -m attnlaw`."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Load the commands and run them; an interrupt while they load ends quietly too."""
    signal.signal(signal.SIGINT, _leave)
    from attnlaw.cli.main import main as run_commands

    run_commands()


def _leave(number: int, frame: FrameType | None) -> None:
    print("attnlaw: interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
