"""Warm timings of the main verbs; run with `make bench`."""

import jax
import pytest

from attnlaw import Atoms, Problem, sample, solve
from attnlaw.training.objective import value_and_gradient

ROUNDS = {"rounds": 5, "warmup_rounds": 1}
PROBLEMS = {
    "T=2": (Problem(), 1e-3),
    "T=3": (Problem().replace(tokens=3), 1e-3),
    "T=5": (Problem().replace(tokens=5), 3e-3),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_solve(benchmark, name):
    problem, accuracy = PROBLEMS[name]
    benchmark.pedantic(solve, args=(problem,), kwargs={"accuracy": accuracy}, **ROUNDS)


def test_solve_at_a_drawn_target(benchmark):
    with jax.enable_x64(True):
        data = sample(Problem(), 100, jax.random.key(0))
    problem = Problem(target=Atoms(data.target_eigenvalues))
    benchmark.pedantic(solve, args=(problem,), **ROUNDS)


def test_training_gradient(benchmark):
    problem = Problem()
    with jax.enable_x64(True):
        data = sample(problem, 100, jax.random.key(0))
        factor = jax.random.normal(jax.random.key(1), (100, 100), dtype=float)

        def gradient():
            return value_and_gradient(factor, data.chunks, problem)[1].block_until_ready()

        benchmark.pedantic(gradient, rounds=20, warmup_rounds=2)
