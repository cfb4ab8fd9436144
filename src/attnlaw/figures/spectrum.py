"""The spectrum of the learned S: predicted density, and a histogram where layers were trained."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw.figures import style

if TYPE_CHECKING:
    import xarray as xr


@style.styled
def draw(data: "xr.Dataset", panel: Any = None) -> Any:
    """Draw `density` over `s` and/or the histogram of `eigenvalues`; the atom as a number."""
    figure = None
    if panel is None:
        figure, (panel,) = style.new_figure(width=4.6, height=3.2)
    notes = []
    if "eigenvalues" in data:
        notes.append(_histogram(panel, data))
    if "density" in data:
        notes.append(_density(panel, data))
    panel.set_xlabel("eigenvalue of S")
    panel.set_xlim(left=0)
    panel.set_ylabel("density of nonzero eigenvalues")
    panel.set_ylim(bottom=0)
    panel.text(
        0.97,
        0.72,
        "eigenvalues at zero\n" + "\n".join(notes),
        ha="right",
        va="top",
        transform=panel.transAxes,
        fontsize=8,
    )
    panel.legend(loc="upper right")
    return figure


def _histogram(panel: Any, data: "xr.Dataset") -> str:
    values = np.asarray(data["eigenvalues"])
    largest = max(values.max(), 1e-300)
    nonzero = values[values > 0]
    count = min(60, max(12, nonzero.size // 6))
    edges = np.linspace(0.0, largest * 1.02, count + 1)
    heights, _ = np.histogram(nonzero, edges)
    density = heights / (values.size * np.diff(edges))
    panel.stairs(
        density,
        edges,
        fill=True,
        color=style.TRAINED,
        alpha=0.45,
        label=f"trained, d = {values.shape[-1]}",
    )
    return f"trained {1 - nonzero.size / values.size:.3f}"


def _density(panel: Any, data: "xr.Dataset") -> str:
    if data["s"].size:
        panel.plot(data["s"], data["density"], color=style.THEORY, label="theory")
    else:
        panel.plot([0, 0], [0, 1], color=style.THEORY, label="theory: S = 0", clip_on=False)
        panel.set_xlim(right=max(1.0, panel.get_xlim()[1]))
    return f"theory {float(data['atom']):.3f}"
