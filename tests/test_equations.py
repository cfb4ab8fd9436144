"""The fixed-point equations are the stationarity conditions of Φ (4.2)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import Conjugates, Overlaps, Problem
from attnlaw.channels.channel import Used, channel_averages
from attnlaw.channels.channel import conjugates as channel_conjugates
from attnlaw.channels.scores import ScoreLaw
from attnlaw.denoisers import EigenThreshold
from attnlaw.numerics.gaussian import in_chunks, normal_points


def averages(problem, overlaps, points):
    found, _ = channel_averages(
        problem.attention,
        problem.loss,
        ScoreLaw.of(overlaps, problem.target_power, problem.noise),
        overlaps.sigma,
        points,
        Used.all_of(points),
    )
    return jax.tree.map(lambda row: row[0], found)


def phi(problem, overlaps, conjugates, points):
    """Φ of (4.2), written out independently at free order parameters and conjugates."""
    channel = averages(problem, overlaps, points)
    q, m, sigma, _ = overlaps
    q_hat, m_hat, sigma_hat = conjugates
    matrix = EigenThreshold().matrix_side(problem.target, conjugates, problem.weight_decay_scaled)
    return (
        (q_hat * sigma + 2 * m_hat * m - sigma_hat * q) / 4
        + problem.sample_ratio * channel.moreau
        - matrix.free_energy
    )


@pytest.mark.parametrize("draw", range(3))
def test_gradient_of_phi_at_random_order_parameters(draw):
    rng = np.random.default_rng(draw)
    problem = Problem(
        sample_ratio=float(rng.uniform(0.1, 2)), noise=float(rng.uniform(0, 1))
    ).replace(weight_decay=float(rng.uniform(0.05, 0.3)), kappa0=float(rng.uniform(0.2, 1.5)))
    q = rng.uniform(0.3, 1.5)
    m = rng.uniform(0.1, 0.9) * np.sqrt(q * problem.target_power)
    overlaps = Overlaps(q, m, rng.uniform(1.5, 6.0))
    conjugates = Conjugates(*rng.uniform(0.5, 2.0, size=3))
    points = jnp.asarray(in_chunks(normal_points(problem.attention.constraints, 2**12, 1, draw)))
    value = jax.jit(lambda o, c: phi(problem, o, c, points))

    def slope(group, index):
        groups = [list(overlaps), list(conjugates)]
        step = 1e-4 * groups[group][index]
        ends = []
        for sign in (1, -1):
            moved = [list(g) for g in groups]
            moved[group][index] += sign * step
            ends.append(float(value(Overlaps(*moved[0]), Conjugates(*moved[1]))))
        return (ends[0] - ends[1]) / (2 * step)

    channel = averages(problem, overlaps, points)
    assert float(channel.divergence) == float(channel.stein_divergence)  # Σβ² > 1
    stationary = channel_conjugates(
        channel.gradient_square, channel.divergence, channel.alignment, problem.sample_ratio
    )
    q_hat, m_hat, sigma_hat = conjugates
    matrix = EigenThreshold().matrix_side(problem.target, conjugates, problem.weight_decay_scaled)
    expected = [
        [
            (float(stationary.sigma_hat) - sigma_hat) / 4,
            (m_hat - float(stationary.m_hat)) / 2,
            (q_hat - float(stationary.q_hat)) / 4,
        ],
        [
            (overlaps.sigma - float(matrix.overlaps.sigma)) / 4,
            (overlaps.m - float(matrix.overlaps.m)) / 2,
            (float(matrix.overlaps.q) - overlaps.q) / 4,
        ],
    ]
    for group in (0, 1):
        for index in range(3):
            found = slope(group, index)
            assert found == pytest.approx(expected[group][index], rel=1e-4, abs=1e-5)


def test_denoiser_on_a_matrix_follows_its_own_law(key):
    """(B − 2λ̃)₊/Σ̂ with B = m̂ S0 + √q̂ Z has the overlaps of (4.1) and the divergence of (2.6)."""
    problem, dim = Problem(), 400
    conjugates, decay = Conjugates(0.14, 1.06, 1.37), 0.1
    side = EigenThreshold().matrix_side(problem.target, conjugates, decay)
    target = np.asarray(problem.target.draw(dim, key))
    raw = np.random.default_rng(1).normal(size=(dim, dim))
    noise = (raw + raw.T) / np.sqrt(2 * dim)
    field = conjugates.m_hat * target + np.sqrt(conjugates.q_hat) * noise
    learned = np.asarray(EigenThreshold().apply(jnp.asarray(field), conjugates.sigma_hat, decay))
    assert np.sum(learned**2) / dim == pytest.approx(float(side.overlaps.q), rel=0.03)
    assert np.sum(learned * target) / dim == pytest.approx(float(side.overlaps.m), rel=0.03)
    assert np.trace(learned) / dim == pytest.approx(float(side.trace), rel=0.03)
    b = np.linalg.eigvalsh(field)
    kept = np.maximum(b - 2 * decay, 0)
    gap = b[:, None] - b
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(gap == 0, (b > 2 * decay)[:, None], (kept[:, None] - kept) / gap)
    response = quotient.mean() / conjugates.sigma_hat
    assert response == pytest.approx(float(side.overlaps.sigma), rel=0.03)
