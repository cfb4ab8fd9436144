"""The lowest of several proximal minima, against many random starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import Overlaps, SquareLoss, Tied
from attnlaw.channels.curvature import Derivatives, loss_derivatives
from attnlaw.channels.lowest import lowest_minima, starting_points
from attnlaw.channels.prox import prox_minima
from attnlaw.channels.scores import ScoreLaw

VARIANCE = 0.75
RANDOM_STARTS = 60


class Setting:
    """Proximal steps at given T, Σ and q, each point with its own objective."""

    def __init__(self, tokens, sigma, q, count, rng):
        self.attention = Tied(tokens)
        self.noise = jnp.asarray(rng.standard_normal((2, self.attention.constraints, count)))
        overlaps = Overlaps(q, 0.6 * np.sqrt(q * VARIANCE), sigma)
        self.z0, self.omega = ScoreLaw.of(overlaps, VARIANCE, 0.0).scores(self.noise)
        self.data = (self.attention.labels(self.attention.scores(self.z0)), self.omega)
        self.sigma = sigma

    def objective(self, own, y):
        near = loss_derivatives(self.attention, SquareLoss(), own[0], y)
        away = y - own[1]
        return Derivatives(
            near.value + jnp.sum(away**2, axis=0) / (2 * self.sigma),
            near.gradient + away / self.sigma,
            near.hessian + jnp.eye(len(y))[:, :, None] / self.sigma,
        )

    def lowest(self, single=False):
        ends = jnp.stack([self.omega, self.z0])
        basis = self.attention.score_basis
        return lowest_minima(self.objective, self.data, ends, basis, self.noise, single, 2.0)

    def reference(self, rng):
        """Lowest values from the ends and from many random starts between and around them."""
        between = self.z0 - self.omega
        length = jnp.sqrt(jnp.mean(between**2, axis=0))
        starts = [self.omega, self.z0]
        for _ in range(RANDOM_STARTS):
            spread = rng.standard_normal(between.shape) * rng.uniform(0, 0.7)
            starts.append(self.omega + rng.uniform(0, 1.2) * between + length * spread)

        def value(start):
            return prox_minima(self.objective, self.data, start[None], True, 2.0).values[0]

        return np.asarray(jax.lax.map(value, jnp.stack(starts))).min(axis=0)


@pytest.mark.parametrize(("sigma", "q"), [(7.0, 7.0), (50.0, 50.0), (3000.0, 3000.0)])
def test_at_two_tokens_nothing_lower_is_found_by_random_starts(sigma, q, rng):
    setting = Setting(2, sigma, q, 300, rng)
    found, reference = setting.lowest(), setting.reference(rng)
    assert bool(found.settled.all())
    assert (np.asarray(found.value) <= reference * (1 + 1e-7)).all()


def test_at_three_tokens_little_is_missed(rng):
    setting = Setting(3, 50.0, 50.0, 300, rng)
    value, reference = np.asarray(setting.lowest().value), setting.reference(rng)
    assert reference.mean() > 0.1
    assert value.mean() <= np.minimum(value, reference).mean() * 1.002


def test_the_rival_is_another_minimum_and_higher(rng):
    setting = Setting(2, 50.0, 50.0, 300, rng)
    found = setting.lowest()
    apart = np.asarray(found.apart)
    assert 0.1 < apart.mean() < 0.9
    assert (found.rival_value >= found.value)[apart].all()
    near = setting.objective(setting.data, found.rival)
    assert float(jnp.abs(near.gradient).max(axis=0)[apart].max()) < 1e-6
    np.testing.assert_allclose(near.value[apart], found.rival_value[apart], rtol=1e-8)


def test_only_the_first_end_is_followed_where_the_minimum_is_single(rng):
    setting = Setting(3, 0.3, 1.0, 100, rng)
    single, both = setting.lowest(single=True), setting.lowest(single=False)
    assert not bool(single.apart.any() | both.apart.any())
    np.testing.assert_allclose(single.point, both.point, atol=1e-7)


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_starts_exchange_rows(tokens):
    """M of a row gives that row the label's scores, whatever they are."""
    basis = Tied(tokens).score_basis
    shares, widths = starting_points(basis)
    assert len(shares) == len(widths)
    assert len(shares) % 2 == 0
    for row in range(tokens):
        np.testing.assert_allclose(basis[row] @ shares[row], basis[row], atol=1e-12)
        if tokens > 2:
            others = np.delete(basis, row, axis=0)
            np.testing.assert_allclose(others @ shares[tokens + row], others, atol=1e-12)
