# Everything a newcomer needs, with nothing but Python 3.11 or later on the machine.
# The environment is rebuilt whenever pyproject.toml is newer than the stamp inside it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint kube-assets test-kube bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## simulate the example cluster and show who ran where, and why others wait
	@$(BIN)/stromboli simulate examples/demo.yaml

test: lint ## lint, then run every test that needs nothing but Python
	@$(BIN)/python -m pytest -q -n 2 --ignore=tests/kube

lint: $(STAMP) ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

kube-assets: $(STAMP) ## get etcd, kube-apiserver and kubectl for test-kube (eight minutes, once)
	@scripts/kube-assets

ifndef KUBEBUILDER_ASSETS
test-kube: kube-assets
endif
test-kube: $(STAMP) ## run the tests that need a real API server
	@KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$(scripts/kube-assets --where)}" $(BIN)/python -m pytest -q tests/kube

bench: $(STAMP) ## measure the scheduler on this machine
	@$(BIN)/stromboli bench cycle

clean: ## remove the environment and all caches
	@rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@echo "Setting up $(VENV) (once; takes a minute) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stromboli needs Python 3.11 or later; try: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
