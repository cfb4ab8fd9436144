"""Run the evidence that is missing or was made by another commit: `make evidence`.

`python -m evidence NAME …` runs the named pieces again. An interrupted run goes on with the cases
that it lacks.
"""

import sys

from evidence.runner import PIECES, run_piece


def main(names: list[str]) -> int:
    """Run the named pieces, or all; returns the number of those that do not hold."""
    unknown = sorted(set(names) - set(PIECES))
    if unknown:
        print(f"unknown evidence {', '.join(unknown)}; known: {', '.join(PIECES)}", file=sys.stderr)
        return 2
    failed = [name for name in names or PIECES if not run_piece(name)["holds"]]
    print(f"does not hold: {', '.join(failed)}" if failed else "all evidence holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
