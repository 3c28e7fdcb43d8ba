# One command for each thing one does here. Each installs what it needs by itself: `make run` some
# 75 MB, `make test` and the others 400 MB, and Spark some 450 MB more where a Java 17 or newer can
# run it (`make test SPARK=` does without). ARGS is handed on: make test ARGS="tests/unit -x".

VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
PYTEST := $(VENV_PYTHON) -m pytest
# What starts no broker and needs no client: quick enough to run after each change.
QUICK_TESTS := tests/unit tests/support tests/transcripts $(wildcard tests/test_*.py)
# One process more than there are cores; tests/support/side_by_side.py says who gets which tests.
# ARGS="-n 0" has all of them in one.
SIDE_BY_SIDE := -n auto --maxprocesses=8 --dist loadscope
# What every change must pass: tests whose outcome depends on the code alone.
GATE := -m "not acceptance" --second-try --results=.cache/gate-results.json --durations=15
# The extra of pyproject.toml that is installed too; empty where no Java can run Spark.
SPARK := $(shell sh scripts/has_java.sh 17 && echo spark)
# Each is newer than its inputs while .venv has what running, or developing, needs.
CAN_RUN := $(VENV)/.can-run
CAN_DEVELOP := $(VENV)/.can-develop$(SPARK:%=-with-%)
CAN_AUDIT := $(VENV)/.can-audit
# The version is read from __init__.py, so a new one is installed again.
INSTALL_INPUTS := Makefile pyproject.toml scripts/make_venv.sh src/hareline/__init__.py \
	$(wildcard requirements/*.txt)

# What `make test-compiled` makes, from what, and runs there.
COMPILED_VENV := .venv-compiled
COMPILED_READY := $(COMPILED_VENV)/.ready
COMPILED_TESTS := tests/unit tests/conformance tests/transcripts tests/crash
SOURCES := $(shell find src -name '*.py')

SOAK_SECONDS ?= 3600
CRASH_ROUNDS ?= 200
FAULT_ROUNDS ?= 200
TARGET_SECONDS ?= 600
# Where the disk, the network, the clock or the memory fails.
FAULT_TESTS := tests/faults tests/crash/test_io_errors.py tests/crash/test_full_disk.py \
	tests/crash/test_tmpfs.py tests/server/test_memory_alarm.py tests/server/test_heartbeats.py

# Images of containers set this. Each of the many processes that tests start would compile all that it
# imports anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install install-broker run check test gate acceptance wheel test-compiled bench bench-jms bench-management bench-spark lint format reference screenshots fuzz faults fairness soak crash rabbitmqadmin2 lock audit sbom clean

help:                 ## Print this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

install: $(CAN_DEVELOP)        ## Make .venv with all that running, testing and the other targets need
install-broker: $(CAN_RUN)     ## Make .venv with what running the broker needs

# Without the stamps first, so that an install that is broken off is done again.
$(CAN_RUN): $(INSTALL_INPUTS)
	@rm -f $(CAN_RUN) $(VENV)/.can-develop*
	@sh scripts/make_venv.sh $(VENV)
	@touch $(CAN_RUN)

$(CAN_DEVELOP): $(INSTALL_INPUTS)
	@rm -f $(CAN_RUN) $(VENV)/.can-develop*
	@sh scripts/make_venv.sh $(VENV) dev$(SPARK:%=,%)
	@touch $(CAN_RUN) $(CAN_DEVELOP)

$(CAN_AUDIT): $(INSTALL_INPUTS) | $(CAN_RUN)
	@sh scripts/make_venv.sh $(VENV) supply
	@touch $(CAN_AUDIT)

run: install-broker   ## Run the broker
	$(VENV)/bin/hareline serve $(ARGS)

check: lint           ## Check style, types, layers, unit tests and transcripts, in some minutes
	$(PYTEST) -q -n auto --maxprocesses=8 $(QUICK_TESTS) $(ARGS)

# It downloads no more than `make install` does: the clients of other languages are tried where
# `make acceptance` has fetched them before.
test: export GOPROXY := off
test: export MAVEN_ARGS := --offline
test: export npm_config_offline := true
test: install         ## Run the tests that every change must pass
	$(PYTEST) $(SIDE_BY_SIDE) $(GATE) $(ARGS)

gate:                 ## Run what CI runs, on a clean clone of what is committed; HOGS=2: beside two busy processes
	@HOGS=$(HOGS) bash scripts/gate.sh

acceptance: install   ## Run all tests, group by group; GROUPS="java browser": these; CONTINUE=1: those not green yet
	$(VENV_PYTHON) -m scripts.acceptance $(if $(CONTINUE),--continue) $(GROUPS)

wheel: install-broker ## Build a wheel into dist; COMPILED=1: for this Python, with modules compiled
	$(if $(filter 1,$(COMPILED)),HATCH_BUILD_HOOK_ENABLE_CUSTOM=1) $(VENV_PYTHON) -m pip wheel \
		--disable-pip-version-check --no-deps --wheel-dir dist .

test-compiled: $(COMPILED_READY)  ## Run the tests of units, behaviour and crashes against compiled modules
	$(COMPILED_VENV)/bin/python -m pytest -o pythonpath=. -n auto --maxprocesses=8 \
		$(COMPILED_TESTS) $(ARGS)

# The package is a wheel here, and "src" is not on the path.
$(COMPILED_READY): $(INSTALL_INPUTS) scripts/compiled_wheel.py $(SOURCES) | $(CAN_RUN)
	@rm -rf $(COMPILED_READY) dist/compiled
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(VENV_PYTHON) -m pip wheel --quiet \
		--disable-pip-version-check --no-deps --wheel-dir dist/compiled .
	@sh scripts/make_venv.sh $(COMPILED_VENV) dev dist/compiled/hareline-*.whl
	@touch $(COMPILED_READY)

bench: install        ## Measure against RabbitMQ and write docs/benchmarks.md
	$(VENV_PYTHON) -m benchmarks.macro $(ARGS)

bench-jms: install    ## Measure both JMS clients and write docs/benchmarks-jms.md
	$(VENV_PYTHON) -m benchmarks.jms $(ARGS)

bench-management: install  ## Measure the HTTP API and the web UI and write docs/benchmarks-management.md
	$(VENV_PYTHON) -m benchmarks.management $(ARGS)

bench-spark: install  ## Measure Spark against the broker and write docs/benchmarks-spark.md
	$(VENV_PYTHON) -m benchmarks.spark $(ARGS)

lint: install         ## Check style and types
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: install       ## Bring the code into its form
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

reference: install    ## Write the files that are generated from the code
	$(VENV_PYTHON) -m scripts.write_reference

screenshots: install  ## Take the pictures of docs/web-ui.md again; needs Chromium
	$(VENV_PYTHON) -m tests.browser.screenshots $(ARGS)

fuzz: install         ## Fuzz each target for TARGET_SECONDS (600), then run property tests with many examples
	$(VENV_PYTHON) -m tests.fuzz --seconds $(TARGET_SECONDS)
	$(PYTEST) -m hypothesis --hypothesis-profile=fuzz --timeout=0 $(ARGS)

faults: install       ## Have disk, network, clock and memory fail, and all together FAULT_ROUNDS times (200)
	FAULT_ROUNDS=$(FAULT_ROUNDS) $(PYTEST) --timeout=0 $(FAULT_TESTS) $(ARGS)

fairness: install     ## Print what clients wait for another that does its worst, load by load
	FAIRNESS_SCALE=1 $(PYTEST) -m fairness --timeout=0 -s $(ARGS)

soak: install         ## Load one broker for SOAK_SECONDS (an hour) and watch its memory
	SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -m soak --timeout=0 -s $(ARGS)

crash: install        ## Kill brokers CRASH_ROUNDS times (200) at work, and look what is left
	CRASH_ROUNDS=$(CRASH_ROUNDS) $(PYTEST) -m crash --timeout=0 -s $(ARGS)

lock: $(CAN_AUDIT)    ## Pin what the container image and `make install` install, with hashes, in requirements/
	$(VENV_PYTHON) -m scripts.lock_requirements

audit: $(CAN_AUDIT)   ## Ask the index what is known against the pinned dependencies; needs the network
	$(VENV_PYTHON) -m pip_audit --strict --disable-pip --require-hashes -r requirements/run.txt $(ARGS)

sbom: $(CAN_AUDIT)    ## Write dist/hareline.cdx.json, what the image installs, as CycloneDX
	@mkdir -p dist
	$(VENV_PYTHON) -m cyclonedx_py requirements requirements/run.txt --pyproject pyproject.toml \
		--output-reproducible --output-file dist/hareline.cdx.json $(ARGS)

# Into the cache of the user, once; from then on `make acceptance` runs these tests too.
rabbitmqadmin2: install  ## Build the newer rabbitmqadmin and run its tests; needs Cargo
	RABBITMQADMIN_2=build $(PYTEST) tests/interop/test_rabbitmqadmin_2.py $(ARGS)

clean:                ## Remove what the other targets made
	rm -rf $(VENV) $(COMPILED_VENV) dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
