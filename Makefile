# Everything a newcomer needs, with nothing but Python 3.11 or later on the machine.
# The environment is rebuilt whenever pyproject.toml, constraints.txt or locks/ is newer than the stamp inside it.
# LOCKED=yes installs only files whose hashes are in locks/; see scripts/install.

PYTHON ?= python3
CONSTRAINTS_PYTHON ?= python3.11
export LOCKED
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BROWSER_STAMP := $(VENV)/.installed-browser

# For `make check`: a fast file or two for each feature, chosen so that they reach nearly all that `make mutants` changes.
CHECKED := architecture \
	descheduling/test_failures.py descheduling/test_move_state.py descheduling/test_successors.py \
	all_features/test_regressions.py fairness/test_packing.py fairness/test_scarce_resources.py \
	plugins/test_admission.py plugins/test_batching.py plugins/test_capacity.py plugins/test_taking_back.py \
	evictions/test_broken_gangs.py evictions/test_failed_attempts.py evictions/test_half_lost_promises.py evictions/test_turns.py \
	starvation/test_cleared_nodes.py starvation/test_giving_up.py starvation/test_stories.py \
	reservations/test_decisions.py reservations/test_gangs_of_several_sizes.py reservations/test_queues.py \
	queue_locks/test_reclaim.py queue_locks/test_placing.py volumes/test_claims_first.py gangs scheduling/test_small_jobs.py oracles \
	controllers/test_job_policies.py simulation/test_report.py explanations page/test_report_page.py configuration api \
	containment/test_live_scheduler.py live/test_binder.py live/test_dispatcher.py live/test_leader_election.py \
	live/test_metrics.py live/test_recorder.py live/test_scheduler_component.py live/test_volume_writer.py

.DEFAULT_GOAL := help
.PHONY: help demo check test test-pythons lint format kube-assets test-kube test-browser mutants soak bench sbom audit locks constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## simulate the example cluster, then run a whole cluster in one process for a minute
	@$(BIN)/stromboli simulate examples/demo.yaml
	@$(BIN)/stromboli up --demo --for 1m

check: lint ## lint, then run a chosen part of the tests, in less than a minute
	@$(BIN)/python -m pytest -q -n 2 $(addprefix tests/,$(CHECKED))

test: lint ## lint, then run every test that needs nothing but Python
	@$(BIN)/python -m pytest -q -n 2 --ignore=tests/kube --ignore=tests/browser

test-pythons: ## run the same tests on each of Python 3.11 to 3.14 that is installed; TESTS="tests/api ..." to select
	@scripts/test-pythons $(TESTS)

format: $(STAMP) ## lay out the code as `make lint` expects it
	@$(BIN)/ruff format .

lint: $(STAMP) ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q . || { echo "Run: make format"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports

kube-assets: $(STAMP) ## get etcd, kube-apiserver and kubectl for test-kube (eight minutes, once)
	@scripts/kube-assets

ifndef KUBEBUILDER_ASSETS
test-kube: kube-assets
endif
test-kube: $(STAMP) ## run the tests that need a real API server
	@KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$(scripts/kube-assets --where)}" $(BIN)/python -m pytest -q tests/kube

test-browser: $(BROWSER_STAMP) ## run the tests of the page in Chromium, which is installed if it is missing and that is allowed
	@browser=$$(scripts/browser) && STROMBOLI_BROWSER="$$browser" \
		KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$(scripts/kube-assets --where)}" $(BIN)/python -m pytest -q tests/browser

mutants: $(STAMP) ## change 20 places of the source, one at a time, and see whether tests notice; MUTANTS="--seed 7 --count 300"
	@$(BIN)/python -m tests.mutants $(MUTANTS)

soak: $(STAMP) ## run live processes in simulated worlds with faults: SEEDS=10000 (FIRST=1) or HOURS=8
	@$(BIN)/python -m tests.faults $(if $(HOURS),--hours $(HOURS),--seeds $(or $(SEEDS),1000)) --first $(or $(FIRST),1)

bench: $(STAMP) ## measure the scheduler on this machine
	@$(BIN)/stromboli bench cycle

sbom: $(STAMP) ## write sbom.json: what is installed to run Stromboli, as CycloneDX
	@$(BIN)/python scripts/make-sbom >sbom.json.new && mv sbom.json.new sbom.json
	@echo "sbom.json lists $$(grep -c '"purl"' sbom.json) packages."

audit: ## ask PyPI for known weaknesses of everything in locks/ (needs the network)
	@scripts/audit $(PYTHON)

locks: ## write locks/ anew: the versions of constraints.txt, with the hashes of their files (needs the network)
	@scripts/make-locks $(CONSTRAINTS_PYTHON)

constraints: ## write constraints.txt and locks/ anew, with the newest versions that pyproject.toml allows (needs Python 3.11)
	@scripts/make-constraints $(CONSTRAINTS_PYTHON)
	@scripts/make-locks $(CONSTRAINTS_PYTHON)

clean: ## remove the environments and all caches
	@rm -rf $(VENV) .venv-3.* dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .mutants
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt locks/build.txt locks/dev.txt scripts/install
	@echo "Setting up $(VENV) (once; takes one to two minutes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stromboli needs Python 3.11 or later; try: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@scripts/install $(VENV) dev
	@touch $@

$(BROWSER_STAMP): $(STAMP) locks/browser.txt
	@scripts/install $(VENV) browser
	@touch $@
