"""The command line as a contract: keys, files, exit codes, one line for bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attnlaw.cli.main import _interrupt, run
from attnlaw.results import FIT_KEYS, MEANINGS, SOLUTION_KEYS

PREDICT_KEYS = """
    train_loss train_error test_error test_error_clean mse q m sigma q_hat m_hat sigma_hat scale
    noise_level threshold rank_ratio phase width_sufficient weight_decay weight_decay_scaled
    converged residual iterations integration_error fixed_points_found start two_minima_fraction
    largest_jump misalignment standard_errors reason trace tolerance atom edges
"""
TRAIN_KEYS = (
    "train_loss train_error test_error test_error_clean q m Q0 rank_ratio converged seconds"
)
SMALL = ["--dim", "30", "--repeats", "2", "--alpha", "0.6"]


def refuse_constant(name):
    raise AssertionError(f"JSON holds {name}")


def json_of(capsys, *arguments, code=0):
    assert run([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=refuse_constant)


def test_predict_json_has_every_published_key(capsys):
    record = json_of(capsys, "predict")
    assert set(PREDICT_KEYS.split()) <= set(record)
    assert record["schema"] == 1
    assert record["version"]
    assert record["problem"]["sample_ratio"] == 1.0
    assert record["test_error"] == pytest.approx(0.09857, rel=5e-3)
    assert record["phase"] == "bulk"
    assert (record["converged"], record["reason"]) == (True, None)
    errors = record["standard_errors"]
    relative = errors["test_error"] / record["test_error"]
    assert record["integration_error"] == pytest.approx(1.2166 * relative)
    assert record["atom"] == pytest.approx(1 - record["rank_ratio"], abs=1e-4)
    ((left, right),) = record["edges"]
    assert left == 0
    assert 2 < right < 4


def test_every_option_reaches_the_problem(capsys):
    record = json_of(
        capsys, "predict", "--alpha", "0.8", "--kappa0", "0.7", "--weight-decay", "0.2",
        "--noise", "0.3", "--tokens", "2", "--beta", "1.1", "--target-beta", "0.9",
        "--kappa", "0.81", "--accuracy", "3e-3", "--seed", "4",
    )  # fmt: skip
    problem = record["problem"]
    assert problem["target"] == {"kind": "marchenko-pastur", "target_rank_ratio": 0.7}
    assert problem["attention"] == {
        "kind": "tied", "tokens": 2, "beta": 1.1, "target_beta": 0.9,
    }  # fmt: skip
    assert (problem["sample_ratio"], problem["noise"]) == (0.8, 0.3)
    assert record["weight_decay_scaled"] == pytest.approx(0.2 * 0.9)


def test_same_seed_same_numbers(capsys):
    assert json_of(capsys, "predict", "--seed", "3") == json_of(capsys, "predict", "--seed", "3")
    timed = [json_of(capsys, "train", *SMALL, "--seed", "3") for _ in range(2)]
    for record in timed:
        del record["seconds"]
    assert timed[0] == timed[1]


def test_collapsed_prediction_is_finite_json(capsys):
    record = json_of(capsys, "predict", "--weight-decay", "50")
    assert record["phase"] == "collapsed"
    assert record["q"] == 0.0
    assert record["converged"] is True


def test_train_json_lists_over_repeats(capsys):
    record = json_of(capsys, "train", *SMALL)
    for key in TRAIN_KEYS.split():
        assert len(record[key]) == 2, key
    assert all(record["converged"])
    assert record["dim"] == 30


def test_adam_from_the_command_line(capsys):
    record = json_of(capsys, "train", *SMALL, "--method", "adam")
    assert all(record["converged"])


def test_predict_writes_its_folder(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    out.mkdir(parents=True)
    (out / "compare.png").write_bytes(b"of another result")
    assert run(["predict", "--out", str(out)]) == 0
    capsys.readouterr()
    assert {p.name for p in out.iterdir()} == {"result.nc", "problem.json", "spectrum.png"}
    data = xr.load_dataset(out / "result.nc", engine="h5netcdf")
    assert float(data["test_error"]) == pytest.approx(0.0985, rel=5e-3)
    total = np.trapezoid(data["density"], data["s"]) + float(data["atom"])
    assert total == pytest.approx(1.0, abs=2e-3)
    assert json.loads((out / "problem.json").read_text())["noise"] == 0.5
    assert "attnlaw_version" in data.attrs
    assert 0 < float(data["test_error_std_error"]) < 1e-3
    names = {name: data[name].attrs.get("long_name", name) for name in data.variables}
    assert [name for name, told in names.items() if told == name] == []


def test_compare_table_and_files(tmp_path, capsys):
    assert run(["compare", *SMALL, "--no-curve", "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    for name in ("train_loss", "test_error", "rank_ratio", "±"):
        assert name in table
    data = xr.load_dataset(tmp_path / "result.nc", engine="h5netcdf")
    assert data["eigenvalues"].shape == (2, 30)
    assert data["trained"].sel(quantity="q").shape == (2,)
    for name in ("trained_converged", "theory_at_target_converged"):
        assert data[name].values.all()
    assert bool(data["theory_converged"])
    assert bool(data["width_sufficient"])
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_a_comparison_is_saved_before_its_curve(tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlaw.comparison.with_curve", interrupted)
    assert run(["compare", *SMALL, "--out", str(tmp_path)]) == 130
    printed = capsys.readouterr()
    assert "± 12.7 in 95 % of comparisons of 2 layers" in " ".join(printed.out.split())
    data = xr.load_dataset(tmp_path / "result.nc", engine="h5netcdf")
    assert data["trained"].sel(quantity="q").shape == (2,)


def test_compare_json(capsys):
    record = json_of(capsys, "compare", *SMALL)
    assert record["rows"][0]["quantity"] == "train_loss"
    assert record["curve"] is None
    assert record["repeats"] == 2


def test_single_repeat_has_no_standard_error(capsys):
    record = json_of(capsys, "compare", "--dim", "20", "--repeats", "1")
    assert record["rows"][0]["trained_std_error"] is None
    assert record["rows"][0]["difference"] is None


@pytest.mark.slow
def test_targets_from_files_and_power_laws(tmp_path, capsys, rng):
    factor = rng.normal(size=(30, 10))
    np.save(tmp_path / "matrix.npy", factor @ factor.T / 30)
    np.save(tmp_path / "values.npy", np.linspace(0, 2, 30))
    for target in (f"{tmp_path}/matrix.npy", f"{tmp_path}/values.npy", "powerlaw:1.25,30"):
        predicted = json_of(capsys, "predict", "--target", target, "--accuracy", "3e-3")
        trained = json_of(capsys, "train", "--target", target, "--dim", "30", "--repeats", "1")
        power = predicted["mse"] + 2 * predicted["m"] - predicted["q"]
        assert trained["Q0"][0] == pytest.approx(power, rel=1e-6)
        assert trained["converged"] == [True]


def test_not_converged_prints_the_object_and_exits_3(capsys, monkeypatch):
    from attnlaw.theory import kernel as module

    monkeypatch.setattr(module, "RESIDUAL_TOLERANCE", 1e-30)
    monkeypatch.setattr(module, "LARGEST_TOLERANCE", 1e-30)
    assert run(["predict", "--json"]) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["converged"] is False
    assert printed.err.splitlines()[-1].startswith("attnlaw: not converged: residual")


def test_explain_knows_every_printed_key(capsys):
    for key in {*SOLUTION_KEYS, *FIT_KEYS}:
        assert key in MEANINGS
        assert run(["explain", key]) == 0
        text = capsys.readouterr().out
        assert len(text) > 40
    assert run(["explain", "test_eror"]) == 2
    assert "did you mean test_error?" in capsys.readouterr().err


def test_a_width_that_binds_is_said(capsys):
    assert run(["train", "--dim", "20", "--repeats", "1", "--kappa", "0.2"]) == 0
    assert "binds the rank" in capsys.readouterr().err


def test_a_width_that_binds_is_said_of_predictions(capsys):
    assert run(["predict", "--kappa", "0.3"]) == 0
    assert "binds the rank" in capsys.readouterr().err
    assert run(["predict", "--curve", "kappa=0.3:1.3:3", "--accuracy", "3e-3"]) == 0
    assert "binds the rank of the layer at 1 of 3 points" in capsys.readouterr().err


@pytest.mark.slow
def test_many_proximal_minima_are_said(capsys):
    assert run(["predict", "--noise", "2", "--alpha", "0.4", "--weight-decay", "1e-3"]) == 0
    warned = capsys.readouterr().err
    assert warned.startswith("attnlaw: warning: ")
    assert "of the proximal steps have several minima" in warned


def test_a_missed_accuracy_is_said(capsys, monkeypatch):
    monkeypatch.setattr("attnlaw.theory.solve.POINT_COUNTS", (2**11,))
    assert run(["predict", "--accuracy", "1e-5"]) == 0
    assert "accuracy 1e-05 was not reached" in capsys.readouterr().err


def test_a_full_disk_loses_no_result(tmp_path, capsys, monkeypatch):
    write = Path.write_bytes

    def full(self, content):
        if self.name != ".result.nc.partial":
            return write(self, content)
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert run(["predict", "--json", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["converged"] is True
    assert "No space left on device" in printed.err
    assert [p.name for p in tmp_path.iterdir()] == ["problem.json"]


def test_the_bayes_baseline_is_beside_the_prediction(tmp_path, capsys):
    arguments = ["predict", "--bayes", "--accuracy", "3e-3", "--out", str(tmp_path)]
    best = json_of(capsys, *arguments)["bayes"]
    assert set(best) == {
        "mmse", "q", "noise_level", "test_error", "test_error_clean", "standard_errors"
    }  # fmt: skip
    data = xr.load_dataset(tmp_path / "result.nc", engine="h5netcdf")
    assert best["mmse"] == data["bayes_mmse"] < data["mse"]
    assert run(arguments) == 0
    assert "least" in capsys.readouterr().out


def test_a_curve_has_the_bayes_baseline_at_every_value(tmp_path, capsys):
    axis = ["--curve", "weight_decay=0.1:0.2:2", "--accuracy", "3e-3", "--out", str(tmp_path)]
    record = json_of(capsys, "predict", "--bayes", *axis)
    first, second = record["bayes"]["test_error"]
    assert first == second < min(record["test_error"])
    assert run(["predict", "--bayes", *axis]) == 0
    assert "bayes test_error" in capsys.readouterr().out


def test_long_work_tells_where_it_is(capsys, monkeypatch):
    monkeypatch.setattr("attnlaw.cli.display.SECONDS_BETWEEN_LINES", 0.01)
    assert run(["predict", "--json"]) == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    lines = printed.err.splitlines()
    assert re.fullmatch("attnlaw: solve 0 of 65536, exploring, [0-9]+ s", lines[0])
    assert all(line.startswith("attnlaw: solve ") for line in lines)


def test_interruption_says_so(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlaw.theory.solve.solve", interrupt)
    assert run(["predict"]) == 130
    assert capsys.readouterr().err == "attnlaw: interrupted\n"


def test_a_terminal_of_few_letters_gets_its_table():
    script = "from attnlaw.cli.main import main; main(['explain', 'mse'])"
    command = [sys.executable, "-c", script]
    told = subprocess.run(
        command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False
    )
    assert (told.returncode, told.stderr) == (0, b"")
    assert b"Tr S" in told.stdout or b"Q0" in told.stdout


def test_an_interrupt_reaches_compiled_code():
    script = """
import hashlib, attnlaw.cli.main as m
m.DEAF_SECONDS = 0.2
def deaf(arguments):
    print("deaf", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2 * 10**8)
m.run = deaf
m.main([])
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"deaf\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (130, b"attnlaw: interrupted\n")


def test_an_interrupt_inside_the_garbage_collector_comes_later(monkeypatch):
    """An exception in a collector's callback is lost; the signal is sent again instead."""
    sent = []

    class Timer:
        def __init__(self, seconds, function, arguments):
            sent.append(arguments)

        def start(self):
            sent.append("started")

    monkeypatch.setattr("attnlaw.cli.main.threading.Timer", Timer)

    def _xla_gc_callback():
        _interrupt(signal.SIGINT, sys._getframe())

    _xla_gc_callback()
    assert sent == [(os.getpid(), signal.SIGINT), "started"]
    with pytest.raises(KeyboardInterrupt):
        _interrupt(signal.SIGINT, None)


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("attnlaw, version ")
    assert run(["--help"]) == 0
    assert "predict" in capsys.readouterr().out
    assert run([]) == 0
    assert "predict" in capsys.readouterr().out
    assert run(["foretell"]) == 2
    assert capsys.readouterr().err.count("No such command") == 1


@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">&-", 2)])
def test_a_closed_stream_costs_what_it_would_show_and_no_more(closed, code):
    command = f"'{sys.executable}' -m attnlaw explain q {closed}"
    told = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert told.returncode == code
    assert ("Tr S²/d" in told.stdout) == (code == 0)
    assert told.stderr.startswith("attnlaw: error: standard output is closed") == (code == 2)
