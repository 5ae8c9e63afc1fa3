# Two commands for a newcomer: `make demo` and `make test`. Both set the environment up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
AUDIT := .audit
DEMO := .demo
SERVED := .serve
EXTRAS := celery code dagster drive gemini ibis mcp milvus office otel postgres remote s3 serve
WORKSPACE ?= $(DEMO)
PORT ?= 3000
SERVE_PORT ?= 8766

# Where 6 GB of memory serve as a disk, the folders of the tests lie there: else they wait for SQLite to flush its files for
# most of the time.
# The workers share the cores, so each has one thread of Polars and of BLAS, whose idle threads would take a core from others,
# and takes the next file when it is done with one.
TEMPORARY = $(shell test -w /dev/shm && test "$$(df -Pk /dev/shm | awk 'NR == 2 { print $$4 }')" -gt 6000000 && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
PYTEST = folder=$$(mktemp -d $(TEMPORARY)/bs-XXXXXX) && trap 'rm -rf "$$folder"' EXIT INT TERM && chmod 755 "$$folder" && \
	export TMPDIR="$$folder" POLARS_MAX_THREADS=1 OPENBLAS_NUM_THREADS=1 && $(BIN)/python -m pytest -p tests.files_in_turn --numprocesses auto --dist load --maxschedchunk 1

.DEFAULT_GOAL := help
.PHONY: help install demo serve test test-long ui check lint audit lock clean

help: ## Say what the targets are
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv from requirements.lock

# The lock holds the extras, too, and is complete, so nothing is resolved: older pips stumble over extras in it otherwise.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 15) else "Backstory needs Python 3.11 to 3.14; name one with: make PYTHON=python3.12")'
	@echo "Setting up $(VENV) (once, a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## Run the pipeline on the example workspace and count the topics that it covers
	@$(BIN)/python -m examples.demo $(DEMO)

serve: $(STAMP) ## Open the assistant over the example on SERVE_PORT (default: 8766), and print a token for it
	@$(BIN)/python -m examples.serve $(SERVED) --port $(SERVE_PORT)

test: $(STAMP) ## Run every test on every core, without a network; the slowest 50 are listed at the end
	@$(PYTEST) --durations=50

test-long: $(STAMP) ## Run every test, with those that take long and more random repetitions (about half an hour)
	@export BACKSTORY_LONG_TESTS=1 BACKSTORY_HISTORIES=4 BACKSTORY_KILLS=10 BACKSTORY_CANCELS=20; $(PYTEST)

ui: $(STAMP) ## Open the Dagster UI on WORKSPACE (default: the demo's) and PORT (default: 3000)
	@test -f $(WORKSPACE)/backstory.yaml || { echo "$(WORKSPACE) holds no backstory.yaml, so it is not a workspace. \`make demo\` makes $(DEMO); name your own with: make ui WORKSPACE=DIR"; exit 2; }
	@$(BIN)/backstory dagster ui --workspace $(WORKSPACE) --port $(PORT)

check: lint audit ## What `make lint` and `make audit` do; fails if the audit cannot be made

lint: $(STAMP) ## Formatter, linter, type checker
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# pip-audit has an environment of its own, so that the lock need not hold it and what it requires.
audit: $(STAMP) ## Ask for known vulnerabilities of requirements.lock (needs a network)
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1; }
	@$(BIN)/python -m tests.packaging.audit_lock $(AUDIT)/bin/pip-audit

lock: ## Compile requirements.lock again (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url $(EXTRAS:%=--extra %) --group dev pyproject.toml --output-file requirements.lock

clean: ## Remove the environment, the demo workspace and the example's service
	rm -rf $(VENV) $(AUDIT) $(DEMO) $(SERVED)
