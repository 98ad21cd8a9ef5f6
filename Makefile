# Two commands for a fresh machine with Python 3.11 or newer: `make compare` and `make test`.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --constraint $(CONSTRAINTS)

PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile
SLICE_OF = $(if $(SLICE),--slice $(SLICE)/$(1))

# Some containers set it; every process of every test would then compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: compare compare-all test test-lowest suite slow exhaustive kept release check docs view clean

COMPARE := $(BIN)/gatedrnn compare --jobs 2 $(if $(FRESH),--fresh)
SHORT := --match layers --seeds 0 1 --cells lstm mingru

# Two or three cells on digits, parity and a forecast, in a minute and a half on two cores. FRESH=1 starts over.
compare: compare-says $(VENV)/.series
	$(COMPARE) --task digits $(SHORT) --epochs 20 --output runs/digits
	$(COMPARE) --task parity $(SHORT) signed-mingru --output runs/parity
	$(COMPARE) --task forecast $(SHORT) --total-steps 200 --output runs/forecast
	@echo "Reports: runs/digits/report.html, runs/parity/report.html, runs/forecast/report.html"

.PHONY: compare-says
compare-says:
	@echo "Cells on handwritten digits, on parity and on a forecast: about 90 s on two cores, after the installation into $(VENV)."

# Four cells with more seeds, on parity and digits by both ways of matching: several minutes.
compare-all: $(VENV)/.series
	$(COMPARE) --task parity --seeds 0 1 2 3 4
	$(COMPARE) --task digits --seeds 0 1 2
	$(COMPARE) --task forecast --match layers --seeds 0 1 2
	@echo "Reports: runs/compare-parity/report.html, runs/compare-digits/report.html, runs/compare-forecast/report.html"

test: check suite

# The suite with the lowest versions that pyproject.toml allows, in an environment of its own.
test-lowest: build/constraints-lowest.txt
	$(MAKE) suite VENV=.venv-lowest CONSTRAINTS=$<

suite: $(VENV)/.dev
	$(PYTEST)

# The tests that take long; SLICE=0, 1 or 2 for a third of them. Those of the docs, of the window and, by Triton's
# interpreter, of kernels for a GPU are among them.
slow: $(VENV)/.slow src/gatedrnn/view/page.html
	$(PYTEST) -m slow $(call SLICE_OF,3)

# Every combination of the axes of fast tests, where `make suite` takes pairs, and every cell; SLICE=0 … 7 for an eighth.
exhaustive: $(VENV)/.dev
	$(PYTEST) --exhaustive -m 'over and not slow' $(call SLICE_OF,8)

# The first steps of the kept runs, run again and compared with results/parts/: four minutes of one core.
kept: $(VENV)/.train
	$(BIN)/python tools/kept_parts.py check

# Wheel and sdist in dist/, each tried in an environment of its own; TAG=1 then tags the commit with the version.
release: $(VENV)/.dev
	$(BIN)/python tools/release.py $(if $(TAG),--tag)

# Lint, layout and types, without the tests.
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The page of `gatedrnn view`, from what its lock file names; its tests first.
view: src/gatedrnn/view/page.html

src/gatedrnn/view/page.html view/build/forget-bias.html &: view/package-lock.json view/build.mjs $(wildcard view/src/* view/notices/*)
	cd view && npm ci --ignore-scripts --no-audit --no-fund && npm test && npm run build

# Pages first, in both languages at once; then slides and the window's models, which take longest to come. What is up to
# date is kept.
SITE := docs/_build/html
EXTRA := docs/_build/extra/slides/which-cell.html docs/_build/extra/window/text.html
docs: $(VENV)/.docs
	$(MAKE) --jobs 2 pages-en pages-ko
	$(MAKE) $(EXTRA)
	cp -R docs/_build/extra/. $(SITE)
	$(BIN)/python docs/links.py $(SITE)
	@echo "Documentation: $(SITE)/index.html"

.PHONY: pages-en pages-ko
pages-en:
	$(BIN)/sphinx-build -W --keep-going docs $(SITE)

pages-ko:
	$(BIN)/sphinx-build -W --keep-going -c docs -D language=ko docs/learn/ko $(SITE)/learn/ko

docs/_build/extra/window/text.html: docs/window.py src/gatedrnn/view/page.html view/build/forget-bias.html | $(VENV)/.docs
	$(BIN)/python docs/window.py $(@D)

docs/_build/extra/slides/which-cell.html: docs/slides.py docs/measured.py docs/deck.py docs/templates/slides.html \
		$(wildcard results/*/*.json results/*/*/*.json) | $(VENV)/.docs
	PYTHONPATH=. $(BIN)/python docs/slides.py $(@D)

# The tested versions, with the lowest ones in the place of those that have one.
build/constraints-lowest.txt: constraints-lowest.txt constraints.txt
	mkdir -p build
	awk -F== 'NR == FNR { lowest[$$1] } NR == FNR || !($$1 in lowest)' $^ > $@

# torch first and alone, at the version of constraints.txt.
$(VENV)/.torch: $(CONSTRAINTS)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gatedrnn needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	@touch $@

$(VENV)/.train: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[train]'
	@touch $@

$(VENV)/.series: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[series,export]'
	@touch $@ $(VENV)/.train

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.train $(VENV)/.series

$(VENV)/.slow: $(VENV)/.dev
	$(INSTALL) --editable '.[docs,gpu-test]'
	@touch $@ $(VENV)/.docs

$(VENV)/.docs: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/.train

clean:
	rm -rf $(VENV) .venv-lowest .venv-outsiders .pytest_cache .mypy_cache .ruff_cache build dist docs/_build
