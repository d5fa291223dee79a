# `make demo` runs the main job, `make test` the tests; both make .venv and install everything first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
ARTICLE := configs/article/6.2.yaml configs/article/6.3.yaml

.PHONY: demo test slow check format article article-quick bench clean

demo: $(STAMP)
	$(BIN)/normexp sweep configs/lr_scan.yaml

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m normexp.reference --check README.md
	$(BIN)/python -m pytest -n 2

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m normexp.reference README.md

# The article's tables in three settings; about two hours. The quick one is ten times shorter in every run.
article: $(STAMP)
	for config in $(ARTICLE); do $(BIN)/normexp sweep $$config --out results/article || exit $$?; done

article-quick: $(STAMP)
	for config in $(ARTICLE); do $(BIN)/normexp sweep $$config eval_every=1500 --scale 0.1 --out results/article-quick || exit $$?; done

bench: $(STAMP)
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.sweep
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.scaling

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
