"""Pair averages of the divided difference against (2.6), limits and matrices."""

import jax
import numpy as np
import pytest

from attnlaw import Atoms, MarchenkoPastur, PowerLaw
from attnlaw.spectra.divided_differences import axis_rule, pair_means
from attnlaw.spectra.free_convolution import compiled_upper_integrals

LAWS = [
    MarchenkoPastur(0.05),
    MarchenkoPastur(0.5),
    MarchenkoPastur(1.0),
    MarchenkoPastur(2.0),
    Atoms([0.0, 1.0, 3.0], [0.6, 0.3, 0.1]),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("noise_level", [0.05, 0.35, 1.7, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.1, 1.9])
def test_first_mean_is_the_noise_derivative(law, noise_level, share):
    threshold = share * noise_level
    found = pair_means(law, noise_level, threshold)
    upper = compiled_upper_integrals(law, noise_level, threshold)
    assert found.mass == pytest.approx(float(upper.mass), rel=1e-6, abs=1e-12)
    assert found.first == pytest.approx(float(upper.noise_derivative) / (2 * noise_level), rel=1e-6)
    assert found.mass**2 <= found.second <= found.first


def test_single_precision_around_it_does_not_matter():
    with jax.enable_x64(False):
        found = pair_means(Atoms([0.0, 4.0], [0.8, 0.2]), 0.05, 0.0)
    exact = pair_means(Atoms([0.0, 4.0], [0.8, 0.2]), 0.05, 0.0)
    assert found == exact


@pytest.mark.parametrize("noise_level", [0.05, 0.35, 1.7])
def test_many_eigenvalues(noise_level):
    law = PowerLaw(1.25, 100)
    found = pair_means(law, noise_level, noise_level)
    upper = compiled_upper_integrals(law, noise_level, noise_level)
    assert found.first == pytest.approx(float(upper.noise_derivative) / (2 * noise_level), rel=1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_rule_has_the_moments_of_the_law(law):
    x, weights, _ = axis_rule(law, 0.4, 0.3)
    assert weights.sum() == pytest.approx(1.0, rel=1e-7)
    assert weights @ x == pytest.approx(float(law.mean), rel=1e-6)
    assert weights @ x**2 == pytest.approx(float(law.power) + 0.4**2, rel=1e-6)


def test_no_threshold_keeps_every_pair():
    found = pair_means(MarchenkoPastur(0.5), 0.35, -5.0)
    assert found.first == pytest.approx(1.0, rel=1e-7)
    assert found.second == pytest.approx(1.0, rel=1e-7)


def test_eigenvalues_of_a_matrix(rng):
    """R of one matrix S0 + δZ of dimension 600; the mean over pairs scatters little."""
    dim, rank, noise_level, threshold = 600, 300, 0.35, 0.3
    factor = rng.standard_normal((dim, rank))
    gaussian = rng.standard_normal((dim, dim))
    noise = (gaussian + gaussian.T) / np.sqrt(2 * dim)
    x = np.linalg.eigvalsh(factor @ factor.T / np.sqrt(rank * dim) + noise_level * noise)
    kept = np.maximum(x - threshold, 0.0)
    gaps = x[:, None] - x + np.eye(dim)
    squares = ((kept[:, None] - kept) / gaps) ** 2 + np.diag(1.0 * (x > threshold))
    found = pair_means(MarchenkoPastur(0.5), noise_level, threshold)
    assert found.second == pytest.approx(squares.mean(), rel=0.01)
