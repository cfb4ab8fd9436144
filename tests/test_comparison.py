"""Theory and trained layers agree, with convergence asserted first."""

import dataclasses
import warnings

import jax
import numpy as np
import pytest
import xarray as xr

from attnlaw import Problem, compare
from attnlaw.comparison import at_drawn_target, quantity
from attnlaw.figures import comparison as figure
from attnlaw.figures import spectrum
from attnlaw.training.data import sample

ROWS = {
    "noiseless": Problem(noise=0.0),
    "noisy": Problem(),
    "three tokens": Problem(sample_ratio=0.5, noise=0.2).replace(
        kappa0=0.25, weight_decay=0.05, tokens=3
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_trained_layers_lie_on_the_theory(name):
    """d = 100, mean over four draws, theory at each drawn target's eigenvalues: within 2 %."""
    found = compare(ROWS[name], dim=100, repeats=4, seed=11)
    assert found.converged
    for key in ("train_loss", "test_error"):
        trained = np.mean([quantity(fit, key) for fit in found.fits])
        theory = np.mean([quantity(s, key) for s in found.theory_at_target])
        assert trained == pytest.approx(theory, rel=0.02), key


def test_small_layers_lie_near_the_theory():
    found = compare(ROWS["noisy"], dim=40, repeats=3, seed=2, test_sequences=50_000)
    assert found.converged
    row = {row.quantity: row for row in found.rows}
    for key, tolerance in (("train_loss", 0.04), ("test_error", 0.08), ("q", 0.05), ("m", 0.03)):
        assert row[key].trained_mean == pytest.approx(row[key].theory_at_target, rel=tolerance)
    assert row["q"].trained_std_error > 0


@pytest.mark.slow
def test_training_loss_of_theory_is_a_lower_bound_on_what_adam_reaches():
    from attnlaw import Adam

    problem = ROWS["noisy"]
    loose = compare(problem, 30, 1, method=Adam(steps=40), test_sequences=2000)
    tight = compare(problem, 30, 1, test_sequences=2000)
    assert loose.fits[0].train_loss > tight.fits[0].train_loss
    assert not loose.converged


def test_drawn_target_keeps_the_rest_of_the_problem():
    problem = Problem(sample_ratio=0.5)
    data = sample(problem, 20, jax.random.key(0))
    own = at_drawn_target(problem, data)
    assert own.sample_ratio == 0.5
    assert own.target_power == pytest.approx(data.target_power)
    assert own.target.rank_ratio == pytest.approx(0.5)


def test_picture_of_a_comparison(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlaw.comparison.CURVE_POINTS", 4)
    monkeypatch.setattr("attnlaw.comparison.TRAINED_RATIOS", (0.3, 1.5))
    seen = []
    found = compare(
        Problem(), 20, 2, curve=True, test_sequences=2000, accuracy=3e-3, progress=seen.append
    )
    data = figure.compute(found)
    assert data.sizes["trained_ratio"] == 4
    assert (np.diff(data["trained_ratio"]) >= 0).all()
    drawn = figure.draw(data)
    drawn.savefig(tmp_path / "compare.png")
    assert (tmp_path / "compare.png").stat().st_size > 10_000
    left, right = drawn.axes
    told = [text.get_text() for text in left.get_legend().get_texts()]
    assert told[1].startswith("theory (")
    assert told[1].endswith("% at zero)")
    assert right.get_xscale() == "log"
    assert {"solve", "train", "curve", "trained points", "repeat"} <= {p.task for p in seen}


def test_picture_of_a_collapsed_spectrum():
    from attnlaw import solve
    from attnlaw.results import solution_dataset

    data = solution_dataset(solve(Problem().replace(weight_decay=20.0)))
    assert float(data["atom"]) == 1.0
    assert spectrum.draw(data) is not None


def test_picture_of_collapsed_layers_is_silent():
    """Eigenvalues that are all zero have no median of the others."""
    data = xr.Dataset({"eigenvalues": (("repeat", "index"), np.zeros((2, 30)))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert spectrum.draw(data) is not None


def test_scatter_of_the_size_of_rounding_is_none():
    found = compare(Problem(), 20, 2, test_sequences=2000, accuracy=3e-3)
    first, second = found.fits
    fits = (
        dataclasses.replace(first, rank_ratio=0.6),
        dataclasses.replace(second, rank_ratio=0.6000000000000001),
    )
    solution = found.theory_at_target[0]
    same = dataclasses.replace(found, fits=fits, theory_at_target=(solution, solution))
    row = {row.quantity: row for row in same.rows}["rank_ratio"]
    assert row.trained_std_error > 0
    assert row.difference is None
