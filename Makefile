# The project's verbs. Each makes its own environment first: a machine needs Python 3.11 or later,
# and make.

VENV ?= .venv
# An interpreter of your own choice: make PYTHON=/path/to/python3
PYTHON ?=
# Passed on to the verb's program: make demo ARGS="--records 1000"
ARGS ?=

BIN := $(VENV)/bin
# Newer than pyproject.toml when the environment holds what pyproject.toml asks for.
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check format build clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Publish, kill a worker half way, and check that nothing was lost or reordered
	@$(BIN)/streams demo $(ARGS)

test: $(READY) ## Run the tests; those of partition/ have to cover all of its branches
	$(BIN)/python -m pytest tests/partition --quiet --cov=partition --cov-branch --cov-fail-under=100
	$(BIN)/python -m pytest --ignore=tests/partition --numprocesses=2 --dist=loadfile --quiet $(ARGS)

test-long: $(READY) ## Run the tests at their full length, the long ones too
	STREAMS_LONG=1 $(BIN)/python -m pytest -m "" --timeout=3600 $(ARGS)

check: $(READY) ## Lint, formatting, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## Format the code and repair what the linter can repair
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

build: $(READY) ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build

clean: ## Remove what the other verbs wrote, but not the environment
	rm -rf build dist htmlcov .coverage .coverage.* *.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -path './.*' -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

$(READY): pyproject.toml
	@set -e; \
	say() { echo "$$*" >&2; }; \
	if ! $(BIN)/python -c 'import pip; $(NEW_ENOUGH)' 2>/dev/null; then \
		found=; bare=; \
		for python in $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14); do \
			"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null || continue; \
			if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then found=$$python; break; fi; \
			bare=$${bare:-$$python}; \
		done; \
		if [ -z "$$found" ] && [ -n "$$bare" ]; then \
			say "$$bare cannot make an environment, because its ensurepip is missing:" \
				"on Debian and Ubuntu, apt-get install python3-venv;" \
				"or name another interpreter: make PYTHON=/path/to/python3"; \
			exit 1; \
		elif [ -z "$$found" ]; then \
			say "Python 3.11 or later is needed, and $(or $(PYTHON),python3) is not:" \
				"install it, or name one: make PYTHON=/path/to/python3"; \
			exit 1; \
		fi; \
		say "Making the environment in $(VENV) with $$found"; \
		"$$found" -m venv --clear $(VENV); \
	fi; \
	say "Installing what pyproject.toml asks for into $(VENV)"; \
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'; \
	touch $(READY)
