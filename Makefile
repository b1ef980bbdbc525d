# Every target sets up what it needs: `.venv` from pyproject.toml, and for the tests the npm peers under `.peers`.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PEERS := .peers/node_modules/.ready
BENCH_PEERS := .peers/bench/node_modules/.ready

.PHONY: help serve test lint fmt fuzz bench build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

serve: $(INSTALLED) ## run the bridge; ARGS="--port 8765" adds options
	$(BIN)/a2a-bridge serve --plain $(ARGS)

test: lint ## check everything and run all tests; ARGS="-k name" selects
	$(BIN)/python -m pytest $(ARGS)

# tsc finds omp's types beside the links in .peers.
lint: $(READY) $(PEERS) ## check style, types and imports, of the omp extension too; for a commit hook
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	ln -sf ../src/a2a_bridge/hosts/omp/extension.ts ../peers/driver.ts ../peers/tsconfig.json .peers/
	if [ -x .peers/node_modules/.bin/tsc ] || [ -n "$$CI" ]; then .peers/node_modules/.bin/tsc -p .peers; else echo "left out: tsc is not installed"; fi

fuzz: $(READY) ## send 100,000 mutated requests (make test: a few thousand)
	FUZZ_REQUESTS=100000 $(BIN)/python -m pytest tests/http/test_fuzz.py $(ARGS)

fmt: $(READY) ## mend style where that can be done by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) $(PEERS) $(BENCH_PEERS) ## measure, side by side with other servers
	$(BIN)/python -m bench.wire
	$(BIN)/python -m bench.start
	$(BIN)/python -m bench.hanging
	$(BIN)/python -m bench.connections
	$(BIN)/python -m bench.console
	$(BIN)/python -m bench.omp
	$(BIN)/python -m bench.tools

build: $(READY) ## build wheel and sdist into dist/
	rm -rf dist
	$(BIN)/python -m build

$(INSTALLED): pyproject.toml
	@echo "Installing the bridge into $(VENV) (about 95 MB) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(READY): $(INSTALLED)
	@echo "Installing the development tools into $(VENV) (about 140 MB) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# Without npm the tests say which of them are left out; in CI a missing peer fails them.
$(PEERS): peers/package.json $(READY)
	@echo "Installing omp and other programs for the tests into .peers (about 1 GB) ..."
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

clean: ## remove what the other targets made
	rm -rf $(VENV) .peers dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
