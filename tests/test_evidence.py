"""Each piece of evidence at a small size, through the same loop that runs it in full."""

import json

import pytest
from evidence import agreement, coverage, robustness, runner
from evidence.__main__ import main

from attnlaw import Problem


@pytest.fixture
def small(monkeypatch):
    cases = {
        f"noisy, d={dim}": {
            "row": "noisy",
            "dim": dim,
            "repeats": repeats,
            "test_sequences": 20_000,
        }
        for dim, repeats in ((16, 6), (64, 3))
    }
    piece = runner.PIECES["finite_size_gap"]
    shrunk = runner.Piece(piece.claim, cases, piece.measure, piece.judge)
    monkeypatch.setitem(runner.PIECES, "finite_size_gap", shrunk)
    return cases


@pytest.mark.slow
def test_gap_to_the_theory_shrinks_with_the_dimension(small, tmp_path, monkeypatch):
    record = runner.run_piece("finite_size_gap", tmp_path)
    assert record["holds"], record["result"]
    assert set(record["cases"]) == set(small)
    written = json.loads((tmp_path / "finite_size_gap.json").read_text())
    assert written["claim"] == agreement.CLAIM
    assert {"command", "commit", "machine", "seconds"} <= set(written)
    # a second run takes every case from the cache
    piece = runner.PIECES["finite_size_gap"]

    def refuse(**_):
        raise AssertionError("measured again")

    repeated = runner.Piece(piece.claim, small, refuse, piece.judge)
    monkeypatch.setitem(runner.PIECES, "finite_size_gap", repeated)
    again = runner.run_piece("finite_size_gap", tmp_path)
    assert again["result"] == record["result"]


def test_a_gap_that_does_not_shrink_is_told():
    cases = {
        f"noisy, d={dim}": {
            "arguments": {"row": "noisy", "dim": dim},
            "gaps": {key: [0.02, 0.021] for key in agreement.KEYS},
            "converged": True,
        }
        for dim in (50, 200)
    }
    assert not agreement.judge(cases)["holds"]


def test_unknown_evidence_is_refused(capsys):
    assert main(["nothing"]) == 2
    assert "known: finite_size_gap" in capsys.readouterr().err


def test_rows_are_the_reference_problems():
    assert Problem().replace(**agreement.ROWS["three tokens"]).attention.tokens == 3


@pytest.mark.slow
def test_forty_random_problems_converge():
    """40 of the 200 problems of the evidence: the third block, the one that takes least time."""
    block = robustness.measure(2, count=40)
    assert block["converged"] == 40, block["told"]
    assert block["collapsed"] >= 1
    assert block["largest_consistency_gap"] < 0.02
    assert block["missed_accuracy"] <= 2


def test_a_random_problem_that_fails_is_told_and_counted():
    line = {"converged": False, "reason": "residual 1e-2 above 1e-3"}
    case = {"count": 50, "converged": 48, "collapsed": 1, "missed_accuracy": 0, "told": [line] * 2}
    verdict = robustness.judge({"main 0": case})
    assert not verdict["holds"]
    assert [failure["case"] for failure in verdict["failures"]] == ["main 0"] * 2


@pytest.mark.slow
def test_error_bars_cover():
    found = coverage.measure("default", seeds=25, truth_points=2**14)
    assert found["converged"]
    assert found["share"] >= 0.8
    assert 0.4 < found["root_mean_square"] < 1.6


def test_error_bars_that_do_not_cover_are_told():
    cases = {"default": {"share": 0.8, "converged": True}}
    assert not coverage.judge(cases)["holds"]
