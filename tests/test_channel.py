"""The output side: the proximal step and the Gaussian averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import Overlaps, Problem, SquareLoss, Tied
from attnlaw.attention import seen_by_softmax
from attnlaw.channels.channel import channel_averages, correlated_scores, zero_map_averages
from attnlaw.channels.prox import derivatives, prox, solve_symmetric
from attnlaw.numerics.gaussian import normal_points

VARIANCE = 1.75


def averages(attention, overlaps, count=2**14, seed=3, variance=VARIANCE):
    points = normal_points(attention.constraints, count, 1, seed)[0]
    return jax.jit(channel_averages)(attention, SquareLoss(), Overlaps(*overlaps), variance, points)


def sequence_loss(attention, z0):
    labels = attention.labels(attention.scores(z0))
    return lambda y: SquareLoss()(labels, attention.weights(attention.scores(y)))


@pytest.mark.parametrize("tokens", [2, 3, 4, 5])
def test_softmax_sees_every_score_but_a_common_shift(tokens):
    attention = Tied(tokens)
    assert attention.constraints == (tokens**2 + tokens - 2) // 2
    # unit coordinates z_ab of a constant matrix h: 1/√2 on the diagonal, 1 off it
    rows, columns = np.triu_indices(tokens)
    fill = np.zeros((tokens, tokens, rows.size))
    for k, (a, b) in enumerate(zip(rows, columns, strict=True)):
        fill[a, b, k] = fill[b, a, k] = np.sqrt(2) if a == b else 1.0
    shift = np.where(rows == columns, 1 / np.sqrt(2), 1.0)
    assert np.ptp(fill @ shift) < 1e-12
    assert np.abs(seen_by_softmax(fill).sum(axis=1)).max() < 1e-12


def test_score_differences_at_two_tokens_have_the_known_covariance():
    """u = (√2 z11 − z12, √2 z22 − z12) has covariance [[3, 1], [1, 3]] per unit variance."""
    basis = Tied(2).score_basis
    u = np.stack([basis[0, 0] - basis[0, 1], basis[1, 1] - basis[1, 0]])
    np.testing.assert_allclose(u @ u.T, [[3.0, 1.0], [1.0, 3.0]], atol=1e-12)


@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("sigma", [1e-6, 0.3, 30.0])
def test_prox_is_stationary_and_below_its_starts(tokens, sigma, rng):
    attention = Tied(tokens, beta=1.3, target_beta=0.8)
    omega = rng.normal(size=(attention.constraints, 500))
    loss = sequence_loss(attention, rng.normal(size=omega.shape))
    found = prox(loss, omega, sigma, omega)
    assert bool(found.settled.all())

    def objective(y):
        return loss(y) + jnp.sum((y - omega) ** 2, axis=0) / (2 * sigma)

    slope = jax.grad(lambda y: objective(y).sum())(found.point)
    assert float(jnp.abs(slope).max()) * min(sigma, 1.0) < 1e-8
    assert bool((objective(found.point) <= objective(omega) + 1e-12).all())
    np.testing.assert_allclose(found.value, objective(found.point), rtol=1e-12)


def test_prox_is_nonexpansive_where_it_is_unique(rng):
    attention = Tied(2)
    z0 = rng.normal(size=(2, 400))
    loss = sequence_loss(attention, z0)
    first, second = rng.normal(size=(2, 2, 400))
    # the curvature of ℓ is at least −0.97, so the step with Σ = 0.5 is 1/(1 − 0.5·0.97)-Lipschitz
    moved = prox(loss, first, 0.5, first).point - prox(loss, second, 0.5, second).point
    lengths = np.linalg.norm(moved, axis=0), np.linalg.norm(first - second, axis=0)
    assert (lengths[0] <= lengths[1] / (1 - 0.5 * 0.97) + 1e-9).all()


def test_prox_jitted_and_mapped_agree_with_plain(rng):
    attention = Tied(2)
    omega = rng.normal(size=(2, 64))
    loss = sequence_loss(attention, rng.normal(size=(2, 64)))
    plain = prox(loss, omega, 0.7, omega).point
    jitted = jax.jit(lambda w: prox(loss, w, 0.7, w).point)(omega)
    mapped = jax.vmap(lambda w: prox(loss, w, 0.7, w).point)(np.stack([omega, omega + 0.1]))[0]
    np.testing.assert_allclose(jitted, plain, atol=1e-10)
    np.testing.assert_allclose(mapped, plain, atol=1e-10)


def test_derivatives_and_elimination(rng):
    attention = Tied(3)
    loss = sequence_loss(attention, rng.normal(size=(5, 20)))
    y = jnp.asarray(rng.normal(size=(5, 20)))
    value, slope, hessian = derivatives(loss, y)
    np.testing.assert_allclose(value, loss(y))
    np.testing.assert_allclose(slope, jax.grad(lambda t: loss(t).sum())(y), atol=1e-12)
    matrix = np.moveaxis(np.asarray(hessian), -1, 0)
    np.testing.assert_allclose(matrix, np.swapaxes(matrix, 1, 2), atol=1e-12)
    solution, definite = solve_symmetric(hessian, slope[:, None], 5.0)
    assert bool(definite.all())
    expected = np.linalg.solve(matrix + 5 * np.eye(5), np.asarray(slope).T[..., None])[..., 0].T
    np.testing.assert_allclose(solution[:, 0], expected, atol=1e-10)
    _, definite = solve_symmetric(hessian, slope[:, None], -100.0)
    assert not bool(definite.any())


@pytest.mark.parametrize("attention", [Tied(2), Tied(2, 2.0, 0.7), Tied(3)])
@pytest.mark.parametrize("overlaps", [(0.8, 1.0, 0.3), (1.2, 0.9, 4.0), (0.3, 0.1, 0.05)])
def test_derivatives_of_the_moreau_average(attention, overlaps):
    """∂_Σ𝓜 = −E|g|²/2, ∂_m𝓜 = −D_0, ∂_q𝓜 = −D_ω/2 by central differences.

    By Stein's lemma they are the derivatives of the sampled 𝓜 itself, whatever the points.
    """
    m = overlaps[1]
    here = averages(attention, overlaps)
    assert bool(here.settled)
    step = 1e-4

    def slope(index):
        up, down = list(overlaps), list(overlaps)
        up[index] += step * overlaps[index]
        down[index] -= step * overlaps[index]
        change = averages(attention, up).moreau - averages(attention, down).moreau
        return float(change) / (2 * step * overlaps[index])

    stein = float(here.stein_divergence)
    alignment = float(here.alignment) + m / VARIANCE * (float(here.divergence) - stein)
    assert slope(2) == pytest.approx(-float(here.gradient_square) / 2, rel=1e-4)
    assert slope(1) == pytest.approx(-alignment, rel=1e-4)
    assert slope(0) == pytest.approx(-stein / 2, rel=1e-4)


@pytest.mark.parametrize("attention", [Tied(2), Tied(2, 2.0, 0.7), Tied(3)])
@pytest.mark.parametrize("overlaps", [(0.8, 1.0, 0.15), (0.3, 0.1, 0.05)])
def test_mean_derivative_of_the_prox_meets_stein_s_lemma(attention, overlaps):
    """Where the step is continuous the two estimates of D_ω have one mean."""
    runs = [averages(attention, overlaps, 2**13, seed) for seed in range(6)]
    gaps = np.array([float(run.divergence - run.stein_divergence) for run in runs])
    assert np.ptp(gaps) > 0
    assert abs(gaps.mean()) < 4 * gaps.std(ddof=1) / np.sqrt(len(gaps))
    assert abs(gaps.mean()) < 3e-3 * abs(float(runs[0].divergence))


def test_small_temperature_is_a_linear_channel():
    """β, β0 → 0: the softmax is linear and 𝓜 is a Gaussian average in closed form."""
    beta, tokens, overlaps = 1e-3, 3, Overlaps(0.8, 0.7, 50.0)
    attention = Tied(tokens, beta, beta)
    spread = VARIANCE - 2 * overlaps.m + overlaps.q
    # A − 1/T = (β/T)·(row-centred scores), so ℓ = |L(y0 − y)|² with L = (β/T)·basis
    singular = np.linalg.svd((beta / tokens) * attention.score_basis.reshape(tokens**2, -1))[1]
    expected = np.sum(singular**2 * spread / (1 + 2 * overlaps.sigma * singular**2))
    found = averages(attention, overlaps, 2**15)
    assert float(found.moreau) == pytest.approx(expected, rel=3e-3)


def test_small_response_is_the_loss_at_the_centre():
    overlaps = (0.8, 0.7, 1e-9)
    found = averages(Tied(2), overlaps)
    assert float(found.moreau) == pytest.approx(float(found.loss), rel=1e-8)


def test_zero_map_is_the_limit_of_a_small_map():
    attention, points = Tied(2, 1.4, 0.9), normal_points(2, 2**15, 1, 5)[0]
    zero = zero_map_averages(attention, SquareLoss(), VARIANCE, points[0])
    near = averages(attention, (1e-6, 1e-4, 1e-6), 2**15)
    assert float(near.gradient_square) == pytest.approx(float(zero.gradient_square), rel=1e-3)
    assert float(near.alignment) == pytest.approx(float(zero.alignment), rel=1e-3)
    assert float(near.divergence) == pytest.approx(float(zero.divergence), rel=1e-3)


def test_scores_have_the_stated_covariance():
    overlaps = Overlaps(0.9, 0.6, 1.0)
    points = normal_points(2, 2**14, 1, 0)[0]
    z0, omega = correlated_scores(overlaps, VARIANCE, points)
    assert float(jnp.mean(z0**2)) == pytest.approx(VARIANCE, rel=1e-3)
    assert float(jnp.mean(omega**2)) == pytest.approx(0.9, rel=1e-3)
    assert float(jnp.mean(z0 * omega)) == pytest.approx(0.6, rel=1e-3)


def test_interpolation_at_large_response():
    """Σ → ∞: the proximal point reproduces the labels, h* = (β0/β) z0 up to the shift."""
    problem = Problem(attention=Tied(2, 2.0, 1.0), noise=0.0)
    found = averages(problem.attention, (0.8, 0.7, 1e7), variance=1.5)
    assert float(found.loss) < 1e-10
    assert float(found.divergence) == pytest.approx(-2 / 1e7, rel=1e-3)


def test_points_are_those_of_their_seed():
    assert (normal_points(2, 64, 2, 1) == normal_points(2, 64, 2, 1)).all()
    assert (normal_points(2, 64, 2, 1) != normal_points(2, 64, 2, 2)).any()
    assert np.isfinite(normal_points(3, 2**12, 4, 0)).all()
