"""A curve of predictions: errors on the left, the learned rank on the right."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw.figures import style

if TYPE_CHECKING:
    import xarray as xr

FEW = 15
LABELS = {
    "alpha": "sequences per squared dimension, α = n/d²",
    "sample_ratio": "sequences per squared dimension, α = n/d²",
    "weight_decay": "weight decay λ",
    "kappa0": "rank of the target over d, κ0",
    "target_rank_ratio": "rank of the target over d, κ0",
    "noise": "label noise Δ",
    "beta": "inverse temperature β",
    "target_beta": "inverse temperature of the target β0",
    "tokens": "tokens T",
    "kappa": "width of W over d, κ",
    "width_ratio": "width of W over d, κ",
    "exponent": "exponent of the target γ",
}
HEADROOM = 1.08


@style.styled
def draw(data: "xr.Dataset") -> Any:
    """Test error, train error and train loss; rank; points that did not converge are left out."""
    from matplotlib.ticker import LogLocator

    (name,) = map(str, data.sizes)
    axis = data[name].values
    kept = data["converged"].values.astype(bool)
    points: dict[str, Any] = {"marker": "o", "markersize": 3} if axis.size <= FEW else {}
    figure, (errors, rank) = style.new_figure(2, width=4.0, height=3.2)
    for key, label, colour, dashes in (
        ("test_error", "test error", style.THEORY, "-"),
        ("train_loss", "train loss Φ", style.SECOND, "-"),
        ("train_error", "train error", style.TRAINED, "--"),
    ):
        values = np.where(kept, data[key].values, np.nan)
        errors.plot(axis, values, dashes, color=colour, label=label, **points)
    if "bayes_test_error" in data:
        best = data["bayes_test_error"]
        errors.plot(axis, best, ":", color="k", label="Bayes-optimal test error")
    _from_zero(errors)
    errors.set_ylabel("error, loss")
    errors.legend()
    rank.plot(axis, np.where(kept, data["rank_ratio"].values, np.nan), color=style.THEORY, **points)
    _from_zero(rank)
    rank.set_ylabel("learned rank over d")
    for panel in (errors, rank):
        if axis[0] > 0 and axis[-1] >= 10 * axis[0]:
            panel.set_xscale("log")
            few_decades = axis[-1] < 100 * axis[0]
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 3) if few_decades else (1,)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.minorticks_off()
        if name == "tokens":
            panel.set_xticks(axis)
        panel.set_xlabel(LABELS.get(name, name))
    return figure


def _from_zero(panel: Any) -> None:
    """Vertical axis from zero, with room above the highest marker."""
    panel.set_ylim(0, HEADROOM * panel.dataLim.y1 if panel.dataLim.y1 > 0 else 1)
