"""Each piece of evidence at a small size, through the same loop that runs it in full."""

import json

import pytest
from evidence import agreement, runner
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
