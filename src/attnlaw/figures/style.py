"""The look of every figure: sizes, colours that survive grey and colour blindness, saving."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

THEORY = "#1b3a5c"
TRAINED = "#d1793f"
SECOND = "#5b8c85"
FAINT = "#c9d3dc"

RC: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.dpi": 110,
    "savefig.dpi": 200,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function under the house style, leaving matplotlib's own settings alone."""

    @wraps(draw)
    def under_style(*args: P.args, **kwargs: P.kwargs) -> R:
        from matplotlib import rc_context

        with rc_context(RC):
            return draw(*args, **kwargs)

    return under_style


def new_figure(columns: int = 1, width: float = 3.6, height: float = 3.0) -> tuple[Any, list[Any]]:
    """A figure with `columns` panels side by side, never tied to a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


@styled
def save(figure: Any, path: Path) -> None:
    """Write a figure."""
    figure.savefig(path)
