"""Double precision for every test that does not ask for JAX's own default."""

import os
from collections.abc import Iterator

import jax
import numpy as np
import pytest


def pytest_configure(config: pytest.Config) -> None:
    os.environ["ATTNLAW_COMPILE_CACHE"] = "off"
    config.addinivalue_line("markers", "single: run in JAX's default precision")


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
