# Each target sets up what it needs, without root: a virtual environment with exactly what requirements.lock pins.
# Needed on the machine: Python 3.11 or newer with pip, GNU make, bash. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

# The first of these that runs and is new enough makes the environment; `make PYTHON=/path/to/python ...` names another.
# A distribution builds its own with a profile; what a version manager compiled without one computes a third slower.
PYTHON ?= /usr/bin/python3.11 python3.11 python3.12 python3.13 python3 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo up test e2e sim chaos soak check lint format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	echo
	echo "  ARGS=... is handed on: make test ARGS='-k audit', make up ARGS='--workers 4', make lock ARGS=--upgrade"

demo: $(READY) ## Train on three workers, kill one in mid-step, watch the others go on; about two minutes, the first time also what pip takes
	@$(BIN)/regroup demo $(ARGS)

up: $(READY) ## Start a cluster on this machine; Ctrl-C stops it
	@$(BIN)/regroup up $(ARGS)

test: $(READY) ## Run all tests that need no GPU; 20 to 40 minutes on 2 cores
	@$(BIN)/python -m compileall -q services # once, for the hundreds of processes that import it
	@$(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m 'not docker and not long' $(ARGS)

e2e: $(READY) ## Build the images, start a cluster in containers, and do to it what machines do; needs a Docker engine
	@$(BIN)/pytest tests/docker -m docker $(ARGS)

sim: $(READY) ## Live through 10 000 simulated clusters under faults; 5 to 11 minutes on 2 cores
	@$(BIN)/regroup sim $(ARGS)

chaos: $(READY) ## Do real faults to real processes in every phase of a job, and judge; about a quarter of an hour
	@$(BIN)/regroup chaos $(ARGS)

soak: $(READY) ## Regroup a thousand times, show that nothing grows, then half an hour of faults; about three quarters of an hour
	@$(BIN)/regroup soak $(ARGS)

check: lint ## Lint, types, import rules, unit and property tests; some minutes
	@$(BIN)/pytest -m 'not cluster and not docker and not long' $(ARGS)

lint: $(READY) ## Lint, formatting, types and import rules alone
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format the code, and mend what the linter can mend
	@$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(READY) ## Pin what pyproject.toml asks for in requirements.lock; ARGS=--upgrade takes newer releases
	@mkdir -p build
	cp requirements.lock build/pins.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > build/dev.in
	$(BIN)/pip-compile --quiet --strip-extras --annotation-style=line --no-header --no-emit-options \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --unsafe-package=pip \
	  --extra=coordinator --extra=embedded --extra=worker --upgrade-package=torch==2.13.0 $(ARGS) \
	  --output-file=build/pins.txt pyproject.toml build/dev.in
	# The head of the file stays; what it promises about the pins is done here.
	sed '/^$$/q' requirements.lock > build/requirements.lock
	sed -nE 's/ \(pyproject\.toml\)//; s/-r build\/dev\.in/regroup (dev)/; s/^([^ +]+)\+[a-z0-9.]+/\1/; s/ +# via/  # via/; /^(cuda-|triton|nvidia-[^m])/d; /^[a-z0-9]/p' \
	  build/pins.txt >> build/requirements.lock
	mv build/requirements.lock requirements.lock
	git --no-pager diff --stat -- requirements.lock 2> /dev/null || true

clean: ## Remove the environment and everything that was generated
	@rm -rf $(VENV) build dist services/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find services tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. Made once; brought up to date when a pin or an entry point changes.
$(READY): requirements.lock pyproject.toml
	@if ! $(BIN)/python -c 'import pip; $(NEW_ENOUGH)' 2> /dev/null; then
	  python=
	  for wanted in 'import ensurepip' 'import pip' pass; do # rather one that can make it without more ado
	    for each in $(PYTHON); do
	      if "$$each" -c "$$wanted; $(NEW_ENOUGH)" 2> /dev/null; then python=$$each; break 2; fi
	    done
	  done
	  if [ -z "$$python" ]; then
	    echo "regroup needs Python 3.11 or newer, and none of these is: $(PYTHON)." >&2
	    echo "Install one, or name yours: make PYTHON=/path/to/python ..." >&2
	    exit 1
	  fi
	  echo "Making $(VENV) with $$("$$python" --version)"
	  # Some systems ship venv without the pip to put in; then the Python's own pip puts it in.
	  if ! "$$python" -m venv --clear $(VENV) > /dev/null 2>&1; then
	    "$$python" -m venv --clear --without-pip $(VENV)
	    "$$python" -m pip --quiet --python $(BIN)/python install pip
	  fi
	fi
	echo "Installing the $$(grep -c == requirements.lock) packages of requirements.lock (the first time takes minutes: torch is large)"
	if ! $(BIN)/python -m pip install --no-compile --requirement requirements.lock 2>&1 | tee $(VENV)/install.log \
	  | awk '/ Downloading .*MB\)/ {print "  " $$2 " " $$3 " " $$4; fflush()} /^Installing/ {print "  unpacking"; fflush()} \
	    / Retrying / && !told++ {print "  an index does not answer, and pip tries on: $(VENV)/install.log says which"; fflush()}'; then
	  grep -vE '^(WARNING|Requirement already)' $(VENV)/install.log | cut -c 1-300 | tail -n 10 >&2
	  echo "pip could not install requirements.lock; all that it said is in $(VENV)/install.log" >&2
	  exit 1
	fi
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # on all cores, and pip would do it on one; some files are for other Pythons
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
