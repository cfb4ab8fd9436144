"""Theory through trained layers: the spectrum on the left, the learning curve on the right."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw.comparison import QUANTITIES, Comparison, quantity
from attnlaw.figures import spectrum, style
from attnlaw.results import MEANINGS, fits_dataset, solution_dataset

if TYPE_CHECKING:
    import xarray as xr


def compute(comparison: Comparison) -> "xr.Dataset":
    """Everything that the picture and the table show, as one dataset."""
    import xarray as xr

    predicted = solution_dataset(comparison.theory)
    data = xr.Dataset(attrs=predicted.attrs)
    data = data.assign({name: predicted[name] for name in ("density", "atom")})
    data["eigenvalues"] = fits_dataset(comparison.problem, list(comparison.fits))["eigenvalues"]
    data = data.assign_coords(quantity=list(QUANTITIES))
    theory = [quantity(comparison.theory, name) for name in QUANTITIES]
    data["theory"] = ("quantity", theory, {"long_name": "theory, asymptotic target law"})
    for name, records, meaning in (
        ("theory_at_target", comparison.theory_at_target, "theory, drawn target's eigenvalues"),
        ("trained", comparison.fits, "trained layers"),
    ):
        table = [[quantity(record, q) for record in records] for q in QUANTITIES]
        data[name] = (("quantity", "repeat"), table, {"long_name": meaning})
    for name in ("converged", "relative_gradient"):
        data[f"trained_{name}"] = ("repeat", [getattr(fit, name) for fit in comparison.fits])
    data["theory_converged"] = ((), comparison.theory.converged)
    at_target = [solution.converged for solution in comparison.theory_at_target]
    data["theory_at_target_converged"] = ("repeat", at_target)
    data["width_sufficient"] = ((), comparison.theory.width_sufficient)
    data.attrs["dim"] = comparison.dim
    curve = comparison.curve
    if curve is not None:
        data = data.assign_coords(sample_ratio=curve.ratios, trained_ratio=curve.trained_ratios)
        for name in ("test_error", "train_loss"):
            about = {"long_name": MEANINGS[name]}
            data[f"curve_{name}"] = ("sample_ratio", getattr(curve, name), about)
            points = getattr(curve, f"trained_{name}")
            data[f"trained_{name}"] = ("trained_ratio", points, about)
    return data


@style.styled
def draw(data: "xr.Dataset") -> Any:
    """The two panels."""
    panels = 2 if "curve_test_error" in data else 1
    figure, axes = style.new_figure(panels, width=4.2, height=3.4)
    spectrum.draw(data, axes[0])
    axes[0].set_title("spectrum of the learned query–key map")
    if panels == 2:
        _learning_curve(axes[1], data)
    return figure


def _learning_curve(panel: Any, data: "xr.Dataset") -> None:
    for name, label, colour, marker in (
        ("test_error", "test error", style.THEORY, "o"),
        ("train_loss", "train loss Φ", style.SECOND, "s"),
    ):
        panel.plot(data["sample_ratio"], data[f"curve_{name}"], color=colour, label=label)
        panel.plot(
            data["trained_ratio"],
            data[f"trained_{name}"],
            marker,
            color=style.TRAINED,
            markeredgecolor=colour,
            markersize=5,
            linestyle="none",
            label=f"trained, d = {data.attrs['dim']}",
        )
    panel.set_xscale("log")
    panel.set_xticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
    panel.minorticks_off()
    highest = max(float(np.max(data[f"{kind}_test_error"])) for kind in ("curve", "trained"))
    panel.set_ylim(0, 1.35 * highest)
    panel.set_xlabel("sequences per squared dimension, α = n/d²")
    panel.set_ylabel("test error, train loss")
    panel.set_title("theory (lines) and trained layers (points)")
    panel.legend(loc="upper center", ncols=2, columnspacing=1.0, handlelength=1.4)
