PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo up down test check chaos simulate bench

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,demo]'
	touch .venv/installed

demo: install
	$(BIN)/batch-inference demo

up: install
	$(BIN)/python -m deployments.stack up

down:
	$(BIN)/python -m deployments.stack down

test: install
	$(BIN)/python -m compileall -q flows tasks deployments
	$(BIN)/pytest -n 2

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/codespell

chaos: install
	$(BIN)/python -m tests.chaos

simulate: install
	$(BIN)/python -m tests.simulation

bench: install
	$(BIN)/python -m tests.benchmarks $(ROW)
