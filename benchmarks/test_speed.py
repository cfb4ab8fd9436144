"""Warm timings of the main verbs, and whole processes; run with `make bench`."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from attnlaw import Atoms, PowerLaw, Problem, curve, sample, solve
from attnlaw.training.objective import value_and_gradient

ROUNDS = {"rounds": 5, "warmup_rounds": 1}
PROBLEMS = {
    "T=2": (Problem(), 1e-3),
    "T=3": (Problem().replace(tokens=3), 1e-3),
    "T=4": (Problem().replace(tokens=4), 1e-3),
    "T=5": (Problem().replace(tokens=5), 3e-3),
}
LAUNCH = "from attnlaw.cli.main import main; main()"


@pytest.mark.parametrize("name", PROBLEMS)
def test_solve(benchmark, name):
    problem, accuracy = PROBLEMS[name]
    benchmark.pedantic(solve, args=(problem,), kwargs={"accuracy": accuracy}, **ROUNDS)


@pytest.mark.parametrize("dim", [100, 100_000])
def test_solve_a_power_law(benchmark, dim):
    benchmark.pedantic(solve, args=(Problem(target=PowerLaw(1.0, dim)),), **ROUNDS)


def test_solve_at_a_drawn_target(benchmark):
    with jax.enable_x64(True):
        data = sample(Problem(), 100, jax.random.key(0))
    problem = Problem(target=Atoms(data.target_eigenvalues))
    benchmark.pedantic(solve, args=(problem,), **ROUNDS)


def test_curve_of_fifty_points(benchmark):
    alphas = np.geomspace(0.05, 4, 50)
    benchmark.pedantic(curve, args=(Problem(),), kwargs={"alpha": alphas}, **ROUNDS)


def test_training_gradient(benchmark):
    problem = Problem()
    with jax.enable_x64(True):
        data = sample(problem, 100, jax.random.key(0))
        factor = jax.random.normal(jax.random.key(1), (100, 100), dtype=float)

        def gradient():
            return value_and_gradient(factor, data.chunks, problem)[1].block_until_ready()

        benchmark.pedantic(gradient, rounds=20, warmup_rounds=2)


def launch(*arguments, cache):
    """Run the command line in a process of its own."""
    environment = {**os.environ, "ATTNLAW_COMPILE_CACHE": str(cache)}
    command = [sys.executable, "-c", LAUNCH, *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def test_process_predict_first_time(benchmark, tmp_path):
    count = iter(range(100))

    def fresh():
        launch("predict", cache=tmp_path / str(next(count)))

    benchmark.pedantic(fresh, rounds=3)


def test_process_predict_later(benchmark, tmp_path):
    benchmark.pedantic(launch, args=("predict",), kwargs={"cache": tmp_path}, **ROUNDS)


def test_process_help(benchmark):
    benchmark.pedantic(launch, args=("--help",), kwargs={"cache": "off"}, **ROUNDS)


def test_process_import(benchmark):
    command = [sys.executable, "-c", "import attnlaw"]
    benchmark.pedantic(lambda: subprocess.run(command, check=True), **ROUNDS)
