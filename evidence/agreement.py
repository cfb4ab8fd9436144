"""Trained layers approach the theory as the dimension grows."""

from typing import Any

import numpy as np

from attnlaw import Problem, compare
from attnlaw.comparison import quantity

CLAIM = (
    "Relative gap between trained layers and the theory at the drawn target's eigenvalues, in "
    "train_loss and test_error: at d=200 (4 draws) at most half of that at d=50 (8 draws), or "
    "below two standard errors."
)
ROWS: dict[str, dict[str, Any]] = {
    "noiseless": {"noise": 0.0},
    "noisy": {},
    "three tokens": {
        "alpha": 0.5, "kappa0": 0.25, "weight_decay": 0.05, "noise": 0.2, "tokens": 3,
    },
}  # fmt: skip
KEYS = ("train_loss", "test_error")
CASES = {
    f"{row}, d={dim}": {"row": row, "dim": dim, "repeats": repeats}
    for dim, repeats in ((50, 8), (200, 4))
    for row in ROWS
}


def measure(row: str, dim: int, repeats: int, test_sequences: int = 200_000) -> dict[str, Any]:
    """Relative gaps of one row at one dimension, one for each draw."""
    problem = Problem().replace(**ROWS[row])
    found = compare(problem, dim, repeats, seed=100 + dim, test_sequences=test_sequences)
    gaps = {
        key: [
            quantity(fit, key) / quantity(solution, key) - 1
            for fit, solution in zip(found.fits, found.theory_at_target, strict=True)
        ]
        for key in KEYS
    }
    return {"gaps": gaps, "converged": found.converged}


def judge(cases: dict[str, Any]) -> dict[str, Any]:
    """Compare the mean gaps of the smallest and the largest dimension, row by row."""
    dims = sorted({case["arguments"]["dim"] for case in cases.values()})
    lines = []
    for row in sorted({case["arguments"]["row"] for case in cases.values()}):
        small, large = (cases[f"{row}, d={dim}"] for dim in (dims[0], dims[-1]))
        for key in KEYS:
            means = [float(np.mean(case["gaps"][key])) for case in (small, large)]
            error = float(np.std(large["gaps"][key], ddof=1) / len(large["gaps"][key]) ** 0.5)
            holds = abs(means[1]) <= max(abs(means[0]) / 2, 2 * error)
            lines.append(
                {
                    "row": row,
                    "quantity": key,
                    f"gap_d{dims[0]}": means[0],
                    f"gap_d{dims[-1]}": means[1],
                    "std_error": error,
                    "holds": holds,
                }
            )
    converged = all(case["converged"] for case in cases.values())
    return {"holds": converged and all(line["holds"] for line in lines), "result": lines}
