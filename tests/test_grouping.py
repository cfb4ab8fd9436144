"""Large discrete targets: grouping keeps moments and what the theory asks of the law."""

import numpy as np
import pytest

import attnlaw
from attnlaw import Atoms, MarchenkoPastur, PowerLaw, Problem
from attnlaw.spectra.free_convolution import compiled_upper_integrals
from attnlaw.spectra.grouping import MOST_ATOMS, grouped


def test_small_and_continuous_laws_are_left_alone():
    for law in (MarchenkoPastur(0.5), PowerLaw(1.0, MOST_ATOMS), Atoms([0.0, 1.0])):
        assert grouped(law) is law


@pytest.mark.parametrize("exponent", [0.75, 1.0, 1.5])
def test_power_law_of_many_eigenvalues(exponent):
    law = PowerLaw(exponent, 20_000)
    few = grouped(law)
    assert few.values.size == MOST_ATOMS
    assert few.weights.sum() == pytest.approx(1, rel=1e-12)
    assert few.mean == pytest.approx(law.mean, rel=1e-12)
    assert few.power == pytest.approx(law.power, rel=1e-12)
    assert few.upper == law.upper
    for noise_level in (0.1, 1.0):
        for threshold in (0.0, 1.9 * noise_level):
            exact = compiled_upper_integrals(law, noise_level, threshold)
            found = compiled_upper_integrals(few, noise_level, threshold)
            assert float(found.second) == pytest.approx(float(exact.second), rel=1e-7)
            for name in ("noise_derivative", "threshold_derivative", "mass"):
                expected = float(getattr(exact, name))
                assert float(getattr(found, name)) == pytest.approx(expected, rel=1e-4), name


def test_repeated_values_and_weights(rng):
    values = np.repeat(rng.uniform(0, 3, size=50), 40)
    law = Atoms(values, rng.dirichlet(np.ones(values.size)))
    few = grouped(law)
    assert few.power == pytest.approx(law.power, rel=1e-12)
    exact, found = (compiled_upper_integrals(own, 0.3, 0.5) for own in (law, few))
    np.testing.assert_allclose([*found], [*exact], rtol=1e-9)


def test_atoms_keep_their_weights_when_sorted():
    shuffled, sorted_ = Atoms([2.0, 0.0, 1.0], [0.2, 0.7, 0.1]), Atoms([0, 1, 2], [0.7, 0.1, 0.2])
    np.testing.assert_array_equal(shuffled.weights, sorted_.weights)
    assert shuffled.power == pytest.approx(0.9)


@pytest.mark.slow
def test_solution_hardly_depends_on_grouping(monkeypatch):
    from attnlaw.spectra import grouping

    problem = Problem(target=PowerLaw(1.0, 900))
    few = attnlaw.solve(problem, accuracy=3e-3)
    monkeypatch.setattr(grouping, "MOST_ATOMS", 1000)  # more than there are: nothing is grouped
    exact = attnlaw.solve(problem, accuracy=3e-3)
    assert few.converged
    assert exact.converged
    assert few.problem.target is problem.target
    assert few.test_error == pytest.approx(exact.test_error, rel=1e-7)
    assert few.phase == exact.phase
