"""The compile cache: where it lives, how it is switched off, damage."""

import json
import os
import subprocess
import sys

import pytest

from attnlaw import use_compile_cache

PREDICT = """
import math, sys
import attnlaw.cli.display as display
from attnlaw.cli.main import main
display.SECONDS_BETWEEN_LINES = math.inf
main(sys.argv[1:])
"""


def predict(folder, *, flags=()):
    """Run a prediction in a process of its own with its cache in a folder."""
    environment = {**os.environ, "ATTNLAW_COMPILE_CACHE": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", PREDICT, "predict", "--json", "--accuracy", "3e-3", *flags],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_it_can_be_switched_off(word, monkeypatch):
    monkeypatch.setenv("ATTNLAW_COMPILE_CACHE", word)
    assert use_compile_cache() is None


def test_a_folder_that_cannot_be_made_switches_it_off(tmp_path):
    (tmp_path / "file").write_text("")
    assert use_compile_cache(tmp_path / "file") is None


@pytest.mark.slow
def test_second_process_reads_what_the_first_wrote_and_damage_is_mended(tmp_path):
    first = predict(tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    entries = sorted(tmp_path.glob("*/*-cache"))
    assert entries
    again = predict(tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert sorted(tmp_path.glob("*/*-cache")) == entries
    first_numbers, again_numbers = json.loads(first.stdout), json.loads(again.stdout)
    assert first_numbers == again_numbers
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:100])
    mended = predict(tmp_path)
    assert (mended.returncode, mended.stderr) == (0, "")
    assert json.loads(mended.stdout) == first_numbers


@pytest.mark.slow
def test_off_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert predict("off").returncode == 0
    assert not list(tmp_path.rglob("*-cache"))
