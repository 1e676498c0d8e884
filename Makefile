# Every target runs on a fresh clone: what it needs is set up first, once.
# A list of targets: make help

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Named by the user, an interpreter is binding; otherwise an existing environment is kept.
ifneq ($(origin PYTHON),undefined)
this_python := --this-python
endif
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
MODEL ?= smollm2
ARM ?= structured-turbo
BUILD ?= build
PYTEST_ARGS ?=
BENCH_ARGS ?=
FUZZ_ARGS ?=
LAB_ARGS ?=
EXAMPLES ?= 200
STEPS ?= 10000
EVERY ?= 7

python := $(VENV)/bin/python
bin := $(VENV)/bin
setup_command = $(PYTHON) scripts/setup.py --venv $(VENV) $(this_python)
# A superuser must ask JupyterLab to start; nobody else needs the switch.
allow_root := $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)

##@ The workbook
.PHONY: workbook
workbook: python-found ## set up, build, fetch the model, run every notebook, write the report
	@$(setup_command) --phases 6
	@$(python) scripts/workbook.py --model $(MODEL) --arm $(ARM) --build $(BUILD)

.PHONY: lab
lab: setup ## open JupyterLab on the first notebook
	$(bin)/jupyter lab $(allow_root) $(LAB_ARGS) notebooks/00_start_here.ipynb

.PHONY: notebooks
notebooks: setup ## run every notebook top to bottom and put the outputs into it; executed copies in build/notebooks
	$(python) -m tq_core.nbtools execute notebooks/ --write --out $(BUILD)/notebooks

.PHONY: drift
drift: setup ## run every notebook and compare its outputs with the committed ones; changes none
	$(python) -m tq_core.nbtools execute notebooks/ --check --out $(BUILD)/notebooks

.PHONY: site
site: setup ## all notebooks and pages as HTML that needs no network, in build/site
	$(python) -m tq_core.nbtools site --out $(BUILD)/site --report $(BUILD)/report/report.html

.PHONY: report
report: setup ## write the validation report (MODEL=smollm2, ARM=structured-turbo)
	$(bin)/tq validate --model $(MODEL) --arm $(ARM) --out $(BUILD)/report

##@ Set-up
.PHONY: setup
setup: python-found ## create .venv with pinned versions and build the wasm modules (PYTHON=python3)
	@$(setup_command)

.PHONY: preflight
preflight: python-found ## name everything this machine lacks; installs nothing
	@$(PYTHON) scripts/preflight.py --venv $(VENV)

.PHONY: wasm
wasm: setup ## build the wasm modules from cpp/ (done by setup; skipped when up to date)
	@$(python) -m wasm.build

.PHONY: model
model: setup ## fetch a real model into the user's cache directory (MODEL=smollm2 or gemma)
	$(python) -m tq_core.model.fetch $(MODEL)

##@ Tests
.PHONY: test
test: setup ## the whole test suite (PYTEST_ARGS="-k name")
	@$(python) -m tq_core.model.fetch || { code=$$?; \
	  test $$code = 3 && echo "real model: not exercised, it could not be fetched" || exit $$code; }
	$(python) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: check
check: setup lint ## lint, types, layers and the fast tests, in a few minutes
	$(python) -m pytest -q -n $(JOBS) --dist loadfile -m "not slow and not model" $(PYTEST_ARGS)

.PHONY: lint
lint: style types layers ## ruff (code and notebooks), mypy, import-linter

.PHONY: style
style: setup
	$(bin)/ruff check .
	$(bin)/ruff format --check .

.PHONY: types
types: setup
	$(bin)/mypy

.PHONY: layers
layers: setup
	$(bin)/lint-imports --no-logo

.PHONY: format
format: setup ## let ruff rewrite code and notebooks
	$(bin)/ruff format .
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

.PHONY: bench
bench: setup ## time the decode step beside other implementations (BENCH_ARGS=--quick)
	$(bin)/tq bench --out $(BUILD)/bench $(BENCH_ARGS)

.PHONY: bench-peers
bench-peers: setup ## install what `make bench` compares with, into .venv-bench (builds ggml: minutes)
	$(python) -m validation.bench.peers.install --jobs $(JOBS)

.PHONY: parity
parity: setup ## every kernel on every backend: the same bits; certificate in build/parity
	$(bin)/tq parity --out $(BUILD)/parity

.PHONY: parity-deep
parity-deep: setup ## drawn sizes and values for every kernel, slow backends too (EXAMPLES=200)
	TQ_PARITY_EXAMPLES=$(EXAMPLES) $(python) -m pytest -q -n $(JOBS) tq_core/tests/kernels/test_parity_drawn.py

.PHONY: lifecycle
lifecycle: setup ## random lives of caches, 10,000 calls, and an interrupt every 7 lines (STEPS=, EVERY=)
	TQ_LIFECYCLE_STEPS=$(STEPS) TQ_FAULT_EVERY=$(EVERY) $(python) -m pytest -q -s --durations=0 \
	  tq_core/tests/cache/test_machine.py tq_core/tests/cache/test_interrupts.py

.PHONY: fuzz
fuzz: setup ## mutated files against the saved-cache reader (FUZZ_ARGS="--inputs 200000 --seed 1")
	$(python) -m validation.fuzz --out $(BUILD)/fuzz $(FUZZ_ARGS)

##@ Maintenance
.PHONY: golden
golden: setup ## rewrite the frozen vectors in validation/golden and print what changed
	$(python) -m validation.golden.refreeze

.PHONY: lock
lock: setup ## rewrite the pinned versions in requirements/
	$(python) -m venv $(BUILD)/lock-venv
	$(BUILD)/lock-venv/bin/python -m pip install -q uv packaging
	$(BUILD)/lock-venv/bin/python scripts/lock.py $(BUILD)/lock-venv/bin/uv

.PHONY: clean
clean: ## remove the environment and everything that was built (not the model)
	rm -rf $(VENV) $(VENV).old $(BUILD) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

.PHONY: python-found
python-found:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "Missing: $(PYTHON). Install CPython 3.10 to 3.13 (Debian: apt-get install python3 python3-dev python3-venv)," >&2; \
	  echo "or name another interpreter: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
