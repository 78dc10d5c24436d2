# Every target installs what it needs on a fresh machine and is fast the second time. `make` lists them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
RUN_READY := $(VENV)/run-ready
BENCH_VENV := .bench-venv
BENCH_READY := $(BENCH_VENV)/ready
APART_VENV := .bench-venv-apart
APART_READY := $(APART_VENV)/ready
# Processes start faster with compiled sources, also where the environment forbids it.
export PYTHONDONTWRITEBYTECODE :=
export PIP_NO_WARN_SCRIPT_LOCATION := 1
STARTED := $(shell date +%s)
step = printf '%4d s  %s\n' $$(($$(date +%s) - $(STARTED)))
PIP_QUIET := -qq --disable-pip-version-check --no-input
# A Debian package ($1), unless one of its programs ($2) is there.
define install
for name in $2; do command -v $$name >/dev/null && exit 0; done; \
if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
  $(step) "installing $1 (apt-get)" && \
  { apt-get install -qq -y --no-install-recommends $1 || { apt-get update -qq && \
    apt-get install -qq -y --no-install-recommends $1; }; } >/dev/null 2>$(VENV)/$1.log || \
  { cat $(VENV)/$1.log; exit 1; }; \
else \
  echo "The tests need $1; install it, on Debian with: sudo apt-get install $1"; exit 1; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: python help setup serve ui ui-test chromium prometheus alertmanager redis screenshots test test-all check sweep campaign simulate mutants mutation-sweep bench format openapi lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) ## create the virtual environment with pinned dependencies

serve: $(RUN_READY) ui ## set up what running needs, build the page and start Hourbell on SQLite
	@$(step) "starting Hourbell"
	@HOURBELL_LOG_FORMAT=$${HOURBELL_LOG_FORMAT:-console} $(BIN)/hourbell serve

ui: $(RUN_READY) ## build the web page into src/hourbell/page, if its sources have changed
	@$(BIN)/python ui/build_page.py $(STARTED)

ui-test: $(RUN_READY) ## types and tests of the web page, if its sources have changed
	@$(BIN)/python ui/build_page.py $(STARTED) --test

chromium: ## install Chromium for the tests of the web page, if it is missing (Debian's package; as root)
	@$(call install,chromium,chromium chromium-browser google-chrome-stable google-chrome)

prometheus: ## install Prometheus for the tests of deploy/, if it is missing (Debian's package; as root)
	@$(call install,prometheus,promtool)

redis: ## install Redis for the tests of analytics, if it is missing (Debian's package; as root)
	@$(call install,redis-server,redis-server)

alertmanager: ## install Alertmanager for the tests of its channel, if it is missing (Debian's package; as root)
	@$(call install,prometheus-alertmanager,prometheus-alertmanager alertmanager)

screenshots: $(READY) ui chromium ## make the screenshots of the docs; every screen into a folder: make screenshots ALL=/tmp/screens
	@$(BIN)/python -m tests.page $(if $(ALL),--all $(ALL))

test: check ui ui-test chromium ## run `make check` and the tests that every change must pass: at most 8 minutes on 2 cores
	@$(BIN)/pytest -n auto --dist worksteal -m "not full and not sweep"

test-all: check ui ui-test chromium prometheus alertmanager redis ## run every test, the simulation, the campaign and the mutants (hours)
	@TEST_TIER=all $(BIN)/pytest -n auto --dist worksteal
	@$(MAKE) --no-print-directory simulate campaign mutants

check: $(READY) ## check style, types and layers
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && echo "style ok"
	@$(BIN)/mypy --no-error-summary && echo "types ok"
	@$(BIN)/lint-imports --no-logo >$(VENV)/layers.log 2>&1 && echo "layers ok" || { cat $(VENV)/layers.log; exit 1; }

sweep: $(READY) ## test every transition of every time zone, 2000 to 2040 (minutes)
	@$(BIN)/pytest -n auto -m sweep

campaign: $(READY) ## inject real faults at full size, about an hour: make campaign SEED=1 SCALE=1 ONLY=kills,frozen
	@$(BIN)/python -m tests.faults --seed $(or $(SEED),1) --scale $(or $(SCALE),1) --only "$(ONLY)" --json campaign.json

simulate: $(READY) ## simulate the engine with virtual time and random faults: make simulate SEEDS=10000
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1000)

mutants: $(READY) ## remove each safeguard in a copy, and check that a test fails
	@$(BIN)/python -m tests.mutants

mutation-sweep: $(READY) ## mutate one expression at a time, and list survivors: make mutation-sweep ONLY=core/run/settle.py
	@$(BIN)/python -m tests.mutants.sweep --only "$(ONLY)"

bench: $(BENCH_READY) $(APART_READY) ## run the benchmarks beside their peers; one alone, smaller: make bench ONLY=drain:runs=2000
	@$(BENCH_VENV)/bin/python -m bench $(ONLY)

format: $(READY) ## format the sources
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

openapi: $(READY) ## generate docs/openapi.json
	@$(BIN)/python -m hourbell.api.openapi >$(VENV)/openapi.json && mv $(VENV)/openapi.json docs/openapi.json

lock: ## update the pinned dependencies (needs uv); all lock files have the versions of dev.txt
	@for name in dev bench; do \
	  uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	    --no-strip-extras --python-version 3.11 --universal pyproject.toml requirements/$$name.in -o requirements/$$name.txt; \
	done
	@for name in run page; do \
	  uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	    --no-strip-extras --python-version 3.11 --universal -c requirements/dev.txt \
	    $$(test $$name = page || echo pyproject.toml) requirements/$$name.in -o requirements/$$name.txt; \
	done
	@uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --prerelease allow --python-version 3.11 --universal requirements/bench-apart.in \
	  -o requirements/bench-apart.txt

clean: ## remove environments and caches
	rm -rf $(VENV) $(BENCH_VENV) $(APART_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(RUN_READY): requirements/run.txt pyproject.toml | python
	@if test -e $(READY); then $(MAKE) --no-print-directory setup; else \
	  $(step) "creating the virtual environment $(VENV)" && \
	  $(PYTHON) -m venv --clear $(VENV) && \
	  $(step) "installing $$(grep -c == requirements/run.txt) packages" && \
	  $(BIN)/python -m pip install $(PIP_QUIET) --require-hashes -r requirements/run.txt && \
	  $(step) "installing Hourbell" && \
	  $(BIN)/python -m pip install $(PIP_QUIET) --no-deps --no-build-isolation --editable .; \
	fi
	@touch $@

$(READY): requirements/dev.txt pyproject.toml | python
	@$(step) "creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(step) "installing $$(grep -c == requirements/dev.txt) packages"
	@$(BIN)/python -m pip install $(PIP_QUIET) --require-hashes -r requirements/dev.txt
	@$(step) "installing Hourbell"
	@$(BIN)/python -m pip install $(PIP_QUIET) --no-deps --no-build-isolation --editable .
	@touch $@

python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $(PYTHON) is older; set PYTHON=/path/to/python"; exit 1; }

$(BENCH_READY): requirements/bench.txt pyproject.toml
	@echo "setting up $(BENCH_VENV) …"
	@$(PYTHON) -m venv --clear $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install $(PIP_QUIET) --require-hashes -r requirements/bench.txt
	@$(BENCH_VENV)/bin/python -m pip install $(PIP_QUIET) --no-deps --no-build-isolation --editable .
	@touch $@

$(APART_READY): requirements/bench-apart.txt
	@echo "setting up $(APART_VENV) …"
	@$(PYTHON) -m venv --clear $(APART_VENV)
	@$(APART_VENV)/bin/python -m pip install $(PIP_QUIET) --require-hashes -r requirements/bench-apart.txt
	@touch $@
