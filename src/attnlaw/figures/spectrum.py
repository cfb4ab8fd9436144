"""The spectrum of the learned S: predicted density, and a histogram where layers were trained."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw.figures import style

if TYPE_CHECKING:
    import xarray as xr

# axes are logarithmic where the largest eigenvalue is this many times the median of the others
WIDE = 20.0
# what logarithmic axes show, under the largest eigenvalue and under the highest density
LONGEST, DEEPEST = 3e3, 1e3
# share of the nonzero eigenvalues that may lie to the left of logarithmic axes
LEFT_OUT = 0.05


@style.styled
def draw(data: "xr.Dataset", panel: Any = None) -> Any:
    """Draw `density` over `s` and/or the histogram of `eigenvalues`; the atom as a number.

    Where the largest eigenvalues leave the others far behind both axes are logarithmic.
    """
    figure = None
    if panel is None:
        figure, (panel,) = style.new_figure(width=4.6, height=3.2)
    wide = _is_wide(data)
    heights = []
    if "eigenvalues" in data:
        heights.append(_histogram(panel, data, wide))
    if "density" in data:
        heights.append(_density(panel, data))
    panel.set_xlabel("eigenvalue of S")
    panel.set_ylabel("density (area: rank over d)")
    lowest, highest = min(low for low, _ in heights), max(top for _, top in heights)
    if wide:
        lowest = min(highest / DEEPEST, lowest / 2)
        panel.set(xscale="log", yscale="log", ylim=(lowest, 3 * highest))
        panel.set_xlim(*_log_range(data))
    else:
        panel.set(xlim=(0, None), ylim=(0, 1.3 * highest or 1))
    panel.legend(loc="upper right")
    return figure


def _is_wide(data: "xr.Dataset") -> bool:
    """Whether a linear axis would hide most eigenvalues."""
    top, middle = _place(data, 1.0), _place(data, 0.5)
    return top > WIDE * middle


def _log_range(data: "xr.Dataset") -> tuple[float, float]:
    """From below nearly all nonzero eigenvalues to the largest."""
    parts = [np.asarray(data[name]).ravel() for name in ("s", "eigenvalues") if name in data]
    top = float(np.concatenate(parts).max())
    return max(top / LONGEST, 0.7 * _place(data, LEFT_OUT)), 1.3 * top


def _place(data: "xr.Dataset", share: float) -> float:
    """What a share of the nonzero eigenvalues lies below; zero when there are none."""
    if "density" not in data:
        values = np.asarray(data["eigenvalues"])
        return float(np.quantile(values[values > 0], share)) if (values > 0).any() else 0.0
    s, density = np.asarray(data["s"]), np.asarray(data["density"])
    if not s.size:
        return 0.0
    mass = np.cumsum(density[:-1] * np.diff(s))
    return float(s[-1] if share == 1 else s[np.searchsorted(mass, share * mass[-1])])


def _histogram(panel: Any, data: "xr.Dataset", wide: bool) -> tuple[float, float]:
    """Draw it; its lowest and highest bar."""
    values = np.asarray(data["eigenvalues"])
    largest = max(values.max(), 1e-300)
    nonzero = values[values > 0]
    count = min(60, max(12, nonzero.size // 6))
    edges = np.linspace(0.0, largest * 1.02, count + 1)
    if wide:
        edges = np.geomspace(largest / LONGEST, largest * 1.02, count + 1)
    heights, _ = np.histogram(nonzero, edges)
    density = heights / (values.size * np.diff(edges))
    panel.stairs(
        density,
        edges,
        fill=True,
        color=style.TRAINED,
        alpha=0.45,
        label=f"trained, d = {values.shape[-1]} ({1 - nonzero.size / values.size:.1%} at zero)",
    )
    bars = density[density > 0]
    return (float(bars.min()), float(bars.max())) if bars.size else (1.0, 0.0)


def _density(panel: Any, data: "xr.Dataset") -> tuple[float, float]:
    """Draw it; its highest value twice, as its lowest is zero."""
    label = f"theory ({float(data['atom']):.1%} at zero)"
    if data["s"].size:
        panel.plot(data["s"], data["density"], color=style.THEORY, label=label)
        highest = float(np.max(data["density"]))
        return highest, highest
    panel.plot([0, 0], [0, 1], color=style.THEORY, label=label, linewidth=4, clip_on=False)
    panel.text(0.5, 0.5, "S = 0: every eigenvalue is zero", ha="center", transform=panel.transAxes)
    return 1.0, 1.0
