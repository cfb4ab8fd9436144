"""The matrix side: J, its derivatives and the density, against closed forms and refinement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlaw import Atoms, MarchenkoPastur, SpectralLaw
from attnlaw.spectra import biane
from attnlaw.spectra.free_convolution import compiled_upper_integrals, upper_integrals

FIELDS = ("second", "noise_derivative", "threshold_derivative", "mass")


def numbers(law, noise_level, threshold, **rule):
    found = compiled_upper_integrals(law, noise_level, threshold, **rule)
    return np.array([np.asarray(getattr(found, name)) for name in FIELDS])


def semicircle_moments(radius, cut):
    """∫_cut^R (x − cut)^k over the semicircle of radius R, k = 0, 1, 2, in closed form."""
    t = np.arccos(np.clip(cut / radius, -1, 1))
    m0 = (t - np.sin(2 * t) / 2) / np.pi
    m1 = radius * 2 * np.sin(t) ** 3 / (3 * np.pi)
    m2 = radius**2 * (t / 4 - np.sin(4 * t) / 16) / np.pi
    return m0, m1 - cut * m0, m2 - 2 * cut * m1 + cut**2 * m0


@pytest.mark.parametrize("shift", [0.0, 1.7])
@pytest.mark.parametrize("noise_level", [1e-3, 0.2, 1.0, 10.0])
@pytest.mark.parametrize("relative_cut", [-2.5, -1.0, -0.3, 0.0, 0.5, 0.97, 1.0, 1.4])
def test_semicircle_alone_and_one_atom(shift, noise_level, relative_cut):
    radius = 2 * noise_level
    cut = relative_cut * radius
    m0, m1, m2 = semicircle_moments(radius, cut)
    # J = δ² j((cut)/δ), so ∂_δ J = (2J − cut·∂_ε J)/δ at fixed cut, with ∂_ε J = −2 m1
    expected = [m2, (2 * m2 + 2 * cut * m1) / noise_level, -2 * m1, m0]
    found = numbers(Atoms([shift]), noise_level, shift + cut)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14 * noise_level)


def two_atom_density(noise_level, x):
    """Density of ½(δ_{−1}+δ_1) ⊞ semicircle, shifted by one, from its cubic."""
    z = x - 1.0
    d2 = noise_level**2
    # (z − d2 g)² g − g = z − d2 g
    roots = np.array([np.roots([d2**2, -2 * d2 * t, t**2 - 1 + d2, -t]) for t in z])
    return np.max(np.abs(roots.imag), axis=1) / np.pi


@pytest.mark.parametrize("noise_level", [0.3, 0.6, 1.5])
@pytest.mark.parametrize("cut", [-0.5, 0.4, 1.0, 1.9])
def test_two_atoms_against_the_cubic(noise_level, cut):
    law = Atoms([0.0, 2.0])
    angle, weight = np.polynomial.legendre.leggauss(2000)
    angle, weight = np.pi * (angle + 1) / 2, np.pi * weight / 2
    expected = np.zeros(3)
    for left, right in biane.intervals(law, noise_level):
        left = max(left, cut)
        if left >= right:
            continue
        x = (left + right) / 2 - (right - left) / 2 * np.cos(angle)
        rho = two_atom_density(noise_level, x) * weight * (right - left) / 2 * np.sin(angle)
        expected += [np.sum(rho * (x - cut) ** k) for k in (2, 1, 0)]
    second, _, by_threshold, mass = numbers(law, noise_level, cut)
    np.testing.assert_allclose([second, by_threshold / -2, mass], expected, rtol=2e-10, atol=1e-13)


def thresholds_around_edges(law, noise_level):
    edges = biane.intervals(law, noise_level).ravel()
    steps = noise_level * np.array([-1.0, -0.1, -1e-2, 1e-2, 0.1, 1.0])
    return np.concatenate([(edges[:, None] + steps).ravel(), [0.0, 0.3 * edges[-1]]])


@pytest.mark.parametrize("kappa0", [0.01, 0.1, 0.5, 0.99, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("noise_level", [1e-3, 1e-2, 0.1, 1.0, 10.0])
def test_doubling_the_nodes_changes_nothing(kappa0, noise_level):
    law = MarchenkoPastur(kappa0)
    cuts = thresholds_around_edges(law, noise_level)
    coarse, fine = numbers(law, noise_level, cuts), numbers(law, noise_level, cuts, order=32)
    np.testing.assert_allclose(coarse, fine, rtol=1e-10, atol=1e-20 * (law.power + noise_level**2))
    beyond = numbers(law, noise_level, biane.intervals(law, noise_level)[-1, 1] * 1.001)
    assert not beyond.any()


@pytest.mark.parametrize("kappa0", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("noise_level", [1e-2, 1.0])
def test_a_hair_from_an_edge_only_rounding_is_lost(kappa0, noise_level):
    """At a distance h from the right edge x₊ everything falls like a power of h, J below 1e-20,
    and a threshold given in double precision is itself known to eps·x₊/h only."""
    law = MarchenkoPastur(kappa0)
    edges = biane.intervals(law, noise_level).ravel()
    hair = 1e-4 * noise_level
    cuts = np.concatenate([edges - hair, edges + hair])
    coarse, fine = numbers(law, noise_level, cuts), numbers(law, noise_level, cuts, order=32)
    rounding = np.finfo(float).eps * (edges[-1] / hair) ** 1.5
    near_right = np.abs(cuts - edges[-1]) < 2 * hair
    np.testing.assert_allclose(coarse[:, ~near_right], fine[:, ~near_right], rtol=1e-10)
    np.testing.assert_allclose(coarse[:, near_right], fine[:, near_right], rtol=20 * rounding)


@settings(max_examples=25, deadline=None)
@given(kappa0=st.floats(0.05, 3.0), noise_level=st.floats(0.05, 3.0), threshold=st.floats(0.0, 1.5))
def test_derivatives_are_those_of_j(kappa0, noise_level, threshold):
    law, step = MarchenkoPastur(kappa0), 1e-4

    def j(delta, epsilon):
        return float(compiled_upper_integrals(law, delta, epsilon).second)

    _, by_noise, by_threshold, _ = numbers(law, noise_level, threshold)
    central = (j(noise_level + step, threshold) - j(noise_level - step, threshold)) / (2 * step)
    assert by_noise == pytest.approx(central, rel=1e-5, abs=1e-8)
    central = (j(noise_level, threshold + step) - j(noise_level, threshold - step)) / (2 * step)
    assert by_threshold == pytest.approx(central, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kappa0", [0.1, 1.0, 2.0])
def test_full_second_moment_is_q0_plus_delta_squared(kappa0):
    law, delta, far = MarchenkoPastur(kappa0), 0.7, -9.0
    second, _, by_threshold, mass = numbers(law, delta, far)
    assert mass == pytest.approx(1.0, rel=1e-12)
    assert by_threshold / -2 == pytest.approx(law.mean - far, rel=1e-12)
    assert second == pytest.approx(law.power + delta**2 - 2 * far * law.mean + far**2, rel=1e-12)


def test_convolving_twice_is_convolving_once(rng):
    """(S0 + δ₁Z) + δ₂Z′ has the law of S0 + √(δ₁²+δ₂²) Z: quantiles as new atoms."""
    law, first, second = MarchenkoPastur(0.5), 0.6, 0.8
    levels = (np.arange(4000) + 0.5) / 4000
    grid = np.linspace(*biane.intervals(law, first).ravel()[[0, -1]], 6001)
    above = np.asarray(compiled_upper_integrals(law, first, grid).mass)
    quantiles = np.interp(levels, 1 - above, grid)
    shifted = Atoms(quantiles - quantiles[0])
    cut = 0.3
    twice = numbers(shifted, second, cut - quantiles[0])
    once = numbers(law, np.hypot(first, second), cut)
    np.testing.assert_allclose(twice[[0, 3]], once[[0, 3]], rtol=2e-4)


@pytest.mark.parametrize(
    ("law", "noise_level"),
    [
        (MarchenkoPastur(0.5), 0.1),
        (MarchenkoPastur(0.5), 0.8),
        (MarchenkoPastur(0.05), 0.3),
        (MarchenkoPastur(2.0), 0.5),
        (Atoms([0.0, 2.0], [0.8, 0.2]), 0.3),
    ],
)
def test_density_integrates_to_the_mass_above_the_threshold(law, noise_level):
    spectrum = SpectralLaw(0.9, noise_level, 0.15, law)
    angle, weight = np.polynomial.legendre.leggauss(400)
    angle, weight = np.pi * (angle + 1) / 2, np.pi * weight / 2
    total = 0.0
    for left, right in spectrum.edges:
        s = (left + right) / 2 - (right - left) / 2 * np.cos(angle)
        total += np.sum(spectrum.density(s) * weight * (right - left) / 2 * np.sin(angle))
    assert total == pytest.approx(1 - spectrum.atom, abs=1e-8)


@pytest.mark.parametrize("noise_level", [0.01, 0.3, 3.0])
def test_arguments_of_points_on_the_axis(noise_level):
    law = Atoms([0.0, 2.0], [0.8, 0.2])
    spans = biane.edges(law, noise_level)
    u = spans[0, 0] + np.array([0.01, 0.5, 0.99]) * (spans[0, 1] - spans[0, 0])
    x = biane.position(law, noise_level, u, biane.height(law, noise_level, u))
    found = [biane.arguments(law, noise_level, own, spans) for own in x]
    np.testing.assert_allclose(np.ravel(found), u, rtol=1e-9, atol=1e-12)
    assert not biane.arguments(law, noise_level, -10.0 * noise_level - 1, spans).size


def test_density_is_the_boundary_value_of_the_transform():
    law, delta = MarchenkoPastur(0.5), 0.4
    u = np.linspace(0.1, 3.0, 40)
    v = biane.height(law, delta, u)
    x = biane.position(law, delta, u, v)
    inside = v > 0
    g = law.cauchy(u[inside] + 1j * v[inside])
    np.testing.assert_allclose(biane.density(law, delta, x[inside]), -g.imag / np.pi, rtol=1e-9)


def test_outliers_of_an_isolated_eigenvalue():
    """Zero bulk, one isolated s > δ: it comes out near s + δ²/s (5.2)."""
    dim, s, delta = 2000, 2.0, 0.5
    law = Atoms([0.0, s], [1 - 1 / dim, 1 / dim])
    spectrum = SpectralLaw(1.0, delta, 0.0, law)
    (outlier,) = spectrum.outliers
    assert outlier.mass == pytest.approx(1 / dim, rel=1e-9)
    assert (outlier.left + outlier.right) / 2 == pytest.approx(s + delta**2 / s, rel=2e-3)


def test_spectral_sample_follows_the_law(key):
    spectrum = SpectralLaw(0.8, 0.35, 0.19, MarchenkoPastur(0.5))
    drawn = spectrum.sample(600, key)
    assert np.mean(drawn > 0) == pytest.approx(spectrum.rank_ratio, abs=0.01)
    cuts = np.array([0.2, 0.7, 1.5])
    observed = (drawn[:, None] > cuts).mean(axis=0)
    np.testing.assert_allclose(observed, spectrum.mass_above(cuts), atol=0.01)


def test_compiled_mapped_and_plain_agree():
    import jax

    law = MarchenkoPastur(0.5)
    plain = np.array([float(v) for v in upper_integrals(law, 0.3, 0.2)])
    jitted = np.array([float(v) for v in jax.jit(upper_integrals)(law, 0.3, 0.2)])
    mapped = jax.vmap(lambda e: upper_integrals(law, 0.3, e))(jax.numpy.array([0.1, 0.2]))
    np.testing.assert_allclose(jitted, plain, rtol=1e-12)
    np.testing.assert_allclose([float(v[1]) for v in mapped[:4]], plain[:4], rtol=1e-12)
