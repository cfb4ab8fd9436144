PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.PHONY: demo setup check test lint evidence bench format lock clean

demo: setup
	$(BIN)/attnlaw compare --out demo
	@echo "The picture is demo/compare.png"

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

test: lint
	$(BIN)/pytest -n $(WORKERS)

evidence: setup
	$(BIN)/python -m evidence

bench: setup
	$(BIN)/pytest benchmarks --benchmark-only --benchmark-columns=min,median,max,rounds

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Needs uv; writes the pins for every supported Python with their hashes.
lock:
	uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-emit-index-url \
		--extra dev --output-file requirements.lock pyproject.toml requirements-build.in

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache
