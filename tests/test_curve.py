"""Curves: all points of a line together."""

import numpy as np
import pytest

import attnlaw
from attnlaw import Overlaps, Problem
from attnlaw.theory import search

DEFAULT = Problem()


def test_curve_is_the_line_of_single_solutions():
    values = [0.1, 0.4, 1.0, 3.0]
    line = attnlaw.curve(DEFAULT, accuracy=3e-3, alpha=values)
    assert line.converged
    assert line.name == "alpha"
    singles = [attnlaw.solve(DEFAULT.replace(alpha=a), accuracy=3e-3) for a in values]
    np.testing.assert_allclose(line.test_error, [s.test_error for s in singles], rtol=1e-6)
    np.testing.assert_allclose(line.q, [s.overlaps.q for s in singles], rtol=1e-6)
    np.testing.assert_allclose(line.m_hat, [s.conjugates.m_hat for s in singles], rtol=1e-6)
    assert set(line.fixed_points_found) == {1}


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_number_of_workers_does_not_matter(workers, monkeypatch):
    values = [0.1, 0.4, 1.0, 3.0, 4.0]
    usual = attnlaw.curve(DEFAULT, accuracy=3e-3, alpha=values)
    monkeypatch.setattr(search, "WORKERS", workers)
    other = attnlaw.curve(DEFAULT, accuracy=3e-3, alpha=values)
    for name in ("test_error", "q", "sigma_hat", "residual", "iterations"):
        np.testing.assert_allclose(
            getattr(other, name), getattr(usual, name), rtol=1e-9, atol=1e-14
        )


def test_curve_passes_through_the_collapse():
    line = attnlaw.curve(DEFAULT, accuracy=3e-3, weight_decay=[2.0, 3.0, 3.6, 3.7, 5.0])
    assert list(line.phase) == ["bulk", "bulk", "bulk", "collapsed", "collapsed"]


@pytest.mark.slow
def test_curve_takes_the_lower_of_two_solutions_on_both_sides():
    """Two fixed points coexist here; each point has the lower Φ of the two, whatever the seed."""
    problem = Problem(noise=0.7921).replace(
        kappa0=1.869, weight_decay=1.183e-3, beta=2.907, target_beta=2.372
    )
    line = attnlaw.curve(problem, alpha=[3.0, 3.5, 3.979])
    assert line.converged
    last = problem.replace(alpha=3.979)
    higher = attnlaw.solve(last, start=Overlaps(4.74, 3.56, 0.295))
    assert higher.fixed_points_found == 1
    singles = [attnlaw.solve(last, seed=seed) for seed in (0, 2, 7)]
    assert max(single.fixed_points_found for single in [*line.solutions, *singles]) >= 2
    for single in (line.solutions[-1], *singles):
        assert single.q == pytest.approx(0.81, rel=0.02)
        assert single.train_loss < 0.95 * higher.train_loss


def test_curve_over_tokens():
    line = attnlaw.curve(DEFAULT, accuracy=3e-3, tokens=[2, 3])
    assert line.test_error[1] > line.test_error[0]


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ({}, "one field with its values"),
        ({"alpha": []}, "alpha must be a non-empty list"),
        ({"alpha": [1.0, 0.5]}, "alpha must be sorted"),
        ({"alhpa": [1.0]}, "did you mean alpha"),
        ({"alpha": [-1.0, 1.0]}, "must be positive, got -1.0"),
    ],
)
def test_bad_axis_is_refused(axis, words):
    with pytest.raises(ValueError, match=words):
        attnlaw.curve(DEFAULT, **axis)
