"""Target laws against closed forms and quadrature at complex points."""

import re

import jax
import numpy as np
import pytest
from scipy.integrate import quad

from attnlaw import Atoms, MarchenkoPastur, PowerLaw, from_matrix

POINTS = np.array([0.3 + 0.2j, -1.0 + 0.5j, 2.0 + 1e-2j, 10.0 + 3.0j, 1e-3 + 1e-3j])


def marchenko_pastur_moment(kappa0, function):
    """∫ function(s) μ0(ds) by quadrature of the textbook density, s = middle + half·cos."""
    root = np.sqrt(kappa0)
    low, high = (1 - root) ** 2 / root, (1 + root) ** 2 / root
    middle, half = (low + high) / 2, (high - low) / 2

    def integrand(angle):
        s = middle + half * np.cos(angle)
        # density √((high−s)(s−low))·√κ0/(2πs); ds = half·sin(angle) d(angle)
        return function(s) * root * (half * np.sin(angle)) ** 2 / (2 * np.pi * s)

    rule = {"limit": 400, "epsabs": 1e-13, "epsrel": 1e-12, "complex_func": True}
    continuous = quad(integrand, 0, np.pi, **rule)[0]
    return continuous + max(0.0, 1 - kappa0) * function(0.0)


@pytest.mark.parametrize("kappa0", [0.01, 0.3, 0.9, 1.7, 4.0])
def test_cauchy_transform_of_marchenko_pastur_is_that_of_its_density(kappa0):
    law = MarchenkoPastur(kappa0)
    for w in POINTS:
        expected = marchenko_pastur_moment(kappa0, lambda s, w=w: 1 / (w - s))
        assert law.cauchy(w * np.ones(1))[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kappa0", [0.01, 0.3, 1.0, 2.5])
def test_marchenko_pastur_moments(kappa0):
    law = MarchenkoPastur(kappa0)
    # g0(w) = 1/w + mean/w² + Q0/w³ + …
    w = np.array([1e3 + 0j])
    g = law.cauchy(w)[0]
    assert (g * w[0] - 1) * w[0] == pytest.approx(law.mean + law.power / w[0], rel=3e-4)
    assert law.power == 1 + kappa0
    assert law.mean == np.sqrt(kappa0)


@pytest.mark.parametrize(
    "law",
    [MarchenkoPastur(0.4), MarchenkoPastur(3.0), Atoms([0.0, 1.0, 2.5]), PowerLaw(1.2, 50)],
)
def test_derivative_of_the_cauchy_transform(law):
    step = 1e-5
    slope = (law.cauchy(POINTS + step) - law.cauchy(POINTS - step)) / (2 * step)
    np.testing.assert_allclose(law.cauchy_pair(POINTS)[1], slope, rtol=3e-4)


def test_numpy_and_jax_give_the_same_transform():
    law = MarchenkoPastur(0.4)
    np.testing.assert_allclose(
        np.asarray(law.cauchy(jax.numpy.asarray(POINTS))), law.cauchy(POINTS), rtol=1e-14
    )


@pytest.mark.parametrize("kappa0", [0.25, 1.5])
def test_drawn_gaussian_target_has_the_law_s_moments(kappa0, key):
    law = MarchenkoPastur(kappa0)
    dim = 400
    matrix = np.asarray(law.draw(dim, key))
    assert np.trace(matrix) / dim == pytest.approx(law.mean, rel=0.02)
    assert np.sum(matrix**2) / dim == pytest.approx(law.power, rel=0.02)
    assert np.linalg.matrix_rank(matrix) == min(dim, round(kappa0 * dim))


def test_drawn_atoms_keep_their_eigenvalues(key):
    law = Atoms([0.0, 1.0, 3.0], [0.5, 0.25, 0.25])
    values = np.linalg.eigvalsh(np.asarray(law.draw(20, key)))
    np.testing.assert_allclose(values, np.repeat([0.0, 1.0, 3.0], [10, 5, 5]), atol=1e-12)


def test_matrix_target_is_drawn_as_it_is(rng, key):
    factor = rng.normal(size=(12, 3))
    matrix = factor @ factor.T
    law = from_matrix(matrix)
    np.testing.assert_allclose(np.asarray(law.draw(12, key)), matrix)
    assert law.rank_ratio == pytest.approx(0.25)
    assert law.power == pytest.approx(np.sum(matrix**2) / 12)


def test_power_law_values():
    law = PowerLaw(1.25, 400)
    assert law.values[0] == 20.0
    assert law.power == pytest.approx(np.sum(np.arange(1.0, 401) ** -2.5))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: MarchenkoPastur(0.0),
            "kappa0 = p0/d (target_rank_ratio) must be positive, got 0.0",
        ),
        (lambda: MarchenkoPastur(float("nan")), "must be one finite number"),
        (lambda: PowerLaw(0.5, 10), "exponent must be above 1/2"),
        (lambda: PowerLaw(1.0, 1), "dim must be a whole number of at least 2, got 1"),
        (lambda: Atoms([-1.0, 2.0]), "smallest value of -1"),
        (lambda: Atoms([[1.0]]), "non-empty 1-D array, got shape"),
        (lambda: Atoms([1.0, np.inf]), "non-finite"),
        (lambda: Atoms(None), "values must be real numbers"),
        (lambda: Atoms({1.0, 2.0}), "values must be real numbers"),
        (lambda: Atoms(float(k) for k in range(3)), "values must be real numbers"),
        (lambda: Atoms([[1.0], [1.0, 2.0]]), "values must be numbers in one row"),
        (lambda: Atoms([1.0, 2.0], [0.5, 0.6]), "sum to 1"),
        (lambda: from_matrix(np.ones((2, 3))), "finite square array, got shape"),
        (lambda: from_matrix([[1.0, 2.0], [0.0, 1.0]]), "must be symmetric"),
        (lambda: from_matrix([[1.0, 0.0], [0.0, -1.0]]), "zero or positive"),
        (lambda: MarchenkoPastur(0.01).target_rank(50), "raise dim to 100 or more"),
        (lambda: Atoms([0.0, 1.0]).spectrum(3), "use dim = 2"),
    ],
)
def test_bad_targets_are_refused_with_name_rule_value_remedy(build, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        build()
