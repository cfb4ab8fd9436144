"""Random problems over the whole range: how many converge, and which do not."""

import time
from typing import Any

import numpy as np

from attnlaw import Problem, solve

CLAIM = (
    "Of 200 random problems (α log-uniform in [0.02, 50], λ in [1e-6, 3], κ0 in [0.02, 3], Δ in "
    "[0, 3], T in {2, 3, 4}, β and β0 in [0.3, 3]) at least 199 converge, collapsed ones included; "
    "of 1,000 more those that do not are listed with their reason."
)
BLOCK = 50
MAIN_BLOCKS, MORE_BLOCKS = 4, 20
MORE_ACCURACY = 1e-2
LEAST_SHARE = 199 / 200
CASES = {
    **{f"main {seed}": {"seed": seed} for seed in range(MAIN_BLOCKS)},
    **{
        f"more {seed}": {"seed": seed, "accuracy": MORE_ACCURACY}
        for seed in range(MAIN_BLOCKS, MAIN_BLOCKS + MORE_BLOCKS)
    },
}


def random_problem(rng: np.random.Generator) -> dict[str, Any]:
    """Fields of one random problem."""

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return {
        "sample_ratio": log_uniform(0.02, 50),
        "weight_decay": log_uniform(1e-6, 3),
        "target_rank_ratio": log_uniform(0.02, 3),
        "noise": float(rng.uniform(0, 3)),
        "tokens": int(rng.integers(2, 5)),
        "beta": log_uniform(0.3, 3),
        "target_beta": log_uniform(0.3, 3),
    }


def measure(seed: int, count: int = BLOCK, accuracy: float = 3e-3) -> dict[str, Any]:
    """Solve a block of random problems; what failed, what missed the accuracy, what was slow."""
    rng = np.random.default_rng([2509, seed])
    lines, seconds = [], []
    for index in range(count):
        fields = random_problem(rng)
        began = time.perf_counter()
        solution = solve(Problem().replace(**fields), accuracy=accuracy, throw=False)
        seconds.append(time.perf_counter() - began)
        verdict = "" if solution.converged else f", not converged: {solution.reason}"
        print(f"  problem {index + 1}/{count}: {seconds[-1]:.1f} s{verdict}", flush=True)
        lines.append(
            {
                "index": index,
                "fields": fields,
                "seconds": round(seconds[-1], 2),
                "converged": solution.converged,
                "reason": solution.reason,
                "phase": solution.phase if solution.rank_ratio == 0 else "live",
                "residual": solution.residual,
                "largest_jump": solution.largest_jump,
                "two_minima_fraction": solution.two_minima_fraction,
                "integration_error": solution.integration_error,
                "consistency_gap": solution.consistency_gap,
                "start": solution.start,
            }
        )
    told = [
        line
        for line in lines
        if not line["converged"] or line["integration_error"] > accuracy or line["seconds"] > 60
    ]
    return {
        "count": len(lines),
        "accuracy": accuracy,
        "converged": sum(line["converged"] for line in lines),
        "collapsed": sum(line["phase"] == "collapsed" for line in lines),
        "median_seconds": float(np.median(seconds)),
        "largest_consistency_gap": max(
            line["consistency_gap"] for line in lines if line["converged"]
        ),
        "missed_accuracy": sum(
            line["converged"] and line["integration_error"] > accuracy for line in lines
        ),
        "told": told,
    }


def judge(cases: dict[str, Any]) -> dict[str, Any]:
    """The share of the main problems that converged; failures of all, with their reasons."""

    def total(kind: str, key: str) -> int:
        return sum(case[key] for name, case in cases.items() if name.startswith(kind))

    failures = [
        {"case": name, **line}
        for name, case in cases.items()
        for line in case["told"]
        if not line["converged"]
    ]
    result = {
        kind: {key: total(kind, key) for key in ("count", "converged", "collapsed",
                                                 "missed_accuracy")}
        for kind in ("main", "more")
        if total(kind, "count")
    }  # fmt: skip
    holds = result["main"]["converged"] >= LEAST_SHARE * result["main"]["count"]
    return {"holds": holds, "result": result, "failures": failures}
