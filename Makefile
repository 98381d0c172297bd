# Pilotage: every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.demo

.DEFAULT_GOAL := help
.PHONY: help install demo chat picture quick test test-near test-all test-vllm check docs reference bench instructions budgets bench-peers torture soak attack format lock release clean

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## create .venv with everything, pinned by constraints.txt and checked by hash

# Only wheels, each of which has its hash there: building one would bring tools along that nobody has checked. The project
# itself has no hash; it is built with the hatchling that was installed before, and nothing is fetched for it.
NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo 'Pilotage needs Python 3.11 or newer; name one: make PYTHON=python3.12 $@'; exit 1; }

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(STAMP): pyproject.toml constraints.txt
	@$(NEW_ENOUGH)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --only-binary :all: --require-hashes --requirement constraints.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check --quiet --disable-pip-version-check
	@touch $@ $(DEMO_STAMP)

# The package and what the demo uses: no checkers, no documentation tools.
$(DEMO_STAMP): pyproject.toml constraints-demo.txt
	@$(NEW_ENOUGH)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --only-binary :all: --require-hashes --requirement constraints-demo.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# A server of your own instead of the offline model: make demo MODEL_BASE_URL=http://127.0.0.1:8000/v1 MODEL_NAME=...
MODEL := $(if $(MODEL_BASE_URL),PILOTAGE_MODEL_BASE_URL='$(MODEL_BASE_URL)' PILOTAGE_MODEL_NAME='$(MODEL_NAME)')

demo: $(DEMO_STAMP) ## a code assistant works, asks, is killed with SIGKILL and goes on: no key, no server
	@$(or $(MODEL),env -u PILOTAGE_MODEL_BASE_URL) $(BIN)/python -m examples.code_assistant.demo

chat: $(DEMO_STAMP) ## talk to the code assistant in this folder, or in FOLDER=...
	@$(MODEL) $(BIN)/python -m examples.code_assistant.chat $(FOLDER)

picture: $(DEMO_STAMP) ## draw docs/images/demo.svg anew from what the demo prints
	@FORCE_COLOR=1 $(BIN)/python -m examples.code_assistant.demo | $(BIN)/python tools/terminal_picture.py docs/images/demo.svg

quick: $(STAMP) ## run unit tests and conformance kits on memory, in less than a minute
	@$(BIN)/python -m pytest -q -n auto --memory tests/unit tests/conformance

# Hundreds of tests start processes: without bytecode each of them would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := $(BIN)/python -m compileall -q -x '/test_[^/]*\.py$$' src examples tests

# More than half of the time tests wait for servers, processes and disks: three workers for each core. Who is done takes
# over the end of another one's share.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 1))')
SHARED := -n $(WORKERS) --dist worksteal

# The packages of the page and Chromium are installed here, where no test has a time limit yet. Meanwhile pytest
# rewrites the assertions of the tests, which otherwise every worker would do for itself.
PREPARE := $(BIN)/python -m pytest -q --collect-only > /dev/null & $(BIN)/python -m tests.pages.rig; code=$$?; wait; exit $$code

# A share of them: make test TESTS="tests/unit tests/programs"
TESTS ?=

test: $(STAMP) ## run all tests, or TESTS=...
	@$(COMPILE)
	@$(if $(TESTS),,$(PREPARE))
	@$(BIN)/python -m pytest -q $(SHARED) $(TESTS)

test-near: $(STAMP) ## run the tests that are close to what differs from main, or from BASE=...
	@$(BIN)/python tools/near.py $(or $(BASE),main)

PYTHONS ?= 3.11 3.12 3.13

test-all: ## run all tests, or TESTS=..., on each of PYTHONS="3.11 3.12 3.13", each in an environment of its own
	@for version in $(PYTHONS); do \
	  python=$$($(PYTHON) tools/interpreters.py $$version) || exit 1; \
	  echo "Python $$version"; \
	  $(MAKE) --no-print-directory PYTHON=$$python VENV=.venv-$$version test || exit 1; \
	done

test-vllm: $(STAMP) ## install a real vLLM server (2.5 GB, Python 3.11) and test against it
	@$(BIN)/python tools/vllm/install.py
	@$(BIN)/python -m pytest -q tests/live/vllm

# Every tool reports, also when one before it has found something.
CHECKS := check-lint check-format check-layers check-dependencies check-pyright check-mypy
.PHONY: $(CHECKS)
check: $(STAMP) ## lint, format, layers, declared dependencies, types; reports the findings of all tools at once
	@$(MAKE) --no-print-directory --keep-going -j2 --output-sync=target $(CHECKS)

check-lint: $(STAMP)
	@$(BIN)/ruff check .

check-format: $(STAMP)
	@$(BIN)/ruff format --check .

check-layers: $(STAMP)
	@$(BIN)/lint-imports

check-dependencies: $(STAMP)
	@$(BIN)/deptry src

check-pyright: $(STAMP)
	@$(BIN)/basedpyright

check-mypy: $(STAMP)
	@$(BIN)/mypy

docs: $(STAMP) ## build the documentation into site/, warnings are errors
	@PYTHONPATH=. $(BIN)/zensical build --config-file mkdocs.yml --strict --clean
	@$(BIN)/python -m tools.site site

reference: $(STAMP) ## write docs/reference anew from what the packages export
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/prompt_table.py

bench: $(STAMP) ## measure ratios, write benchmarks/results.json
	@$(BIN)/python benchmarks/run.py

instructions: $(STAMP) ## count the instructions of runs and turns with valgrind, write benchmarks/instructions.json
	@$(BIN)/python -m benchmarks.instructions

# The tests of which make test draws a part; those of attacks are make attack's.
SAMPLED = $(shell grep -rlE 'exhaustive|second_stops|mark\.sample|import examples' tests --include='test_*.py' | grep -v '^tests/attack/' | sort)

torture: $(STAMP) ## every pair of crashes; kill real processes over real databases, at every moment and at random (many minutes)
	@$(COMPILE)
	@$(BIN)/python -m pytest -q -n auto --exhaustive -o faulthandler_timeout=3600 $(SAMPLED)
	@$(BIN)/python -m tests.torture.run

SECONDS ?= 3600

soak: $(STAMP) ## work for an hour, or SECONDS=..., on both databases; fails where memory, threads, files or the time of a round grow
	@$(COMPILE)
	@$(BIN)/python -m tests.soak.run --seconds $(SECONDS)

attack: $(STAMP) ## attack the edges with every example, print for each kind: tried, held, broken; write the table of the docs
	@$(COMPILE)
	@$(BIN)/python -m pytest -q $(SHARED) --exhaustive --attacks tests/attack/results.json \
	  -o faulthandler_timeout=1800 tests/attack
	@$(BIN)/python -m tools.attacks

# make test has the budgets of ephemeral runs; this has all.
budgets: $(STAMP) ## count instructions again, and compare them with benchmarks/instructions.json
	@$(BIN)/python -m benchmarks.instructions --check

# LangGraph, LangChain's agent, Pydantic AI (with DBOS: durable), the SDK of OpenAI, and one that is made to be fast.
PEERS := langgraph pydantic-ai-slim openai-agents langchain agno dbos
PACKAGES_OF_langchain := langchain langgraph
PACKAGES_OF_dbos := 'pydantic-ai-slim[dbos]'

bench-peers: $(STAMP) ## measure other frameworks too, each in an environment of its own
	@$(foreach peer,$(PEERS),{ test -x $(VENV)/peers/$(peer)/bin/python || $(PYTHON) -m venv $(VENV)/peers/$(peer); } && \
	  $(VENV)/peers/$(peer)/bin/python -m pip install --quiet --disable-pip-version-check $(or $(PACKAGES_OF_$(peer)),$(peer)) &&) true
	@$(BIN)/python benchmarks/run.py comparison

format: $(STAMP) ## let ruff put the code in order
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

lock: $(STAMP) ## pin anew what make installs, with hashes (no addresses end up in the file)
	@$(BIN)/python tools/lock.py

release: $(STAMP) ## build, check and try the distributions; with VERSION=... raise the version and cut the changelog first
	@$(BIN)/python -m tools.release $(VERSION) --pythons '$(PYTHONS)'

clean: ## remove everything that was made
	rm -rf $(VENV) .venv-* .vllm site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
