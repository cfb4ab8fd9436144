"""Error bars against the truth: how often the stated error covers."""

from typing import Any

import jax
import numpy as np

from attnlaw import Problem, solve
from attnlaw.theory.line import solve_line
from attnlaw.theory.search import Averages

CLAIM = (
    "Over 50 independent seeds the true test error (from 2^17 points in each of eight other "
    "scrambles) lies within two stated errors of the predicted one at least 90 % of the time, for "
    "each problem."
)
PROBLEMS: dict[str, dict[str, Any]] = {
    "default": {},
    "noiseless": {"noise": 0.0},
    "noiseless, little decay": {"noise": 0.0, "weight_decay": 1e-3},
    "few samples": {"alpha": 0.1, "weight_decay": 0.01},
    "three tokens": {
        "alpha": 0.5, "kappa0": 0.25, "weight_decay": 0.05, "noise": 0.2, "tokens": 3,
    },
    "jumps": {"alpha": 0.3, "weight_decay": 0.005, "noise": 2.0, "beta": 2.0},
}  # fmt: skip
CASES = {name: {"name": name} for name in PROBLEMS}
TRUTH_POINTS, TRUTH_SEED = 2**17, 10**6
LEAST_SHARE = 0.9


def measure(name: str, seeds: int = 50, truth_points: int = TRUTH_POINTS) -> dict[str, Any]:
    """Share of seeds whose stated error covers, and the deviations in stated errors."""
    problem = Problem().replace(**PROBLEMS[name])
    with jax.enable_x64(True):
        points = Averages(problem.attention.constraints, truth_points, TRUTH_SEED)
        (truth,) = solve_line([problem], points)
    deviations, converged = [], truth.solution.converged
    for seed in range(seeds):
        solution = solve(problem, seed=seed, throw=False)
        stated = solution.integration_error * solution.test_error
        deviations.append((solution.test_error - truth.solution.test_error) / stated)
        converged &= solution.converged
    share = float(np.mean(np.abs(deviations) <= 2))
    return {
        "test_error": truth.solution.test_error,
        "two_minima_fraction": truth.solution.two_minima_fraction,
        "share": share,
        "root_mean_square": float(np.sqrt(np.mean(np.square(deviations)))),
        "converged": bool(converged),
    }


def judge(cases: dict[str, Any]) -> dict[str, Any]:
    """Every problem converged everywhere and is covered often enough."""
    result = {name: case["share"] for name, case in cases.items()}
    holds = all(case["converged"] and case["share"] >= LEAST_SHARE for case in cases.values())
    return {"holds": holds, "result": result}
