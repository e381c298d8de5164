# make demo  runs the main job on a bundled example; make test runs every check and test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint type unit venv clean

venv: $(VENV)/.installed

$(VENV)/.installed: requirements/dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "agent-eval needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: venv
	$(BIN)/agent-eval demo

test: lint type unit

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: venv
	$(BIN)/mypy

unit: venv
	$(BIN)/pytest -q

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache
