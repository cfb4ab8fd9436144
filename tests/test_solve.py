"""`solve` against the reference values, limits and its own internal checks."""

import pickle

import jax
import numpy as np
import pytest

import attnlaw
from attnlaw import ConvergenceError, MarchenkoPastur, Overlaps, Problem, critical_weight_decay
from attnlaw.theory.kernel import run

DEFAULT = Problem()

# α, κ0, λ̃, Δ, T: Φ, test error, train error, q, m, rank, η, δ, ε
REFERENCE = [
    (
        DEFAULT.replace(noise=0.0),
        (0.05956, 0.01164, 0.00817, 0.8688, 1.1367, 0.4923, 0.8276, 0.1024, 0.1799),
    ),
    (DEFAULT, (0.11109, 0.09857, 0.06029, 0.7934, 1.0609, 0.5741, 0.7725, 0.3503, 0.1887)),
    (
        DEFAULT.replace(alpha=0.5, kappa0=0.25, weight_decay=0.05, noise=0.2, tokens=3),
        (0.04608, 0.06842, 0.04648, 0.9703, 1.0921, 0.4757, 0.9113, 0.2023, 0.1044),
    ),
]


def numbers(solution):
    return (
        solution.train_loss,
        solution.test_error,
        solution.train_error,
        solution.overlaps.q,
        solution.overlaps.m,
        solution.rank_ratio,
        solution.scale,
        solution.noise_level,
        solution.threshold,
    )


@pytest.mark.parametrize(("problem", "expected"), REFERENCE)
def test_reference_values(problem, expected):
    solution = attnlaw.solve(problem, accuracy=1e-3)
    assert solution.converged
    assert solution.integration_error <= 1e-3
    np.testing.assert_allclose(numbers(solution), expected, rtol=5e-3)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.1, {"q": 0.6384, "m": 0.6614, "sigma": 18.89, "scale": 0.779, "noise_level": 1.748,
               "threshold": 1.522}),
        (0.5, {"q": 1.4647, "m": 1.3815, "sigma": 2.310, "scale": 0.9425, "noise_level": 0.574,
               "threshold": 0.0684, "test_error": 0.1362, "train_loss": 0.02336}),
    ],
)  # fmt: skip
def test_published_rows_to_their_own_noise(alpha, expected):
    solution = attnlaw.solve(DEFAULT.replace(alpha=alpha, weight_decay=0.01))
    assert solution.converged
    found = {name: getattr(solution, name, None) for name in expected}
    found |= {name: value for name, value in solution.overlaps._asdict().items() if name in found}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1.5e-2), name


@pytest.mark.parametrize(
    "problem",
    [
        DEFAULT,
        DEFAULT.replace(noise=0.0, alpha=3.0),
        DEFAULT.replace(beta=2.0, target_beta=0.5, kappa=0.75),
        DEFAULT.replace(kappa0=1.5, weight_decay=0.5),
        DEFAULT.replace(weight_decay=1e-3, alpha=0.4),
    ],
)
def test_direct_training_loss_agrees_with_phi(problem):
    """(4.3): Φ = α E ℓ(h*) + λ̃ Tr S/d."""
    solution = attnlaw.solve(problem, accuracy=2e-3)
    assert solution.converged
    assert solution.consistency_gap <= 3 * max(solution.integration_error, 1e-9)


def test_small_temperature_meets_the_linear_ridge_like_limit():
    """β = β0 → 0 with λ ∝ β²: the solution tends to a limit that does not depend on β."""
    found = [
        attnlaw.solve(DEFAULT.replace(beta=b, target_beta=b, weight_decay=0.3 * b**2)).overlaps
        for b in (0.02, 0.01)
    ]
    assert found[0].q == pytest.approx(found[1].q, rel=2e-3)
    assert found[0].m == pytest.approx(found[1].m, rel=2e-3)
    assert found[0].sigma * 0.02**2 == pytest.approx(found[1].sigma * 0.01**2, rel=2e-3)


def test_only_the_ratio_of_temperature_and_scale_matters():
    """A layer at temperature β learning target β0 S0 is the layer at 1 with S rescaled."""
    hot = attnlaw.solve(DEFAULT.replace(beta=2.0, weight_decay=0.2), seed=5)
    plain = attnlaw.solve(DEFAULT.replace(beta=1.0, weight_decay=0.1), seed=5)
    assert hot.test_error == pytest.approx(plain.test_error, rel=2e-3)
    assert 2 * hot.overlaps.m == pytest.approx(plain.overlaps.m, rel=2e-3)
    assert 4 * hot.overlaps.q == pytest.approx(plain.overlaps.q, rel=2e-3)


def test_width_enters_through_the_scaled_penalty_only():
    narrow = attnlaw.solve(DEFAULT.replace(kappa=0.64, weight_decay=0.125))
    square = attnlaw.solve(DEFAULT)
    assert narrow.train_loss == pytest.approx(square.train_loss, rel=1e-8)
    assert narrow.width_sufficient
    assert not attnlaw.solve(DEFAULT.replace(kappa=0.3)).width_sufficient


@pytest.mark.parametrize(("alpha", "critical"), [(0.05, 0.3209), (0.2, 0.8610), (1.0, 3.618)])
def test_critical_weight_decay_is_where_the_rank_vanishes(alpha, critical):
    problem = DEFAULT.replace(alpha=alpha)
    found = critical_weight_decay(problem)
    assert found == pytest.approx(critical, rel=5e-4)
    beyond = attnlaw.solve(problem.replace(weight_decay=1.02 * found))
    assert (beyond.phase, beyond.rank_ratio, beyond.overlaps.q) == ("collapsed", 0.0, 0.0)
    ranks = [
        attnlaw.solve(problem.replace(weight_decay=share * found)).rank_ratio
        for share in (0.9, 0.97, 0.99)
    ]
    assert ranks[0] > ranks[1] > ranks[2] > 0
    # the edge of μ_δ is a square root: the rank vanishes like (λ_c − λ)^{3/2}
    slope = np.log(ranks[1] / ranks[2]) / np.log(3)
    assert slope == pytest.approx(1.5, abs=0.15)


def test_collapsed_solution_has_the_loss_and_error_of_uniform_attention():
    problem = DEFAULT.replace(weight_decay=10.0)
    solution = attnlaw.solve(problem, accuracy=1e-4)
    assert solution.converged
    assert solution.start == "collapsed"
    assert solution.fixed_points_found == 1
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3, 400_000)) * np.sqrt(problem.score_variance)
    rows = np.stack([np.sqrt(2) * z[0] - z[1], np.sqrt(2) * z[2] - z[1]])
    error = 2 * ((1 / (1 + np.exp(-rows)) - 0.5) ** 2).sum(axis=0)
    assert solution.test_error == pytest.approx(error.mean(), rel=3e-3)
    assert solution.train_error == pytest.approx(solution.test_error, rel=1e-3)
    assert solution.train_loss == pytest.approx(solution.train_error, rel=1e-12)
    assert solution.mse == problem.target_power


@pytest.mark.parametrize(
    ("change", "phase"),
    [
        ({"alpha": 0.1, "weight_decay": 1.0}, "collapsed"),
        ({}, "bulk"),
        ({"alpha": 20.0, "kappa0": 0.1, "weight_decay": 3.0}, "recovered"),
        ({"alpha": 2.0, "kappa0": 0.05, "weight_decay": 0.02}, "outliers"),
    ],
)
def test_phases(change, phase):
    assert attnlaw.solve(DEFAULT.replace(**change)).phase == phase


def test_many_samples_recover_a_noiseless_target():
    solution = attnlaw.solve(DEFAULT.replace(alpha=200.0, noise=0.0, weight_decay=0.01))
    assert solution.mse < 1e-4
    assert solution.rank_ratio == pytest.approx(0.5, abs=1e-6)
    assert solution.scale == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
def test_a_sharp_noiseless_problem_is_reached_from_fewer_samples():
    """No cold start leads there, but the solutions of few samples do, step by step."""
    change = {"target_beta": 4.168, "noise": 0.0, "kappa0": 0.0043737, "weight_decay": 0.011553}
    problem = DEFAULT.replace(**change)
    solution = attnlaw.solve(problem.replace(alpha=0.10921))
    alphas = np.geomspace(0.03, 0.10921, 14)
    start = attnlaw.solve(problem.replace(alpha=alphas[0])).overlaps
    for alpha in alphas[1:]:
        reached = attnlaw.solve(problem.replace(alpha=float(alpha)), start=start)
        start = reached.overlaps
    assert solution.test_error == pytest.approx(reached.test_error, rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1e-5, 1e-6, 3e-8])
@pytest.mark.parametrize("seed", [0, 1])
def test_noiseless_error_falls_like_the_square_of_the_decay(decay, seed):
    """Δ = 0 beyond perfect recovery: δ, ε ∝ λ, so test error and MSE ∝ λ² as λ → 0."""
    problem = DEFAULT.replace(noise=0.0)
    near, far = (
        attnlaw.solve(problem.replace(weight_decay=own), seed=seed) for own in (decay, 1e-4)
    )
    for name in ("test_error", "test_error_clean", "mse"):
        ratio = getattr(near, name) / decay**2 / (getattr(far, name) / 1e-8)
        assert ratio == pytest.approx(1.0, abs=3e-3), name
    assert near.overlaps.misalignment / decay**2 == pytest.approx(
        far.overlaps.misalignment / 1e-8, rel=2e-3
    )


@pytest.mark.slow
def test_noiseless_curve_over_decades_of_decay():
    """A line in λ over seven decades, another β than the target's, many samples."""
    problem = DEFAULT.replace(noise=0.0, alpha=50.0, beta=3.0, target_beta=0.3)
    line = attnlaw.curve(problem, weight_decay=np.geomspace(1e-8, 1e-1, 8))
    assert line.converged
    ratio = line.test_error / line.values**2
    np.testing.assert_allclose(ratio[:4], ratio[0], rtol=3e-3)
    assert (np.diff(line.test_error) > 0).all()


def test_what_is_left_of_the_residual_is_in_the_error_bars(monkeypatch):
    """A search that stops early says by how much it may be off."""
    exact = attnlaw.solve(DEFAULT)
    monkeypatch.setattr("attnlaw.theory.kernel.RESIDUAL_TOLERANCE", 0.05)
    monkeypatch.setattr("attnlaw.theory.kernel.LARGEST_TOLERANCE", 0.05)
    monkeypatch.setattr("attnlaw.theory.kernel.INNER_TOLERANCE", 0.02)
    jax.clear_caches()
    rough = attnlaw.solve(DEFAULT, accuracy=0.1)
    jax.clear_caches()
    assert rough.residual > 1e-4
    gap = abs(rough.overlaps.q - exact.overlaps.q)
    assert gap < 3 * rough.standard_errors["q"]


def test_a_start_from_a_neighbour_gives_the_same_answer():
    neighbour = attnlaw.solve(DEFAULT.replace(alpha=1.1))
    cold, warm = attnlaw.solve(DEFAULT), attnlaw.solve(DEFAULT, start=neighbour.overlaps)
    assert warm.start == "given"
    assert warm.test_error == pytest.approx(cold.test_error, rel=1e-6)


def test_atoms_of_the_law_s_quantiles_approach_the_law(key):
    values = np.linalg.eigvalsh(np.asarray(MarchenkoPastur(0.5).draw(800, key)))
    atoms = attnlaw.Atoms(np.where(values > 1e-9, values, 0.0))
    close = attnlaw.solve(DEFAULT.replace(target=atoms), accuracy=2e-3)
    exact = attnlaw.solve(DEFAULT, accuracy=2e-3)
    assert close.train_loss == pytest.approx(exact.train_loss, rel=0.02)
    assert close.rank_ratio == pytest.approx(exact.rank_ratio, rel=0.02)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_nearby_ones():
    first, again, other = (attnlaw.solve(DEFAULT, seed=seed) for seed in (0, 0, 1))
    assert numbers(first) == numbers(again)
    assert first.test_error != other.test_error
    spread = abs(first.test_error - other.test_error) / first.test_error
    assert spread < 5 * first.integration_error


def test_unconverged_is_said_and_carries_the_solution(monkeypatch):
    from attnlaw.theory import kernel as module

    monkeypatch.setattr(module, "RESIDUAL_TOLERANCE", 1e-30)
    monkeypatch.setattr(module, "LARGEST_TOLERANCE", 1e-30)
    marked = attnlaw.solve(DEFAULT, throw=False)
    assert not marked.converged
    assert "residual" in marked.reason
    with pytest.raises(ConvergenceError, match="try a start from a neighbouring problem") as told:
        attnlaw.solve(DEFAULT)
    assert told.value.solution.test_error == marked.test_error
    again = pickle.loads(pickle.dumps(told.value))
    assert again.solution.test_error == marked.test_error


def test_start_far_away_still_finds_the_solution():
    far = Overlaps(1e-3, 1e-4, 1e3)
    assert attnlaw.solve(DEFAULT, start=far).test_error == pytest.approx(0.0985, rel=5e-3)


@pytest.mark.single
def test_the_caller_s_precision_is_left_alone():
    before = jax.numpy.ones(1).dtype
    attnlaw.solve(DEFAULT)
    assert jax.numpy.ones(1).dtype == before == jax.numpy.float32
    assert attnlaw.solve(DEFAULT).residual < 1e-8


@pytest.mark.parametrize(
    "change",
    [
        {"noise": 0.0, "weight_decay": 1e-3},
        {"noise": 0.0, "alpha": 20.0, "weight_decay": 1e-3},
        {"noise": 0.0, "alpha": 2.0, "weight_decay": 1e-4},
        {"alpha": 0.2, "weight_decay": 1e-3},
        {"alpha": 0.1, "weight_decay": 1e-6},
        {"alpha": 0.02, "weight_decay": 1e-5, "beta": 3.0, "target_beta": 0.3},
    ],
)
def test_small_weight_decay_converges_with_and_without_noise(change):
    solution = attnlaw.solve(DEFAULT.replace(**change), accuracy=3e-3)
    assert solution.converged
    assert solution.consistency_gap <= 3 * solution.integration_error + 1e-9
    assert solution.test_error < 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 1000.0, "weight_decay": 1e-4},
        {"alpha": 10.0, "weight_decay": 1e-8},
        {"alpha": 1.0, "weight_decay": 1e-6},
        {"alpha": 100.0, "weight_decay": 1e-6},
    ],
)
def test_noiseless_labels_are_recovered_at_tiny_weight_decay(change):
    """Φ → λ̃ Tr S0/d, because S = S0 fits every label."""
    solution = attnlaw.solve(DEFAULT.replace(noise=0.0, **change), accuracy=3e-3)
    assert solution.converged
    assert solution.mse < 1e-8
    expected = change["weight_decay"] * DEFAULT.target.mean
    assert solution.train_loss == pytest.approx(expected, rel=0.02)


def test_a_fixed_point_above_simple_maps_is_not_an_answer(monkeypatch):
    from attnlaw.theory import assemble

    # as if S = 0 or S = S0 attained less than half of the training loss found
    monkeypatch.setattr(assemble, "ABOVE", -0.6)
    found = attnlaw.solve(DEFAULT, accuracy=3e-3, throw=False)
    assert not found.converged
    assert "the minimum was not found" in found.reason


def test_jumps_are_reported_and_bound_the_residual():
    problem = DEFAULT.replace(alpha=0.3, weight_decay=5e-3, noise=2.0, beta=2.0)
    solution = attnlaw.solve(problem, accuracy=3e-3)
    assert solution.converged
    assert solution.two_minima_fraction > 0.05
    assert 0 < solution.largest_jump < 0.02
    assert solution.residual <= max(1e-6, 2 * solution.largest_jump)
    assert attnlaw.solve(DEFAULT, accuracy=3e-3).largest_jump == 0


@pytest.mark.slow
def test_integration_error_falls_faster_than_monte_carlo():
    """Error of the test error against points: the slope is near −0.9 (−1/2 for random points)."""
    from attnlaw.theory.line import solve_line
    from attnlaw.theory.search import Averages

    counts = [2**k for k in range(8, 13)]
    errors = []
    for count in counts:
        runs = [solve_line([DEFAULT], Averages(2, count, seed))[0].solution for seed in range(3)]
        errors.append(np.sqrt(np.mean([run.standard_errors["test_error"] ** 2 for run in runs])))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope < -0.7


@pytest.mark.parametrize(("alpha", "decay"), [(0.05, 3e-3), (0.05, 1e-3), (0.01, 1e-3)])
def test_small_decay_is_reached_from_larger_ones(alpha, decay):
    solution = attnlaw.solve(DEFAULT.replace(alpha=alpha, weight_decay=decay), accuracy=3e-3)
    assert solution.converged
    assert solution.residual <= 1e-6
    assert solution.overlaps.q < 2 * DEFAULT.target_power


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match="tokens must be at most 6 in the theory, got 7"):
        attnlaw.solve(DEFAULT.replace(tokens=7))


def test_numbers_of_any_kind_share_one_compiled_program():
    attnlaw.solve(Problem(sample_ratio=1.0, noise=0.5), accuracy=3e-3)
    programs = run._cache_size()
    attnlaw.solve(Problem(sample_ratio=np.float32(1.5), noise=1), accuracy=3e-3)
    attnlaw.solve(Problem(sample_ratio=2, noise=np.float64(0.25)), accuracy=3e-3)
    assert run._cache_size() == programs
