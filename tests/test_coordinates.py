"""The unknowns of the theory, and order parameters a hair from perfect recovery."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import Conjugates, MarchenkoPastur, Overlaps, PowerLaw, Problem
from attnlaw.coordinates import from_coordinates, sharpness, slopes, to_coordinates
from attnlaw.denoisers import EigenThreshold
from attnlaw.spectra.free_convolution import both_integrals

PLACES = [(0.7, 0.9, 3e4), (1.4, 1.2, 0.3), (1e-9, 1e-6, 1.0)]


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("place", PLACES)
def test_round_trip_in_numpy_and_in_jax(noise, place):
    problem = Problem(noise=noise).replace(target_beta=1.7)
    for kind in (np.float64, jnp.asarray):
        overlaps = Overlaps(*map(kind, place))
        back = from_coordinates(problem, to_coordinates(problem, overlaps))
        np.testing.assert_allclose([*back][:3], place, rtol=1e-12)
        rho = place[1] / np.sqrt(place[0] * problem.target_power)
        assert float(back.misalignment) == pytest.approx(1 - rho**2, rel=1e-9)


def test_misalignment_survives_where_q_and_m_cannot_hold_it():
    problem = Problem(noise=0.0)
    overlaps = Overlaps(1.5, 1.5, 0.2, 3e-20)
    back = from_coordinates(problem, to_coordinates(problem, overlaps))
    assert back.misalignment == pytest.approx(3e-20, rel=1e-12)


def test_scale_counts_in_units_of_what_the_scores_leave_open():
    """With label noise the unit is bounded; without, k² = 1/(1 − ρ²)."""
    far = 14.0
    assert sharpness(Problem(noise=0.0), far) == pytest.approx(np.cosh(far))
    noisy = Problem(noise=0.5)
    assert sharpness(noisy, far) == pytest.approx(np.sqrt(1.75 / 0.25), rel=1e-9)
    assert sharpness(noisy, 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_slopes_are_the_derivatives(noise):
    problem = Problem(noise=noise).replace(target_beta=1.7)
    x = np.array([0.4, 1.3, -0.7])
    plain = np.array([x[0] / sharpness(problem, x[1]), x[1], x[2]])

    def coordinates(p):
        return jnp.stack([sharpness(problem, p[1]) * p[0], p[1], p[2]])

    def overlaps(p):
        return jnp.stack([*from_coordinates(problem, coordinates(p))])

    stretch, moved = slopes(problem, x)
    np.testing.assert_allclose(stretch, jax.jacfwd(coordinates)(jnp.asarray(plain)), rtol=1e-12)
    expected = jax.jacfwd(overlaps)(jnp.asarray(plain))
    np.testing.assert_allclose(moved, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("law", [MarchenkoPastur(0.5), MarchenkoPastur(2.0), PowerLaw(1.25, 50)])
@pytest.mark.parametrize(("delta", "epsilon"), [(0.3, 0.2), (1.0, 2.0), (1e-3, 2e-3), (1e-6, 0)])
def test_integrals_of_both_sides_make_the_whole(law, delta, epsilon):
    """(x − ε)² over all of μ_δ is Q0 + δ² + ε² − 2εM; derivatives and mass alike."""
    above, below = both_integrals(law, delta, epsilon)
    mean = law.mean
    whole = [law.power + delta**2 + epsilon**2 - 2 * epsilon * mean, 2 * delta]
    whole += [2 * epsilon - 2 * mean, 1.0]
    for up, down, sum_ in zip(above[:4], below, whole, strict=True):
        assert float(up + down) == pytest.approx(sum_, rel=1e-11, abs=1e-11)


def test_small_noise_leaves_the_atom_its_own_semicircle():
    """δ, ε → 0 with an atom 1 − κ0 at zero: J₋ → ((1−κ0)δ² + O(κ0)) times that of a semicircle.

    The zero eigenvalues see the noise through the compression of Z to their space, a semicircle
    of variance (1−κ0)δ².
    """
    share, delta, tau = 0.5, 1e-7, 0.6
    spread = delta * share**0.5
    _, below = both_integrals(MarchenkoPastur(1 - share), delta, tau * spread)
    x = np.cos(np.linspace(0, np.pi, 400_001))[::-1] * 2
    weight = np.sqrt(np.maximum(4 - x**2, 0)) / (2 * np.pi) * np.where(x < tau, 1.0, 0.0)
    semicircle = np.trapezoid((x - tau) ** 2 * weight, x)
    assert float(below.second) == pytest.approx(share * spread**2 * semicircle, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 1e-7])
def test_misalignment_scales_with_the_square_of_the_threshold(scale):
    """Near perfect recovery 1 − ρ² is a quadratic form in (δ, ε), with relative accuracy."""
    law = MarchenkoPastur(0.5)

    def at(size):
        hats = Conjugates((0.7 * size) ** 2, 1.0, 1.0)
        return EigenThreshold().matrix_side(law, hats, 0.55 * size).overlaps.misalignment

    assert float(at(scale)) / scale**2 == pytest.approx(float(at(1e-8)) / 1e-16, rel=10 * scale)
