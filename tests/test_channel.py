"""The output side: the proximal step and the Gaussian averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import Overlaps, Problem, SquareLoss, Tied
from attnlaw.attention import seen_by_softmax
from attnlaw.channels.channel import (
    Used,
    channel_averages,
    zero_map_averages,
)
from attnlaw.channels.curvature import Derivatives, loss_derivatives
from attnlaw.channels.prox import prox_minima, solve_symmetric
from attnlaw.channels.scores import ScoreLaw
from attnlaw.numerics.gaussian import in_chunks, mean_over_chunks, normal_points

VARIANCE = 1.75


def averages(attention, overlaps, count=2**14, seed=3, variance=VARIANCE):
    points = in_chunks(normal_points(attention.constraints, count, 1, seed))
    used = Used.all_of(points)
    law = ScoreLaw.of(Overlaps(*overlaps), variance, 0.0)
    found, _ = jax.jit(channel_averages)(attention, SquareLoss(), law, overlaps[2], points, used)
    return jax.tree.map(lambda row: row[0], found)


def sequence_loss(attention, z0):
    labels = attention.labels(attention.scores(z0))
    return lambda y: SquareLoss()(labels, attention.weights(attention.scores(y)))


def prox(attention, z0, omega, sigma, starts, used=None):
    """Minima of ℓ(y) + |y − ω|²/(2Σ) from each of the starts."""
    unit = jnp.eye(len(omega))[:, :, None]

    def objective(own, y):
        near = loss_derivatives(attention, SquareLoss(), own[0], y)
        away = y - own[1]
        return Derivatives(
            near.value + (away**2).sum(axis=0) / (2 * sigma),
            near.gradient + away / sigma,
            near.hessian + unit / sigma,
        )

    data = (attention.labels(attention.scores(z0)), jnp.asarray(omega))
    used = len(starts) if used is None else used
    wanted = jnp.arange(len(starts))[:, None] < used
    return prox_minima(objective, data, jnp.stack(starts), wanted, 2 / attention.beta)


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
@pytest.mark.parametrize("sigma", [1e-6, 0.3, 30.0, 1e6])
def test_prox_is_stationary_and_below_its_starts(tokens, sigma, rng):
    attention = Tied(tokens, beta=1.3, target_beta=0.8)
    omega = rng.normal(size=(attention.constraints, 500))
    z0 = rng.normal(size=omega.shape)
    loss = sequence_loss(attention, z0)
    found = prox(attention, z0, omega, sigma, [omega, 0.8 / 1.3 * z0])
    assert bool(found.settled.all())

    def objective(y):
        return loss(y) + jnp.sum((y - omega) ** 2, axis=0) / (2 * sigma)

    for point, start, value in zip(
        found.points, (omega, 0.8 / 1.3 * z0), found.values, strict=True
    ):
        slope = jax.grad(lambda y: objective(y).sum())(point)
        assert float(jnp.abs(slope).max()) * min(sigma, 1.0) < 1e-8
        assert bool((objective(point) <= objective(start) + 1e-12).all())
        # read before the last step, at most 1e-8 · reach long
        last = (1e-8 * 2 / 1.3) ** 2 * (1 + 1 / sigma)
        np.testing.assert_allclose(value, objective(point), rtol=1e-8, atol=last)


def test_prox_finds_both_minima_where_there_are_two():
    """At T = 2 a label far from ω has a minimum on its own side and one at the plateau of ω."""
    attention = Tied(2)
    z0 = jnp.array([[3.0], [0.0]])
    omega = -6 * z0
    found = prox(attention, z0, omega, 30.0, [omega, z0])
    apart = float(jnp.linalg.norm(found.points[0] - found.points[1]))
    assert bool(found.settled.all())
    assert apart > 1.0
    line = np.linspace(-8, 2, 4001)
    loss = sequence_loss(attention, jnp.tile(z0, 4001))
    path = z0 * line
    values = loss(path) + ((path - omega) ** 2).sum(axis=0) / 60
    dips = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))
    assert len(dips) == 2


def test_prox_follows_only_the_starts_that_are_used(rng):
    attention = Tied(2)
    omega = rng.normal(size=(2, 40))
    found = prox(attention, omega, omega + 1, 0.4, [omega, omega + 3], used=1)
    assert bool(found.settled[0].all())
    np.testing.assert_array_equal(found.points[1], omega + 3)


def test_prox_is_nonexpansive_where_it_is_unique(rng):
    attention = Tied(2)
    z0 = rng.normal(size=(2, 400))
    first, second = rng.normal(size=(2, 2, 400))
    # the curvature of ℓ is at least −0.97, so the step with Σ = 0.5 is 1/(1 − 0.5·0.97)-Lipschitz
    ends = [prox(attention, z0, omega, 0.5, [omega]).points[0] for omega in (first, second)]
    lengths = np.linalg.norm(ends[0] - ends[1], axis=0), np.linalg.norm(first - second, axis=0)
    assert (lengths[0] <= lengths[1] / (1 - 0.5 * 0.97) + 1e-9).all()


def test_prox_jitted_and_mapped_agree_with_plain(rng):
    attention = Tied(2)
    z0, omega = rng.normal(size=(2, 2, 64))

    def ends(centre):
        return prox(attention, z0, centre, 0.7, [centre]).points[0]

    plain = ends(omega)
    mapped = jax.vmap(ends)(jnp.stack([omega, omega + 0.1]))[0]
    np.testing.assert_allclose(jax.jit(ends)(omega), plain, atol=1e-10)
    np.testing.assert_allclose(mapped, plain, atol=1e-10)


@pytest.mark.parametrize("attention", [Tied(2), Tied(3, 2.0, 0.7), Tied(4, 0.5)])
def test_loss_derivatives_are_those_of_the_loss(attention, rng):
    count = attention.constraints
    z0, y = rng.normal(size=(2, count, 20))
    loss = sequence_loss(attention, z0)
    labels = attention.labels(attention.scores(z0))
    found = loss_derivatives(attention, SquareLoss(), labels, jnp.asarray(y))
    np.testing.assert_allclose(found.value, loss(y), rtol=1e-13)
    slope = jax.grad(lambda t: loss(t).sum())
    np.testing.assert_allclose(found.gradient, slope(y), atol=1e-12)
    columns = [
        jax.jvp(slope, (jnp.asarray(y),), (jnp.broadcast_to(unit[:, None], y.shape),))[1]
        for unit in jnp.eye(count)
    ]
    np.testing.assert_allclose(found.hessian, jnp.stack(columns), atol=1e-12)


def test_elimination(rng):
    matrix = rng.normal(size=(5, 5, 20))
    matrix = matrix + np.swapaxes(matrix, 0, 1) + 10 * np.eye(5)[:, :, None]
    rhs = rng.normal(size=(5, 20))
    solution, definite = solve_symmetric(matrix, rhs[:, None])
    assert bool(definite.all())
    stacked = np.moveaxis(matrix, -1, 0)
    expected = np.linalg.solve(stacked, rhs.T[..., None])[..., 0].T
    np.testing.assert_allclose(solution[:, 0], expected, atol=1e-10)
    _, definite = solve_symmetric(-matrix, rhs[:, None])
    assert not bool(definite.any())
    # with pivots made positive the step always goes uphill of the right-hand side
    shifted = matrix - 10 * np.eye(5)[:, :, None]
    solution, definite = solve_symmetric(shifted, rhs[:, None], absolute=True)
    assert not bool(definite.all())
    assert bool(((solution[:, 0] * rhs).sum(axis=0) > 0).all())


def test_averages_over_chunks(rng):
    chunks = rng.normal(size=(4, 2, 3, 8))
    mean = mean_over_chunks(lambda own: {"square": jnp.mean(own**2)}, jnp.asarray(chunks), 4)
    assert float(mean["square"]) == pytest.approx((chunks**2).mean())
    part = mean_over_chunks(lambda own: jnp.mean(own), jnp.asarray(chunks), 2)
    assert float(part) == pytest.approx(chunks[:2].mean())
    assert float(mean_over_chunks(lambda own: jnp.mean(own), jnp.asarray(chunks), 0)) == 0.0


def test_points_in_chunks_are_the_same_points():
    points = normal_points(2, 64, 3, 0)
    chunks = in_chunks(points, 16)
    assert chunks.shape == (3, 4, 2, 2, 16)
    np.testing.assert_array_equal(np.moveaxis(chunks, 1, 3).reshape(points.shape), points)


def test_largest_jump_is_the_change_when_that_point_flips():
    """At large Σ some points have two minima; the jump is what one of them changes in the mean."""
    attention = Tied(2, 2.0, 2.0)
    points = in_chunks(normal_points(2, 256, 2, 1), 64)
    law = ScoreLaw.of(Overlaps(20.0, 4.0, 60.0), 4.0, 0.0)
    run = jax.jit(channel_averages)
    averages, jump = run(attention, SquareLoss(), law, 60.0, points, Used(2, 4))
    assert float(averages.two_minima.mean()) > 0.01
    assert 0 < float(jump.size) < 0.5
    # the same points twice as often: each one weighs half as much
    double = jnp.concatenate([points, points])
    _, half = run(attention, SquareLoss(), law, 60.0, double, Used(4, 4))
    assert float(half.size) == pytest.approx(float(jump.size) / 2)
    assert float(half.divergence) == pytest.approx(float(jump.divergence) / 2)


def test_unused_scrambles_are_left_out():
    points = in_chunks(normal_points(2, 256, 3, 1), 64)
    law = ScoreLaw.of(Overlaps(0.8, 1.0, 0.3), VARIANCE, 0.0)
    some, _ = channel_averages(Tied(2), SquareLoss(), law, 0.3, points, Used(1, 2))
    alone, _ = channel_averages(Tied(2), SquareLoss(), law, 0.3, points[:1, :2], Used(1, 2))
    assert float(some.loss[0]) == pytest.approx(float(alone.loss[0]), rel=1e-12)
    assert not np.asarray(some.loss[1:]).any()


@pytest.mark.parametrize("attention", [Tied(2), Tied(2, 2.0, 0.7), Tied(3)])
@pytest.mark.parametrize("overlaps", [(0.8, 1.0, 0.3), (1.2, 0.9, 4.0), (0.3, 0.1, 0.05)])
def test_derivatives_of_the_moreau_average(attention, overlaps):
    """∂_Σ𝓜 = −E|g|²/2, ∂_m𝓜 = −D_0, ∂_q𝓜 = −D_ω/2 by central differences.

    By Stein's lemma they are the derivatives of the sampled 𝓜 itself, whatever the points.
    """
    m = overlaps[1]
    here = averages(attention, overlaps)
    assert float(here.settled) == 1.0
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


@pytest.mark.parametrize("attention", [Tied(2), Tied(2, 2.0, 0.7), Tied(3)])
def test_response_is_the_derivative_of_the_proximal_step(attention):
    """E tr ∂g/∂ω and E‖∂g/∂ω‖²_F of (4.5) by central differences of g at every point."""
    overlaps, count, seed, step = (0.8, 1.0, 0.3), 256, 2, 1e-4
    found = averages(attention, overlaps, count, seed)
    points = normal_points(attention.constraints, count, 1, seed)[0]
    z0, omega = ScoreLaw.of(Overlaps(*overlaps), VARIANCE, 0.0).scores(points)

    def g(shifted):
        return (prox(attention, z0, shifted, overlaps[2], [shifted]).points[0] - shifted) / 0.3

    moves = step * jnp.eye(len(omega))[:, :, None]
    slopes = jnp.stack([(g(omega + move) - g(omega - move)) / (2 * step) for move in moves])
    trace = jnp.mean(jnp.einsum("kkn->n", slopes))
    square = jnp.mean(jnp.sum(slopes**2, axis=(0, 1)))
    assert float(found.response_trace) == pytest.approx(float(trace), rel=1e-5)
    assert float(found.response_square) == pytest.approx(float(square), rel=1e-5)


def test_response_is_told_where_asked_for():
    points = in_chunks(normal_points(2, 256, 1, 1), 64)
    law = ScoreLaw.of(Overlaps(1.2, 0.9, 4.0), VARIANCE, 0.0)
    both = [
        channel_averages(Tied(2), SquareLoss(), law, 4.0, points, Used(1, 2, wanted))[0]
        for wanted in (True, False)
    ]
    assert float(both[0].response_square[0]) > 0
    assert float(both[1].response_square[0]) == 0
    assert float(both[1].divergence[0]) == float(both[0].divergence[0])


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
    z0, omega = ScoreLaw.of(overlaps, VARIANCE, 0.0).scores(points)
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
