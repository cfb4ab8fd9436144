"""Double precision for every test that does not ask for JAX's own default.

The workers of one run share what they compile, in a folder that goes when the run ends.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import attnlaw
from attnlaw.cli import display
from attnlaw.numerics.compile_cache import VARIABLE


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="attnlaw-tests-")
    attnlaw.use_compile_cache()
    display.SECONDS_BETWEEN_LINES = math.inf
    config.addinivalue_line("markers", "single: run in JAX's default precision")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


@pytest.fixture(autouse=True)
def _float64(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("single"):
        yield
        return
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20250924)


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(7)
