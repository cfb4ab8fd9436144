"""The package as a whole: light import, public names, docstring examples, house rules."""

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import attnlaw

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src").rglob("*.py")
    if path.name != "__init__.py"
)


def test_every_public_name_is_there():
    for name in attnlaw.__all__:
        assert getattr(attnlaw, name).__doc__
    assert attnlaw.__version__
    assert "solve" in dir(attnlaw)
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        attnlaw.sovle  # noqa: B018


def test_import_is_light():
    script = "import sys, attnlaw; print(sorted(m for m in sys.modules if m in set(sys.argv[1:])))"
    heavy = ["jax", "scipy", "matplotlib", "xarray", "optax", "numpy"]
    done = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    names = {**vars(attnlaw), **{n: getattr(attnlaw, n) for n in attnlaw.__all__}}
    failed, _ = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_no_file_and_no_function_is_too_long():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 350, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno + 1 <= 60, f"{path}:{node.name}"
