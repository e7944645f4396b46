# One set of commands for people and CI. `make demo` and `make test` set up all they need.
.DEFAULT_GOAL := help
PYTHON ?= python3
UV := UV_COMPILE_BYTECODE=1 uv
BIN := .venv/bin

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/.ready: pyproject.toml
	@command -v uv >/dev/null || $(PYTHON) -m pip install --quiet uv
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip install --quiet --python $(BIN)/python --group dev --editable .
	@touch $@

check: .venv/.ready ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: .venv/.ready ## fast tests only
	$(BIN)/pytest tests/unit tests/contract -q

test: check .venv/.ready ## everything but the container
	$(BIN)/pytest -n auto -m "not action"

clean: ## remove what was made
	rm -rf .venv .venv-* .cache .mypy_cache .ruff_cache .pytest_cache build dist

.PHONY: help check unit test clean
