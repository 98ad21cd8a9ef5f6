# Two commands for a fresh machine with Python 3.11 or newer: `make compare` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: compare test slow check clean

# Parity and digits, four cells, both ways of matching, two seeds. FRESH=1 starts over.
compare: $(VENV)/.train
	$(BIN)/gatedrnn compare --task parity --seeds 0 1 --jobs 2 $(if $(FRESH),--fresh)
	$(BIN)/gatedrnn compare --task digits --seeds 0 1 --jobs 2 $(if $(FRESH),--fresh)
	@echo "Reports: runs/compare-parity/report.html and runs/compare-digits/report.html"

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

# The tests that take minutes.
slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

# Lint, layout and types, without the tests.
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch first and alone, at the version of constraints.txt.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gatedrnn needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	@touch $@

$(VENV)/.train: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.train

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist
