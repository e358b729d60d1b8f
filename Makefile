# Everything a person does with this project. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTABLE := $(VENV)/.testable

# make run SOURCE=/your/folder STORE=/your/store.duckdb PROFILE=/your/profile.toml FACTS=/your/facts CHUNKER=parent_child
export RAGSPINE_SOURCE := $(or $(SOURCE),$(RAGSPINE_SOURCE))
export RAGSPINE_STORE := $(or $(STORE),$(RAGSPINE_STORE))
export RAGSPINE_PROFILE := $(or $(PROFILE),$(RAGSPINE_PROFILE))
export RAGSPINE_FACTS := $(or $(FACTS),$(RAGSPINE_FACTS))
export RAGSPINE_CHUNKER := $(or $(CHUNKER),$(RAGSPINE_CHUNKER))
export RAGSPINE_RELATION_EXTRACTOR := $(or $(EXTRACTOR),$(RAGSPINE_RELATION_EXTRACTOR))
export RAGSPINE_ALLOW_MASS_REMOVAL := $(or $(ALLOW_MASS_REMOVAL),$(RAGSPINE_ALLOW_MASS_REMOVAL))
export RAGSPINE_ALLOW_LOWER_LABELS := $(or $(ALLOW_LOWER_LABELS),$(RAGSPINE_ALLOW_LOWER_LABELS))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help adapters run check ui serve test lint style types contracts suite bench e2e fuzz attack soak llm lock clean

help: ## list the targets
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

# uv installs in a fraction of the time, where it is found and may reach what pip does.
UV := $(shell command -v uv 2>/dev/null)
install = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python $(1) 2>/dev/null || )$(BIN)/python -m pip install --quiet $(1)

$(READY): requirements/run.txt pyproject.toml
	@echo "Setting up $(VENV) (less than a minute, once)..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@$(call install,--require-hashes -r requirements/run.txt)
	@$(call install,--no-deps --no-build-isolation --editable .)
	@touch $(READY)

$(TESTABLE): $(READY) requirements/test.txt
	@echo "Adding what the tests need to $(VENV)..."
	@$(call install,--require-hashes -r requirements/test.txt)
	@touch $(TESTABLE)

run: $(READY) ## bring everything up to date with the source folder and prove the promises
	@$(BIN)/python -m ragspine_assets.defs.launch refresh

check: $(READY) ## prove the promises on what is stored; exit 1 when one is broken
	@$(BIN)/python -m ragspine_assets.defs.launch checks

ui: $(READY) ## open Dagster on this machine only (it has no login)
	@test -e .dagster/storage/schedules/schedules.db || $(BIN)/python -c 'from ragspine_assets.defs.launch import open_instance as o; o()'
	@echo "Dagster: http://127.0.0.1:$(or $(PORT),3000) (Ctrl-C ends it)"
	@$(BIN)/python -m ragspine_assets.defs.ui --port $(or $(PORT),3000)

serve: $(READY) ## answer over HTTP from what is published, to this machine only unless CLIENTS=clients.toml names who may ask
	@$(BIN)/ragspine serve $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST)) $(if $(CLIENTS),--clients $(CLIENTS))

# Each of these says what is wrong in one piece, and nothing where all is well; the tests show how far they are.
quietly = @out=$$($(1) 2>&1) || { echo "$$out"; exit 1; }

test: $(TESTABLE) ## lint, types, import contracts and all tests, side by side
	@$(MAKE) --no-print-directory --keep-going --jobs style types contracts suite

lint: style types contracts ## lint, types and import contracts

style: $(TESTABLE)
	$(call quietly,$(BIN)/ruff check . && $(BIN)/ruff format --check .)

types: $(TESTABLE)
	$(call quietly,$(BIN)/basedpyright)

contracts: $(TESTABLE)
	$(call quietly,$(BIN)/lint-imports)

# Modules that are compiled once spare every process that a test starts a second.
suite: $(TESTABLE)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --dist worksteal

bench: $(TESTABLE) ## measure, with the peers side by side
	@$(call install,--require-hashes -r requirements/bench.txt)
	@for benchmark in benchmarks/*.py; do echo "== $$benchmark"; $(BIN)/python $$benchmark || exit 1; done

e2e: $(TESTABLE) ## drive the UI in a real browser (needs Debian's chromium), and let a schedule fire
	@$(call install,--require-hashes -r requirements/e2e.txt)
	@E2E=1 $(BIN)/python -m pytest ragspine_assets_tests/e2e

adapters: $(TESTABLE) ## the retrievers of LangChain, LlamaIndex and Haystack, with these frameworks
	@$(call install,--require-hashes -r requirements/adapters.txt)
	@$(BIN)/python -m pytest ragspine_assets_tests/adapters

attack: $(TESTABLE) ## the collected attacks on a fresh service, in under five minutes
	@PYTHONPATH=. $(BIN)/python scripts/attack.py

fuzz: $(TESTABLE) ## mutated files through extraction, and whether time follows the text, SECONDS=120 each
	@$(BIN)/python scripts/fuzz.py --seconds $(or $(SECONDS),120)
	@$(BIN)/python scripts/fuzz_time.py --seconds $(or $(SECONDS),120)

soak: $(TESTABLE) ## runs from three doors, kills, cancels, full disks, an unmounted source, edits, SECONDS=600 long
	@$(BIN)/python scripts/soak.py --seconds $(or $(SECONDS),600)

llm: $(READY) ## add what asking a language model needs
	@$(call install,--require-hashes -r requirements/llm.txt)

LOCK = uv pip compile --quiet --universal --no-strip-extras --generate-hashes --no-annotate --no-header --no-emit-index-url \
	--python-version 3.11 pyproject.toml

lock: ## write the hashed lists of packages anew from pyproject.toml (needs uv; UPGRADE=1 takes newer ones)
	@$(LOCK) requirements/build.in --extra ui --extra serve --extra mcp $(if $(UPGRADE),--upgrade) -o requirements/run.txt
	@$(LOCK) --extra ui --extra serve --extra mcp --extra llm -c requirements/run.txt $(if $(UPGRADE),--upgrade) -o requirements/llm.txt
	@$(LOCK) requirements/build.in --extra ui --extra serve --extra mcp --extra llm --extra tokens --extra demo --extra dev \
		-c requirements/llm.txt $(if $(UPGRADE),--upgrade) -o requirements/test.txt
	@$(LOCK) --extra bench -c requirements/test.txt $(if $(UPGRADE),--upgrade) -o requirements/bench.txt
	@$(LOCK) --extra langchain --extra llama-index --extra haystack -c requirements/test.txt $(if $(UPGRADE),--upgrade) -o requirements/adapters.txt
	@$(subst pyproject.toml,requirements/e2e.in,$(LOCK)) -c requirements/test.txt $(if $(UPGRADE),--upgrade) -o requirements/e2e.txt

clean: ## remove what setting up and testing left
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
