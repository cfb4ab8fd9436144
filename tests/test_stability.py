"""Replicon and jump weight (4.5): reference, closed forms, limits."""

import numpy as np
import pytest

from attnlaw import Atoms, Problem, ridgeless, solve
from attnlaw.spectra.divided_differences import pair_means
from attnlaw.spectra.grouping import grouped

DEFAULT = Problem()


def test_reference_value():
    """As printed in the reference table; pair means and response are tested by themselves."""
    solution = solve(DEFAULT, accuracy=3e-3)
    assert solution.replicon == pytest.approx(0.195, rel=0.02)
    assert solution.jump_weight == pytest.approx(1.0, abs=0.01)
    assert solution.stable


def test_the_collapsed_layer_is_stable():
    solution = solve(DEFAULT.replace(weight_decay=50.0), accuracy=3e-3)
    assert (solution.replicon, solution.jump_weight, solution.stable) == (0.0, 1.0, True)


def test_where_every_label_is_fitted_it_is_closed_form():
    """∂g/∂ω = −1/Σ and Σ̂ = 2αK/Σ leave R/(2αK); small weight decay comes near."""
    limit = ridgeless(DEFAULT.replace(alpha=0.1))
    near = solve(DEFAULT.replace(alpha=0.1, weight_decay=1e-5))
    assert limit.jump_weight == 1.0
    assert near.replicon == pytest.approx(limit.replicon, rel=0.02)
    assert near.jump_weight == pytest.approx(1.0, abs=0.02)


def test_an_exactly_recovered_target_leaves_nothing_to_vary():
    solution = ridgeless(DEFAULT.replace(noise=0.0, alpha=1.0))
    assert (solution.replicon, solution.stable) == (None, True)


def test_noise_and_little_decay_are_not_stable():
    solution = solve(DEFAULT.replace(noise=2.0, weight_decay=1e-4, alpha=0.4), throw=False)
    assert solution.converged
    assert solution.replicon > 1
    assert not solution.stable
    assert solution.jump_weight > 1.1


def test_pair_means_of_a_grouped_target():
    law = Atoms(np.linspace(0, 3, 300) ** 2)
    own, few = (pair_means(target, 0.5, 0.4) for target in (law, grouped(law, 64)))
    assert few.second == pytest.approx(own.second, rel=1e-2)
