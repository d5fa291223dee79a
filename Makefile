# `make demo` runs the main job, `make test` the tests; both make .venv and install the package first. Only the tests and
# the other development commands install the development extras.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
DEVELOPMENT := .venv/installed-dev
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
GENERATED := docs/config.md docs/outcomes.md docs/schemes.md docs/commands.md

.PHONY: demo test slow check lint format article article-quick bench docs clean

demo: $(INSTALLED)
	$(BIN)/normexp sweep configs/lr_scan.yaml

test: $(DEVELOPMENT)
	$(BIN)/python -m pytest -n 2

slow: $(DEVELOPMENT)
	$(BIN)/python -m pytest -n 2 -m slow

check: lint test

lint: $(DEVELOPMENT)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m normexp.reference --check $(GENERATED)
	$(BIN)/python -m benchmarks.page --check

format: $(DEVELOPMENT)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m normexp.reference $(GENERATED)

# The article's claims, each run that they need, every verdict, and the report: results/article/REPORT.md and report.html,
# with all runs packed small; about eight hours on two cores. The quick one, eight minutes, takes one seed and 3 % of the
# steps, into results/article-quick: it shows that all of it works, and settles nothing. Runs that are packed are not
# made again.
article: $(INSTALLED)
	$(BIN)/normexp claims article --run; code=$$?; \
	for sweep in factors-no-norm factors-post; do \
		$(BIN)/normexp sweep normexp/texts/article/sweeps/$$sweep.yaml --out results/article || exit; \
	done; \
	$(BIN)/normexp pack results/article && exit $$code

article-quick: $(INSTALLED)
	$(BIN)/normexp claims article --run --quick

# The site of docs/, into build/site.
docs: $(DEVELOPMENT)
	$(INSTALL) '.[docs]'
	$(BIN)/python -m normexp.reference $(GENERATED)
	$(BIN)/python -m mkdocs build --strict

bench: $(DEVELOPMENT)
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.shapes
	$(BIN)/python -m benchmarks.calls
	$(BIN)/python -m benchmarks.sweep
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.page

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $(INSTALLED)

$(DEVELOPMENT): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[dev]'
	touch $(INSTALLED) $(DEVELOPMENT)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
