"""Training: data, objective, optimisers, measurement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw import LBFGS, Adam, Problem, fit, from_matrix, sample
from attnlaw.training.data import map_scores
from attnlaw.training.objective import value_and_gradient

SMALL = Problem(sample_ratio=0.7)


def plain_objective(problem, tokens, labels, factor):
    """(1.4) written sequence by sequence from (1.1)–(1.2)."""
    dim, width = factor.shape
    norm = np.sqrt(width) * dim
    total = problem.penalty.weight_decay * np.sum(factor**2)
    for x, y in zip(tokens, labels, strict=True):
        scores = (x @ factor @ factor.T @ x.T - np.eye(len(x)) * np.sum(factor**2)) / norm
        raw = np.exp(problem.attention.beta * scores)
        total += np.sum((y - raw / raw.sum(axis=1, keepdims=True)) ** 2)
    return total


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("width", [7, 20])
def test_objective_and_gradient(tokens, width, key, rng):
    problem = SMALL.replace(tokens=tokens, beta=1.4)
    data = sample(problem, 20, key)
    factor = rng.normal(size=(20, width))
    value, gradient = value_and_gradient(factor, data.chunks, problem)
    assert float(value) == pytest.approx(
        plain_objective(problem, data.tokens, data.labels, factor), rel=1e-12
    )
    direction = rng.normal(size=factor.shape)
    step = 1e-5
    ends = [
        plain_objective(problem, data.tokens, data.labels, factor + s * step * direction)
        for s in (1, -1)
    ]
    assert float(jnp.sum(gradient * direction)) == pytest.approx(
        (ends[0] - ends[1]) / (2 * step), rel=1e-6
    )


def test_padding_changes_nothing(key, rng):
    """More sequences than one chunk holds, in a number that does not fill the last one."""
    problem = Problem(sample_ratio=2.6)
    data = sample(problem, 25, key)
    assert data.count == 1625
    assert data.chunks.weight.sum() == 1625
    factor = rng.normal(size=(25, 25))
    value, _ = value_and_gradient(factor, data.chunks, problem)
    expected = plain_objective(problem, data.tokens, data.labels, factor)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_labels_are_those_of_the_noisy_target(key):
    problem = Problem(sample_ratio=4.0, noise=0.0)
    data = sample(problem, 20, key)
    scores = np.einsum("nai,ij,nbj->nab", data.tokens, data.target, data.tokens)
    scores = (scores - np.eye(2) * np.trace(data.target)) / np.sqrt(20)
    raw = np.exp(scores)
    np.testing.assert_allclose(data.labels, raw / raw.sum(axis=2, keepdims=True), rtol=1e-10)


def test_score_variance_is_that_of_the_gaussian_limit(key):
    """(1.6): h_ab has variance (1+δ_ab)·Tr S²/d for Gaussian tokens."""
    matrix = np.asarray(Problem().target.draw(60, key))
    tokens = jax.random.normal(key, (2, 40_000, 60), dtype=float)
    scores = np.asarray(map_scores(tokens, matrix))
    power = np.sum(matrix**2) / 60
    np.testing.assert_allclose(scores[0, 0].var(), 2 * power, rtol=0.04)
    np.testing.assert_allclose(scores[0, 1].var(), power, rtol=0.04)
    np.testing.assert_allclose(scores.mean(axis=2), 0.0, atol=0.05)


def test_label_noise_has_the_stated_variance(key):
    """Δ on the diagonal, Δ/2 off it: seen in the row differences h_11 − h_12, variance 3Δ/2."""
    kwargs = {"sample_ratio": 30.0}
    noisy = sample(Problem(noise=0.8, **kwargs), 30, key)
    clean = sample(Problem(noise=0.0, **kwargs), 30, key)
    logits = [np.log(d.labels[:, 0, 0] / d.labels[:, 0, 1]) for d in (noisy, clean)]
    assert np.var(logits[0] - logits[1]) == pytest.approx(1.5 * 0.8, rel=0.03)


def test_lbfgs_and_adam_meet(key):
    data = sample(SMALL, 30, key)
    exact = fit(SMALL, data, LBFGS(tolerance=1e-7), test_sequences=2000)
    adam = fit(SMALL, data, Adam(steps=1500), test_sequences=2000)
    assert exact.converged
    assert adam.converged
    assert adam.train_loss == pytest.approx(exact.train_loss, rel=1e-6)
    assert np.linalg.norm(adam.S - exact.S) < 1e-2 * np.linalg.norm(exact.S)


def test_a_minimum_is_a_minimum(key, rng):
    data = sample(SMALL, 20, key)
    result = fit(SMALL, data, LBFGS(tolerance=1e-7), test_sequences=2000)
    values, frame = np.linalg.eigh(result.S)
    factor = frame * np.sqrt(np.maximum(values, 0) * 20)
    lowest = plain_objective(SMALL, data.tokens, data.labels, factor)
    assert lowest == pytest.approx(result.train_loss * 400, rel=1e-9)
    for _ in range(5):
        nearby = factor + 1e-2 * rng.normal(size=factor.shape)
        assert plain_objective(SMALL, data.tokens, data.labels, nearby) > lowest


def test_measured_numbers(key):
    data = sample(SMALL, 30, key)
    result = fit(SMALL, data, test_sequences=20_000)
    assert result.q == pytest.approx(np.sum(result.S**2) / 30)
    assert result.m == pytest.approx(np.sum(result.S * data.target) / 30)
    assert pytest.approx(np.sum(data.target**2) / 30) == result.Q0
    assert result.mse == pytest.approx(np.sum((result.S - data.target) ** 2) / 30)
    assert result.eigenvalues.min() > -1e-12
    direct = SMALL.sample_ratio * result.train_error + 0.1 * np.trace(result.S) / 30
    assert result.train_loss == pytest.approx(direct, rel=1e-9)
    assert result.test_error > result.test_error_clean > 0
    assert result.test_error_std_error < 0.02 * result.test_error


def test_narrow_layer_has_its_rank_at_most(key):
    problem = SMALL.replace(kappa=0.2)
    result = fit(problem, sample(problem, 30, key), test_sequences=2000)
    assert result.width == 6
    assert result.rank_ratio <= 0.2 + 1e-12


def test_huge_penalty_collapses_the_layer(key):
    problem = SMALL.replace(weight_decay=20.0)
    result = fit(problem, sample(problem, 20, key), test_sequences=2000)
    assert result.rank_ratio == 0.0
    assert result.q < 1e-8


def test_same_key_same_layer_other_key_another(key):
    first, again = (fit(SMALL, sample(SMALL, 20, key), test_sequences=2000) for _ in range(2))
    other = fit(SMALL, sample(SMALL, 20, jax.random.key(8)), test_sequences=2000)
    assert first.train_loss == again.train_loss
    assert first.test_error == again.test_error
    assert first.train_loss != other.train_loss


def test_given_target_matrix_is_the_one_learned(key, rng):
    factor = rng.normal(size=(30, 6)) / np.sqrt(10)
    problem = Problem(target=from_matrix(factor @ factor.T), sample_ratio=3.0, noise=0.0)
    result = fit(problem.replace(weight_decay=0.01), sample(problem, 30, key), test_sequences=2000)
    assert result.converged
    assert result.mse < 0.02 * result.Q0


def test_progress_is_reported_and_unconverged_said(key):
    seen = []
    data = sample(SMALL, 20, key)
    result = fit(SMALL, data, LBFGS(max_evaluations=5), test_sequences=2000, progress=seen.append)
    assert not result.converged
    assert len(seen) == result.evaluations <= 10
    assert "gradient" in seen[-1].note


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda key: sample(SMALL, 1, key), "dim must be a whole number of at least 2"),
        (lambda key: sample(SMALL.replace(alpha=1e-4), 10, key), "raise dim or sample_ratio"),
        (lambda key: sample(SMALL.replace(kappa0=0.01), 20, key), "raise dim to 100 or more"),
        (lambda key: sample(SMALL, 200_000, key), "GiB; lower dim, alpha or kappa"),
        (lambda key: fit(SMALL.replace(tokens=3), sample(SMALL, 20, key)), "must agree, got 3"),
        (lambda key: fit(SMALL.replace(noise=0.1), sample(SMALL, 20, key)), "noise of problem"),
        (lambda key: fit(SMALL.replace(alpha=2.0), sample(SMALL, 20, key)), "sample_ratio of"),
        (lambda key: fit(SMALL.replace(kappa0=0.1), sample(SMALL, 20, key)), "target of problem"),
        (lambda key: fit(SMALL.replace(target_beta=5.0), sample(SMALL, 20, key)), "target_beta of"),
        (lambda key: fit(SMALL.replace(weight_decay=0.0), sample(SMALL, 20, key)), "be positive"),
        (lambda key: sample(SMALL.replace(kappa=1e9), 20, key), "lower dim, alpha or kappa"),
        (lambda key: sample(SMALL.replace(kappa0=1e9), 20, key), "lower dim, alpha or kappa"),
        (lambda key: fit(SMALL, 3), "data must be a Data, got 3"),
        (lambda key: fit(3, sample(SMALL, 20, key)), "problem must be a Problem, got 3"),
        (lambda key: fit(SMALL, sample(SMALL, 20, key), Adam), "method must be a LBFGS or Adam"),
        (lambda key: sample(3, 20, key), "problem must be a Problem, got 3"),
        (lambda key: LBFGS(tolerance=0.0), "tolerance must be positive"),
        (lambda key: Adam(steps=0), "steps must be a whole number of at least 1"),
    ],
)
def test_bad_input_is_refused(call, words, key):
    with pytest.raises(ValueError, match=words):
        call(key)


@pytest.mark.slow
def test_lbfgs_reaches_the_minimum_to_eight_digits_in_seconds(key):
    """The noiseless reference problem at d = 100; the lowest value is that of a longer run."""
    problem = Problem(noise=0.0)
    data = sample(problem, 100, key)
    fit(problem, data, LBFGS(max_evaluations=2), test_sequences=2000)  # compilation
    default = fit(problem, data, test_sequences=2000)
    lowest = fit(problem, data, LBFGS(tolerance=1e-8), test_sequences=2000)
    assert default.converged
    assert lowest.relative_gradient < default.relative_gradient
    gap = default.train_loss / lowest.train_loss - 1
    assert 0 <= gap <= 1e-8
    assert default.seconds <= 15
