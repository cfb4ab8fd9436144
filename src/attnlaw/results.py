"""Records as JSON objects, xarray datasets and files: the one room that knows xarray."""

import dataclasses
import json
import math
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw.problem import Problem
from attnlaw.records import SCHEMA

if TYPE_CHECKING:
    import xarray as xr

    from attnlaw.theory.bayes import BayesOptimal
    from attnlaw.theory.curve import Curve
    from attnlaw.theory.solution import Solution
    from attnlaw.theory.thresholds import Thresholds
    from attnlaw.training.fit import Fit

SOLUTION_KEYS = (
    "train_loss",
    "train_error",
    "test_error",
    "test_error_clean",
    "mse",
    "q",
    "m",
    "sigma",
    "misalignment",
    "q_hat",
    "m_hat",
    "sigma_hat",
    "scale",
    "noise_level",
    "threshold",
    "trace",
    "rank_ratio",
    "phase",
    "width_sufficient",
    "weight_decay",
    "weight_decay_scaled",
    "converged",
    "residual",
    "tolerance",
    "iterations",
    "integration_error",
    "fixed_points_found",
    "start",
    "two_minima_fraction",
    "largest_jump",
    "replicon",
    "jump_weight",
    "stable",
)
FIT_KEYS = (
    "train_loss",
    "train_error",
    "test_error",
    "test_error_clean",
    "q",
    "m",
    "Q0",
    "rank_ratio",
    "converged",
    "seconds",
    "test_error_std_error",
    "relative_gradient",
    "evaluations",
)
BAYES_MEANINGS = {
    "mmse": "least ‖Ŝ − S0‖²_F/d of any estimator Ŝ (9.2)",
    "q": "power of the posterior mean of S0, and its overlap with S0",
    "noise_level": "δ of the noisy map S0 + δZ that the data are worth",
    "test_error": "squared error of attention at the posterior mean, noisy labels",
    "test_error_clean": "squared error of attention at the posterior mean, noiseless labels",
}
MEANINGS = {
    "train_loss": "training objective over d², penalty included (4.2)",
    "train_error": "mean loss of a training sequence",
    "test_error": "squared error of attention, noisy labels (4.4)",
    "test_error_clean": "squared error of attention, noiseless labels (4.4)",
    "mse": "squared distance of S to the target, ‖S − S0‖²_F/d (4.4)",
    "q": "power of S, Tr S²/d",
    "m": "overlap of S with the target, Tr S S0/d",
    "Q0": "power of the drawn target, Tr S0²/d",
    "sigma": "response of the scores",
    "misalignment": "1 − ρ², ρ the cosine of S and S0",
    "q_hat": "noise in S, conjugate of q",
    "m_hat": "signal in S, conjugate of m",
    "sigma_hat": "curvature, conjugate of sigma",
    "scale": "η of S = η·ReLU(S0 + δZ − ε)",
    "noise_level": "δ of S = η·ReLU(S0 + δZ − ε)",
    "threshold": "ε of S = η·ReLU(S0 + δZ − ε)",
    "trace": "Tr S/d, what the penalty weighs",
    "rank_ratio": "rank of S over d",
    "atom": "share of eigenvalues of S that are zero",
    "edges": "intervals of the nonzero eigenvalues of S",
    "phase": "collapsed, bulk, outliers or recovered",
    "width_sufficient": "whether the width exceeds the rank",
    "weight_decay": "λ on W",
    "weight_decay_scaled": "λ̃ = √κ λ, what S sees",
    "converged": "tolerance met",
    "residual": "change under one more map",
    "tolerance": "residual that counts as converged",
    "iterations": "evaluations of the map",
    "integration_error": "relative error of test_error",
    "fixed_points_found": "distinct solutions met",
    "start": "start that led to the solution",
    "two_minima_fraction": "points with two proximal minima",
    "replicon": "below one where the theory is stable",
    "jump_weight": "χ, one where the proximal step never jumps",
    "stable": "whether the replicon is below one",
    "largest_jump": "change of the map by one point's jump",
    "seconds": "time of the optimiser",
    "test_error_std_error": "standard error of test_error",
    "relative_gradient": "‖∇L‖·‖W‖/L at the end",
    "evaluations": "evaluations of the objective",
    "alpha_interp": "n/d² up to which every noisy label is fitted as λ → 0",
    "noise_level_at_interp": "δ at alpha_interp",
    "peak_test_error": "test error at alpha_interp: a finite peak",
    "peak_mse": "‖S − S0‖²_F/d at alpha_interp",
    "alpha_perf": "n/d² beyond which S is the target as λ → 0",
    "alpha_bayes": "n/d² beyond which the best estimator is exact",
    "critical_weight_decay": "λ beyond which S = 0, at the α given",
}


def header(problem: Problem) -> dict[str, Any]:
    """What every JSON object starts with: schema, version, problem."""
    return {"schema": SCHEMA, "version": version("attnlaw"), "problem": problem.to_dict()}


def solution_values(solution: "Solution") -> dict[str, Any]:
    """The published numbers of a solution, by their published names."""
    problem = solution.problem
    known = {
        **solution.overlaps._asdict(),
        **solution.conjugates._asdict(),
        "weight_decay": problem.penalty.weight_decay,
        "weight_decay_scaled": problem.weight_decay_scaled,
    }
    return {k: known[k] if k in known else getattr(solution, k) for k in SOLUTION_KEYS}


def solution_record(solution: "Solution") -> dict[str, Any]:
    """A solution as one JSON object."""
    record = header(solution.problem) | solution_values(solution)
    record["standard_errors"] = solution.standard_errors
    record |= _support(solution)
    return dict(plain(record | {"reason": solution.reason}))


def _support(solution: "Solution") -> dict[str, Any]:
    """Weight of the eigenvalue zero of S, and the intervals (left, right) of the others."""
    if solution.rank_ratio == 0:
        return {"atom": 1.0, "edges": []}
    edges = [list(edge) for edge in solution.spectrum.edges]
    return {"atom": 1.0 - solution.rank_ratio, "edges": edges}


def curve_record(problem: Problem, line: "Curve") -> dict[str, Any]:
    """A curve as one JSON object, a list over the values under each key."""
    rows = [solution_values(solution) for solution in line.solutions]
    lists: dict[str, Any] = {key: [row[key] for row in rows] for key in SOLUTION_KEYS}
    lists["reason"] = [solution.reason for solution in line.solutions]
    errors = [solution.standard_errors for solution in line.solutions]
    lists["standard_errors"] = {key: [row[key] for row in errors] for key in errors[0]}
    lists["converged_at"] = lists.pop("converged")
    head = {"field": line.name, "values": line.values, "converged": line.converged}
    return plain(header(problem) | head | lists)


def curve_dataset(problem: Problem, line: "Curve") -> "xr.Dataset":
    """A curve as a dataset over the field that varies, standard errors beside the values."""
    import xarray as xr

    about = {"long_name": f"{line.name}, the field that varies"}
    data = xr.Dataset(
        coords={line.name: (line.name, line.values, about)}, attrs=provenance(problem)
    )
    rows = [solution_values(solution) for solution in line.solutions]
    for key in SOLUTION_KEYS:
        # a quantity named like the axis is the axis
        if key != line.name:
            values = np.array([row[key] for row in rows])
            data[key] = (line.name, values, {"long_name": MEANINGS.get(key, key)})
    for key in line.solutions[0].standard_errors:
        values = np.array([solution.standard_errors[key] for solution in line.solutions])
        data[f"{key}_std_error"] = (line.name, values, {"long_name": f"standard error of {key}"})
    reasons = [solution.reason or "" for solution in line.solutions]
    data["reason"] = (line.name, reasons, {"long_name": "why a point did not converge"})
    return data


def bayes_record(best: "BayesOptimal") -> dict[str, Any]:
    """The Bayes-optimal baseline as part of a JSON object."""
    record = {key: getattr(best, key) for key in BAYES_MEANINGS}
    return dict(plain(record | {"standard_errors": best.standard_errors}))


def with_bayes(
    data: "xr.Dataset", best: "list[BayesOptimal]", axis: str | None = None
) -> "xr.Dataset":
    """The dataset with `bayes_mmse`, … of each value of the axis; as it is where there is none."""
    if not best:
        return data
    added = {}
    for key, meaning in BAYES_MEANINGS.items():
        values = np.array([getattr(own, key) for own in best])
        about = {"long_name": f"Bayes-optimal: {meaning}"}
        added[f"bayes_{key}"] = (axis, values, about) if axis else ((), values[0], about)
    return data.assign(added)


def thresholds_record(problem: Problem, found: "Thresholds") -> dict[str, Any]:
    """Thresholds as one JSON object, null with a reason where there is none."""
    return plain(header(problem) | dataclasses.asdict(found))


def fits_record(problem: Problem, fits: "list[Fit]") -> dict[str, Any]:
    """Trained layers as one JSON object, a list over repeats under each key."""
    lists = {key: [getattr(fit, key) for fit in fits] for key in FIT_KEYS}
    return plain(header(problem) | {"dim": fits[0].dim, "width": fits[0].width} | lists)


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def solution_dataset(solution: "Solution", grid: int = 800) -> "xr.Dataset":
    """A solution with its predicted spectrum, as a dataset over the eigenvalue axis `s`."""
    import xarray as xr

    s, density, atom = spectrum_curve(solution, grid)
    scalars = {k: v for k, v in solution_values(solution).items() if not isinstance(v, str)}
    data = xr.Dataset(
        {"density": ("s", density, {"long_name": "density of nonzero eigenvalues of S"})},
        coords={"s": ("s", s, {"long_name": "eigenvalue of S", "units": "scale of S0"})},
        attrs=provenance(solution.problem),
    )
    data["atom"] = ((), atom, {"long_name": "share of eigenvalues that are zero"})
    for key, value in scalars.items():
        data[key] = ((), value, {"long_name": MEANINGS.get(key, key)})
    for key, error in solution.standard_errors.items():
        data[f"{key}_std_error"] = ((), error, {"long_name": f"standard error of {key}"})
    data.attrs["phase"] = solution.phase
    return data


def spectrum_curve(
    solution: "Solution", grid: int = 800
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Eigenvalue grid, density on it and weight of the atom at zero; dense near every edge."""
    if solution.rank_ratio == 0:
        return np.zeros(0), np.zeros(0), 1.0
    law = solution.spectrum
    per_interval = max(9, grid // len(law.edges))
    ramp = (1 - np.cos(np.linspace(0, np.pi, per_interval))) / 2
    s = np.concatenate([left + (right - left) * ramp for left, right in law.edges])
    s = np.maximum(s, 1e-9 * s.max())
    return s, law.density(s), 1.0 - solution.rank_ratio


def fits_dataset(problem: Problem, fits: "list[Fit]") -> "xr.Dataset":
    """Trained layers as a dataset over (repeat, index)."""
    import xarray as xr

    data = xr.Dataset(attrs=provenance(problem))
    data["eigenvalues"] = (
        ("repeat", "index"),
        np.stack([fit.eigenvalues for fit in fits]),
        {"long_name": "eigenvalues of the trained S", "units": "scale of S0"},
    )
    for key in FIT_KEYS:
        values = np.array([getattr(fit, key) for fit in fits])
        data[key] = ("repeat", values, {"long_name": MEANINGS.get(key, key)})
    return data


def provenance(problem: Problem) -> dict[str, Any]:
    """Attributes that every dataset carries."""
    return {
        "attnlaw_version": version("attnlaw"),
        "schema": SCHEMA,
        "problem": json.dumps(plain(problem.to_dict())),
    }


def prepare_folder(folder: Path) -> Path:
    """Create an output folder and make sure that it can be written, before any work is done.

    Raises:
        ValueError: it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"out must be a folder that can be written, got {str(folder)!r} "
            f"({error.strerror}); choose another"
        ) from error
    return folder


def write_problem(folder: Path, problem: Problem) -> None:
    """problem.json, replaced atomically."""
    text = json.dumps(plain(problem.to_dict()), indent=2)
    _replace(folder / "problem.json", lambda path: path.write_text(text + "\n"))


def write_dataset(folder: Path, data: "xr.Dataset") -> None:
    """result.nc, replaced atomically."""
    # made in memory first: HDF5 does not survive a disk that fills under it
    content = bytes(data.to_netcdf(engine="h5netcdf"))
    _replace(folder / "result.nc", lambda path: path.write_bytes(content))


def _replace(path: Path, write: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(partial)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(
            f"cannot write {str(path)!r} ({error.strerror}); free space or choose another --out"
        ) from error
