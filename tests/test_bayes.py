"""The Bayes-optimal baseline (9.2): closed forms, limits, and the trained layer above it."""

import numpy as np
import pytest

import attnlaw
from attnlaw import Atoms, Problem, bayes_optimal
from attnlaw.spectra.biane import density
from attnlaw.spectra.divided_differences import axis_rule
from attnlaw.theory.bayes import alpha_of_bayes_recovery, denoising_error

NOISELESS = Problem(noise=0.0)


@pytest.mark.parametrize(("alpha", "mmse"), [(0.02354, 0.88738), (0.07059, 0.58483)])
def test_reference_values(alpha, mmse):
    """As printed in the reference table, where α is rounded to four digits."""
    assert bayes_optimal(NOISELESS.replace(alpha=alpha)).mmse == pytest.approx(mmse, rel=1e-4)


def test_equal_eigenvalues_are_known_beforehand():
    """S0 = s·1: the noisy map tells nothing new, MMSE = 0."""
    problem = Problem(target=Atoms([1.7]))
    assert denoising_error(problem, 0.8) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("level", [1e-3, 1e3])
def test_denoising_at_little_and_at_much_noise(level):
    """δ → 0: κ0(2 − κ0)δ²; δ → ∞: Q0 less the square of the mean."""
    problem = Problem().replace(kappa0=0.3)
    little, much = 0.3 * 1.7 * level**2, problem.target_power - problem.target.mean**2
    expected = little if level < 1 else much
    assert denoising_error(problem, level) == pytest.approx(expected, rel=3e-3)


def test_no_data_leave_the_prior_mean():
    found = bayes_optimal(Problem(sample_ratio=1e-7))
    assert found.q == pytest.approx(Problem().target.mean ** 2, rel=1e-4)


def test_noiseless_recovery_is_exact_beyond_its_threshold():
    alpha = alpha_of_bayes_recovery(NOISELESS)
    assert alpha == pytest.approx(0.75 / 4)
    exact = bayes_optimal(NOISELESS.replace(alpha=1.01 * alpha))
    assert (exact.mmse, exact.test_error, exact.noise_level) == (0.0, 0.0, 0.0)
    short = bayes_optimal(NOISELESS.replace(alpha=0.99 * alpha))
    assert 0 < short.mmse < 0.05


def test_repeated_eigenvalues_need_fewer_data():
    twice = NOISELESS.replace(target=Atoms([0.0, 2.0], [0.75, 0.25]))
    assert alpha_of_bayes_recovery(twice) == pytest.approx((1 - 0.75**2 - 0.25**2) / 4)
    assert bayes_optimal(twice.replace(alpha=0.3)).mmse == 0


def test_test_error_is_that_of_the_map_whatever_the_layers_temperature():
    cold = bayes_optimal(Problem())
    warm = bayes_optimal(Problem().replace(beta=2.0))
    assert warm.test_error == pytest.approx(cold.test_error, rel=1e-9)
    assert warm.mmse == cold.mmse


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_no_trained_layer_estimates_better(alpha, noise):
    problem = Problem(sample_ratio=alpha, noise=noise)
    best = bayes_optimal(problem)
    line = attnlaw.curve(problem, accuracy=3e-3, throw=False, weight_decay=[0.01, 0.05, 0.2])
    assert line.converged
    assert (line.mse >= best.mmse * (1 - 1e-6)).all()
    assert (line.test_error_clean >= best.test_error_clean * 0.99).all()


def test_the_density_integrates_like_its_weights():
    law = Problem().target
    x, weights, along = axis_rule(law, 0.5)
    assert weights.sum() == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(along, density(law, 0.5, x), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("problem", [Problem(sample_ratio=1e12), Problem(noise=1e-12)])
def test_many_data_leave_little_error(problem):
    """MMSE → 0 and the noiseless test error with it."""
    found = bayes_optimal(problem)
    assert 0 <= found.mmse < 1e-6
    assert 0 <= found.test_error_clean < 1e-6
