# One command for each thing one does here. `make run`, `make test` and the others install what they
# need by themselves; ARGS is handed on: make test ARGS="tests/unit -x".

VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
PYTEST := $(VENV_PYTHON) -m pytest
STAMP := $(VENV)/.installed

SOAK_SECONDS ?= 3600
CRASH_ROUNDS ?= 200

.DEFAULT_GOAL := help
.PHONY: help install run test bench bench-jms lint format reference fuzz soak crash clean

help:                 ## Print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install: $(STAMP)     ## Make .venv with all that running and testing need

# The version is read from __init__.py, so a new one is installed anew.
$(STAMP): pyproject.toml scripts/make_venv.sh src/hareline/__init__.py
	@sh scripts/make_venv.sh $(VENV)
	@touch $@

run: install          ## Run the broker
	$(VENV)/bin/hareline serve $(ARGS)

test: install         ## Run the whole test suite
	$(PYTEST) $(ARGS)

bench: install        ## Measure against RabbitMQ and write docs/benchmarks.md
	$(VENV_PYTHON) -m benchmarks.macro $(ARGS)

bench-jms: install    ## Measure both JMS clients and write docs/benchmarks-jms.md
	$(VENV_PYTHON) -m benchmarks.jms $(ARGS)

lint: install         ## Check style and types
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: install       ## Bring the code into its form
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

reference: install    ## Write the files that are generated from the code
	$(VENV_PYTHON) -m scripts.write_reference

fuzz: install         ## Run the property tests with many thousands of examples each
	$(PYTEST) -m hypothesis --hypothesis-profile=fuzz --timeout=0 $(ARGS)

soak: install         ## Load one broker for SOAK_SECONDS (an hour) and watch its memory
	SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -m soak --timeout=0 -s $(ARGS)

crash: install        ## Kill brokers CRASH_ROUNDS times (200) at work, and look what is left
	CRASH_ROUNDS=$(CRASH_ROUNDS) $(PYTEST) -m crash --timeout=0 -s $(ARGS)

clean:                ## Remove what the other targets made
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
