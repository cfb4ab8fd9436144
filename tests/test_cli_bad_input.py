"""Bad input on the command line: exit code 2 and one line that says what to do."""

import numpy as np
import pytest

from attnlaw.cli.main import run

BAD = [
    (["--alpha", "0"], "alpha = n/d² (sample_ratio) must be positive, got 0.0"),
    (["--alpha", "-2"], "must be positive, got -2.0"),
    (["--accuracy", "1.5"], "accuracy must be at most 1, got 1.5"),
    (["--alpha", "nan"], "must be one finite number of size at most 1e+12, got nan"),
    (["--alpha", "1e300"], "of size at most 1e+12, got 1e+300"),
    (["--beta", "1e-300"], "beta must be at least 1e-12"),
    (["--tokens", "50"], "tokens must be at most 6 in the theory"),
    (["--target", "powerlaw:1.25,40,7"], "must read powerlaw:GAMMA,DIM"),
    (["--alpha", "many"], "'many' is not a valid float"),
    (["--kappa0", "0"], "kappa0 = p0/d (target_rank_ratio) must be positive"),
    (["--kappa", "-1"], "kappa = p/d (width_ratio) must be positive"),
    (["--beta", "0"], "beta must be positive"),
    (["--target-beta", "-1"], "target_beta must be positive"),
    (["--weight-decay", "-0.1"], "weight_decay must be zero or positive, got -0.1"),
    (["--noise", "-1"], "noise must be zero or positive"),
    (["--tokens", "1"], "tokens must be a whole number of at least 2, got 1"),
    (["--target", "cauchy"], "target must be gaussian, powerlaw:GAMMA,DIM or a file"),
    (["--target", "powerlaw:1.25"], "must read powerlaw:GAMMA,DIM"),
    (["--target", "powerlaw:0.4,100"], "exponent must be above 1/2"),
    (["--target", "nowhere.npy"], "target file must be readable"),
    (["--accuracy", "-1"], "accuracy must be positive"),
    (["--seed", "-1"], "--seed"),
    (["--seed", "4294967296"], "not in the range 0<=x<=4294967295"),
    (["--kappa0", "0.5", "--target", "powerlaw:1.2,40"], "kappa0 belongs to the gaussian target"),
    (["--target", "powerlaw:1.2,99999999"], "dim must be at most 10000000"),
    (["--out", ""], "must name a folder, got an empty name"),
    (["--alpha", "2", "--curve", "alpha=0.1:1:3"], "alpha must be given once"),
    (["--kappa0", "2", "--curve", "target_rank_ratio=0.1:1:3"], "kappa0 must be given once"),
    (["--curve", "alpha=-1e308:1e308:3"], "curve must have START < STOP"),
    (["--alfa", "1"], "--alpha"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_input_is_one_line_and_exit_2(arguments, words, capsys):
    assert run(["predict", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert words in printed.err


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1.0, -0.5]), "smallest value of -0.5"),
        (np.array([1.0, np.nan]), "non-finite"),
        (np.ones((2, 3)), "finite square array"),
        (np.array([[1.0, 5.0], [0.0, 1.0]]), "must be symmetric"),
        (-np.eye(3), "zero or positive"),
        (np.array(["a"]), "real numeric array"),
        (np.zeros(4), "only zero eigenvalues"),
        (np.ones((2, 2, 2)), "finite square array, got shape (2, 2, 2)"),
        (np.array(1.0), "finite square array, got shape ()"),
        (np.zeros(0), "non-empty"),
    ],
)
def test_bad_target_files(array, words, tmp_path, capsys):
    path = tmp_path / "target.npy"
    np.save(path, array)
    assert run(["predict", "--target", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_no_array(tmp_path, capsys):
    path = tmp_path / "target.npy"
    path.write_text("not an array")
    assert run(["predict", "--target", str(path)]) == 2
    assert "must be a NumPy .npy array" in capsys.readouterr().err


def test_unwritable_output_is_found_before_any_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["predict", "--out", str(tmp_path / "file" / "sub")]) == 2
    assert "out must be a folder that can be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dim", "100000"], "GiB"),
        (["--dim", "1"], "dim must be a whole number of at least 2"),
        (["--dim", "20", "--kappa0", "0.01"], "raise dim to 100 or more"),
        (["--weight-decay", "0"], "weight_decay must be positive to train a layer, got 0.0"),
        (["--repeats", "0"], "repeats must be a whole number of at least 1"),
        (["--target", "powerlaw:1.0,50"], "dim must equal that of the power law, got 100 for 50"),
        (["--method", "sgd"], "'sgd' is not one of"),
    ],
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_bad_training_input(command, arguments, words, capsys):
    assert run([command, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_comparison_is_refused_before_the_theory_is_solved(capsys, monkeypatch):
    monkeypatch.setattr("attnlaw.comparison.solve", None)
    assert run(["compare", "--dim", "20", "--kappa0", "0.01"]) == 2
    assert "raise dim to 100 or more" in capsys.readouterr().err
