"""The ridgeless limit on both sides of the interpolation threshold (theory §6)."""

import numpy as np
import pytest

import attnlaw
from attnlaw import Atoms, PowerLaw, Problem, ridgeless, solve

DEFAULT = Problem()


@pytest.mark.parametrize(
    ("alpha", "delta", "epsilon", "q", "m", "test_error"),
    [
        (0.1, 1.68852, 1.10021, 1.46520, 1.03738, 0.3303),
        (0.12, 1.53393, 0.71704, None, None, 0.3166),
    ],
)
def test_reference_rows(alpha, delta, epsilon, q, m, test_error):
    found = ridgeless(DEFAULT.replace(alpha=alpha))
    assert found.converged
    assert found.noise_level == pytest.approx(delta, rel=1e-5)
    assert found.threshold == pytest.approx(epsilon, rel=1e-5)
    assert found.test_error == pytest.approx(test_error, rel=5e-3)
    assert found.test_error - found.test_error_clean > 0.04
    if q is not None:
        assert (found.q, found.m) == (pytest.approx(q, rel=1e-5), pytest.approx(m, rel=1e-5))
    assert (found.train_loss, found.train_error, found.consistency_gap) == (0.0, 0.0, 0.0)
    assert found.scale == 1.0
    assert found.spectrum.atom == pytest.approx(1 - found.rank_ratio, abs=1e-6)


def test_scale_is_the_ratio_of_temperatures():
    """In the interpolating phase the layer is r = β0/β times that of equal temperatures."""
    problem = DEFAULT.replace(alpha=0.1)
    one, other = ridgeless(problem), ridgeless(problem.replace(beta=0.5))
    assert other.scale == 2.0
    assert other.q == pytest.approx(4 * one.q, rel=1e-9)
    assert other.m == pytest.approx(2 * one.m, rel=1e-9)
    assert other.test_error == pytest.approx(one.test_error, rel=1e-9)


@pytest.mark.parametrize("target", [None, PowerLaw(1.25, 200), Atoms([0.0, 2.0], [0.7, 0.3])])
def test_exact_recovery_without_noise(target):
    problem = Problem(noise=0.0, sample_ratio=0.3, **({} if target is None else {"target": target}))
    found = ridgeless(problem)
    assert (found.test_error, found.mse, found.noise_level) == (0.0, 0.0, 0.0)
    assert found.converged
    assert found.q == found.m == problem.target_power
    below = ridgeless(problem.replace(alpha=0.02))
    assert below.test_error > 1e-4


def test_solve_at_zero_is_the_limit():
    problem = DEFAULT.replace(alpha=0.1, weight_decay=0.0)
    assert solve(problem).test_error == ridgeless(problem.replace(weight_decay=2.0)).test_error


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.12, 0.3, 1.0])
def test_continuity_in_weight_decay(alpha):
    """q, m and the test error tend to those of the limit as λ falls."""
    problem = DEFAULT.replace(alpha=alpha)
    limit = ridgeless(problem, accuracy=3e-3)
    gaps = []
    for decay in (1e-3, 1e-5, 1e-7):
        near = solve(problem.replace(weight_decay=decay), accuracy=3e-3)
        assert near.converged
        gaps.append([near.q / limit.q - 1, near.m / limit.m - 1])
        uncertain = near.integration_error + limit.integration_error
        # the two may be averages over different numbers of points, each with its own error
        blur = 5 * np.hypot(
            near.standard_errors["q"] / near.q, limit.standard_errors["q"] / limit.q
        )
    assert abs(near.test_error / limit.test_error - 1) <= 2e-3 + 2 * uncertain
    sizes = np.abs(gaps).max(axis=1)
    assert sizes[0] > sizes[1]
    assert sizes[2] < 3e-3 + blur


@pytest.mark.slow
@pytest.mark.parametrize("side", [-1, 1])
def test_peak_is_met_from_both_sides(side):
    """Test errors at α_interp (1 ± s) meet the closed-form peak, extrapolated in √s to s = 0."""
    peak = attnlaw.thresholds(DEFAULT)
    shares = np.array([1e-2, 1e-3, 1e-4])
    errors = []
    for share in shares:
        own = ridgeless(DEFAULT.replace(alpha=peak.alpha_interp * (1 + side * share)))
        assert own.converged
        assert (own.start == "ridgeless") == (side < 0)
        errors.append(own.test_error)
    met = np.polyfit(np.sqrt(shares), errors, 2)[-1]
    assert met == pytest.approx(peak.peak_test_error, rel=5e-3)


def test_a_curve_through_the_threshold():
    line = attnlaw.curve(DEFAULT.replace(weight_decay=0.0), accuracy=3e-3, alpha=[0.1, 0.12, 1.0])
    assert line.converged
    assert list(line.start[:2]) == ["ridgeless", "ridgeless"]
    assert line.start[2] != "ridgeless"
    assert line.test_error[0] > line.test_error[1] > line.test_error[2]
