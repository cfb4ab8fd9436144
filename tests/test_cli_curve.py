"""`attnlaw predict --curve`: the table, the object, the files, and what is refused."""

import json

import numpy as np
import pytest
import xarray as xr

from attnlaw import Problem, curve
from attnlaw.cli.main import run
from attnlaw.cli.options import parse_axis
from attnlaw.results import SOLUTION_KEYS

LOOSE = ["--accuracy", "3e-3"]


def predict(capsys, *arguments, code=0):
    """Exit code checked; what was printed."""
    assert run(["predict", *LOOSE, *arguments]) == code
    return capsys.readouterr()


def test_object_holds_a_list_under_each_key(capsys):
    printed = predict(capsys, "--curve", "alpha=0.5:2:3", "--json")
    record = json.loads(printed.out)
    assert printed.err == ""
    assert record["field"] == "alpha"
    assert record["values"] == [0.5, 1.25, 2.0]
    assert record["converged"] is True
    assert record["run"]["curve"] == "alpha=0.5:2:3"
    for key in {*SOLUTION_KEYS, "reason"} - {"converged"}:
        assert len(record[key]) == 3, key
    assert record["converged_at"] == [True] * 3
    expected = curve(Problem(), accuracy=3e-3, alpha=[0.5, 1.25, 2.0])
    np.testing.assert_allclose(record["test_error"], expected.test_error, rtol=1e-12)


def test_table_and_files(capsys, tmp_path):
    printed = predict(capsys, "--curve", "weight_decay=2:5:3", "--out", str(tmp_path))
    rows = printed.out.splitlines()
    assert len(rows) == 4
    assert rows[-1].split()[0] == "5"
    assert "collapsed" in rows[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"result.nc", "problem.json", "curve.png"}
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as data:
        assert list(data["weight_decay"].values) == [2.0, 3.5, 5.0]
        assert list(data["phase"].values) == ["bulk", "bulk", "collapsed"]
        assert float(data["test_error_std_error"][0]) > 0
        assert json.loads(data.attrs["run"])["curve"] == "weight_decay=2:5:3"
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_points_that_do_not_converge_are_said(capsys, monkeypatch):
    from attnlaw.theory import kernel

    monkeypatch.setattr(kernel, "RESIDUAL_TOLERANCE", 1e-30)
    monkeypatch.setattr(kernel, "LARGEST_TOLERANCE", 1e-30)
    printed = predict(capsys, "--curve", "alpha=1:2:2", "--json", code=3)
    record = json.loads(printed.out)
    assert record["converged"] is False
    assert record["converged_at"] == [False, False]
    assert "residual" in record["reason"][0]
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpha=0.1:10:3", [0.1, 1.0, 10.0]),
        ("alpha=1:3:3", [1.0, 2.0, 3.0]),
        ("weight-decay=1e-4:1:5", [1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
        ("noise=0:2:3", [0.0, 1.0, 2.0]),
        ("tokens=2:4:3", [2, 3, 4]),
        ("kappa0=0.2:0.4:2", [0.2, 0.4]),
    ],
)
def test_ranges(text, expected):
    name, values = parse_axis(text, Problem())
    assert name == text.split("=")[0].replace("-", "_")
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alpha", "curve must read FIELD=START:STOP:COUNT, got 'alpha'"),
        ("alpha=1:2", "for example alpha=0.05:4:50"),
        ("alpha=1:2:x", "for example alpha=0.05:4:50"),
        ("alpha=1:2:2.5", "for example alpha=0.05:4:50"),
        ("alpha=2:1:5", "START < STOP"),
        ("alpha=1:1:5", "START < STOP"),
        ("alpha=1:2:0", "COUNT of at least 2"),
        ("alpha=1:2:1", "COUNT of at least 2"),
        ("alpha=nan:2:3", "START < STOP"),
        ("alpha=1:inf:3", "START < STOP"),
        ("alhpa=1:2:3", "did you mean alpha?"),
        ("lamda=1:2:3", "did you mean weight_decay?"),
        ("=1:2:3", "unknown problem field"),
        ("exponent=1:2:3", "unknown problem field 'exponent' for MarchenkoPastur targets"),
        ("target=1:2:3", "curve must run over a number of the problem, got 'target'"),
        ("penalty=1:2:3", "curve must run over a number of the problem, got 'penalty'"),
        ("alpha=1:2:99999999999", "at most 10000"),
        ("alpha=-1:2:3", "alpha = n/d² (sample_ratio) must be positive"),
        ("tokens=2:3:4", "curve over tokens must hit whole numbers"),
        ("tokens=1:3:3", "tokens must be a whole number of at least 2"),
    ],
)
def test_bad_range_is_refused_in_one_line(text, words, capsys):
    printed = predict(capsys, "--curve", text, code=2)
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
