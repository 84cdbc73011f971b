# Every target works alone on a fresh machine: it makes .venv first when that is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-all lint docs bench clean

setup: $(READY)

# The pinned torch goes first: on a machine without a GPU it is the CPU build, not gigabytes of CUDA packages.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/python scripts/demo.py

test: $(READY) lint
	$(BIN)/python -m pytest -n auto -q -m "not slow and not gpu"

test-all: $(READY) lint
	$(BIN)/python -m pytest -n auto -q -m "not gpu"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The variable silences a notice about the future of MkDocs, which is not about these pages.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

bench: $(READY)
	$(BIN)/flexkg bench engine
	$(BIN)/flexkg bench sampling
	$(BIN)/flexkg bench scoring
	$(BIN)/flexkg bench training
	$(BIN)/flexkg bench evaluation

clean:
	rm -rf $(VENV) build dist site
