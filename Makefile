# Every target sets up what it needs: `.venv` from pyproject.toml, and for the tests the npm peers under `.peers`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .peers/node_modules/.ready
BENCH_PEERS := .peers/bench/node_modules/.ready

.PHONY: serve test lint fmt fuzz bench build clean

serve: $(READY)
	$(BIN)/a2a-bridge serve --plain $(ARGS)

test: lint $(PEERS)
	$(BIN)/python -m pytest $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What `make test` does with a few thousand mutated requests.
fuzz: $(READY)
	FUZZ_REQUESTS=100000 $(BIN)/python -m pytest tests/http/test_fuzz.py $(ARGS)

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) $(PEERS) $(BENCH_PEERS)
	$(BIN)/python -m bench.wire
	$(BIN)/python -m bench.start
	$(BIN)/python -m bench.hanging
	$(BIN)/python -m bench.connections
	$(BIN)/python -m bench.console
	$(BIN)/python -m bench.omp
	$(BIN)/python -m bench.tools

build: $(READY)
	rm -rf dist
	$(BIN)/python -m build

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# Without npm the tests say which of them are left out; in CI a missing peer fails them.
$(PEERS): peers/package.json $(READY)
	mkdir -p .peers/node_modules
	cp peers/package.json .peers/
	if command -v npm >/dev/null; then npm install --prefix .peers --no-package-lock --no-audit --no-fund --silent; fi
	touch $@

# Other servers, to be measured beside ours. Nothing of theirs runs at the installation.
$(BENCH_PEERS): bench/peers/package.json
	mkdir -p .peers/bench/node_modules
	cp bench/peers/package.json .peers/bench/
	if command -v npm >/dev/null; then npm install --prefix .peers/bench --ignore-scripts --no-package-lock --no-audit --no-fund --silent; fi
	touch $@

clean:
	rm -rf $(VENV) .peers dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
