"""The interpolating phase of the ridgeless limit and the thresholds, in closed form (theory §6)."""

import numpy as np
import pytest
from scipy.integrate import quad

from attnlaw import Atoms, MarchenkoPastur, PowerLaw, Problem
from attnlaw.theory.interpolation import (
    alpha_at_end,
    alpha_of_perfect_recovery,
    end_of_interpolation,
    interpolating,
    semicircle_moment,
)
from attnlaw.theory.thresholds import thresholds


def alpha_interp(problem):
    return alpha_at_end(problem, end_of_interpolation(problem))


def fitted(problem):
    return interpolating(problem, end_of_interpolation(problem))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0, 1.9, 2.0])
def test_semicircle_moments(power, tau):
    wanted, _ = quad(lambda x: (x - tau) ** power * np.sqrt(4 - x * x) / (2 * np.pi), tau, 2.0)
    assert semicircle_moment(power, tau) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize(
    ("alpha", "delta", "epsilon", "q", "m"),
    [(0.1, 1.68852, 1.10021, 1.46520, 1.03738), (0.12, 1.53393, 0.71704, None, None)],
)
def test_reference_rows(alpha, delta, epsilon, q, m):
    found = fitted(Problem(sample_ratio=alpha))
    assert found.noise_level == pytest.approx(delta, rel=1e-5)
    assert found.threshold == pytest.approx(epsilon, rel=1e-5)
    if q is not None:
        assert found.upper.second == pytest.approx(q, rel=1e-5)
        assert found.overlap_with_target == pytest.approx(m, rel=1e-5)


def test_reference_thresholds():
    found = thresholds(Problem())
    assert found.alpha_interp == pytest.approx(0.1534821, rel=1e-6)
    assert found.noise_level_at_interp == pytest.approx(2.29282, rel=1e-5)
    assert found.peak_test_error == pytest.approx(0.5011, rel=5e-3)
    assert found.alpha_perf is None
    assert "noise = 0" in found.reasons["alpha_perf"]
    low = thresholds(Problem(noise=0.1))
    assert low.alpha_interp == pytest.approx(0.1724999, rel=1e-6)
    assert low.noise_level_at_interp == pytest.approx(1.05860, rel=1e-5)
    assert low.peak_test_error == pytest.approx(0.1986, rel=5e-3)
    narrow = Problem(noise=0.1).replace(kappa0=0.1)
    assert alpha_interp(narrow) == pytest.approx(0.1367818, rel=1e-6)


@pytest.mark.parametrize(
    ("kappa0", "wanted"),
    [(0.05, 0.046004), (0.1, 0.078786), (0.3, 0.163577), (0.5, 0.211087), (0.8, 0.244599)],
)
def test_reference_perfect_recovery(kappa0, wanted):
    problem = Problem(noise=0.0).replace(kappa0=kappa0)
    assert alpha_of_perfect_recovery(problem) == pytest.approx(wanted, abs=5e-7)


def test_perfect_recovery_depends_on_the_rank_alone():
    laws = [
        MarchenkoPastur(0.25),
        Atoms([0.0, 1.0], [0.75, 0.25]),
        Atoms([0, 1, 9], [0.75, 0.15, 0.1]),
    ]
    found = [alpha_of_perfect_recovery(Problem(target=law, noise=0.0)) for law in laws]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)
    # just below it the general equations have a solution with small δ, whatever the law
    for law in laws:
        problem = Problem(target=law, noise=0.0, sample_ratio=0.999 * found[0])
        assert 0 < fitted(problem).noise_level < 0.1


@pytest.mark.parametrize("kappa0", [0.1, 0.5, 0.9])
def test_end_of_interpolation_at_little_noise(kappa0):
    """2 K_eff α_interp → (1 + 2κ0 − κ0²)/2."""
    limit = (1 + 2 * kappa0 - kappa0**2) / 2
    gaps = [
        abs(4 * alpha_interp(Problem(noise=noise).replace(kappa0=kappa0)) - limit)
        for noise in (1e-2, 1e-4, 1e-6)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.02
    assert 4 * alpha_interp(Problem(noise=0.0).replace(kappa0=kappa0)) == pytest.approx(limit)


def test_many_small_eigenvalues_interpolate_up_to_half():
    """Rank o(d): 2 K_eff α_interp → 1/2."""
    found = [4 * alpha_interp(Problem(target=PowerLaw(1.25, dim))) for dim in (100, 10_000)]
    assert abs(found[1] - 0.5) < abs(found[0] - 0.5) < 0.1


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_tokens_enter_through_the_constraints_alone(share):
    rows = []
    for tokens in (2, 3, 5):
        problem = Problem().replace(tokens=tokens)
        found = fitted(problem.replace(alpha=share * 0.3 / problem.attention.constraints))
        rows.append([found.noise_level, found.threshold, found.upper.second])
    np.testing.assert_allclose(rows, np.tile(rows[0], (3, 1)), rtol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.5, 3.0])
@pytest.mark.parametrize(
    "target", [MarchenkoPastur(0.05), MarchenkoPastur(2.0), Atoms([0.0, 1.0], [0.9, 0.1])]
)
def test_both_equations_hold_over_the_phase(target, noise):
    problem = Problem(target=target, noise=noise)
    last = alpha_interp(problem) if noise else alpha_of_perfect_recovery(problem)
    for share in (0.01, 0.3, 0.9, 0.99):
        own = problem.replace(alpha=share * last)
        delta, epsilon, upper = fitted(own)
        assert epsilon > 0
        constraints = own.attention.constraints
        assert upper.noise_derivative == pytest.approx(
            4 * own.sample_ratio * constraints * delta, rel=1e-8
        )
        explained = upper.second - delta / 2 * upper.noise_derivative
        explained -= epsilon * upper.threshold_derivative
        assert explained == pytest.approx(own.score_variance, rel=1e-8)
