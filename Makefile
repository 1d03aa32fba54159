# Few verbs, each of which needs nothing done before it. `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip -qq --disable-pip-version-check
NODE := tests/interop/node
# It installs and makes the lock, so it is not in the lock itself.
UV := uv==0.13.7
ROUNDS ?= 20
MINUTES ?= 10
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check sim bench soak fuzz chaos cluster-chaos pages crash workflow-crash powercut interop-bacalhau mutants docs lock clean check-bench

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make .venv from the lock, with the dragoman command in it

demo: setup ## the whole mission in one finite run
	$(BIN)/dragoman demo $(ARGS)

test: setup ## every suite, three at a time (SUITES="unit spark" for some of them)
	scripts/ensure-test-programs
	$(BIN)/python scripts/run_tests.py $(SUITES)

check: setup ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/bandit --quiet --recursive --severity-level medium src
	$(BIN)/mypy

sim: setup ## the seeded simulation, in full (ARGS=--help)
	$(BIN)/python -m dragoman.testing $(ARGS)

bench: setup ## what things cost (ARGS=--help)
	$(BIN)/python -m benches $(ARGS)

check-bench: setup ## count the instructions of the hot path; fails if they grew (ARGS=--keep writes them)
	$(BIN)/python scripts/check_bench.py $(ARGS)

soak: setup ## every dialect under load and faults, MINUTES=10 long; prints figures, says what held
	$(BIN)/python -m dragoman.testing.soak --minutes $(MINUTES) $(ARGS)

fuzz: setup ## 100,000 mutated messages at every link of a live broker (ARGS=--help)
	$(BIN)/python -m dragoman.testing.fuzz --vectors tests/vectors $(ARGS)

chaos: setup ## outages of the broker (kill, stop, pauses) while workers of every dialect run jobs
	DRAGOMAN_CHAOS=1 $(BIN)/python -m pytest tests/interop/test_restarts.py tests/interop/test_restarts_upstream.py -v -s $(ARGS)

cluster-chaos: setup ## ROUNDS=20 faults of the nodes of a cluster under load; prints a table
	CLUSTER_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/interop/test_cluster.py -v -s $(ARGS)

powercut: setup ## cut the power of a ledger and of a broker, ROUNDS=20 times: no promise may be lost
	$(BIN)/python -m scripts.powercut --rounds $(ROUNDS) $(ARGS)

.PHONY: pipeline-chaos
pipeline-chaos: setup ## kill runs of the pipeline at every phase, and let two race (ARGS=--help)
	$(BIN)/python -m scripts.pipeline_chaos $(ARGS)

.PHONY: spark-cluster
spark-cluster: setup ## the pipeline and Spark's jobs on a cluster of processes, and through Spark Connect
	DRAGOMAN_SPARK_CLUSTER=1 $(BIN)/python -m pytest tests/pipeline/test_pipeline_cluster.py tests/spark/test_spark_cluster.py -v $(ARGS)

pages: setup ## type every shell block of README and docs, Spark's too
	DRAGOMAN_PAGES=1 $(BIN)/python -m pytest tests/pages -v $(ARGS)

crash: setup ## kill and restart real processes, ROUNDS=20 times
	DRAGOMAN_CRASH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/interop -m crash $(ARGS)

workflow-crash: setup ## a map of STEPS=100000 steps survives KILLS=10 kills of worker and broker
	DRAGOMAN_WORKFLOW_STEPS=$(or $(STEPS),100000) DRAGOMAN_WORKFLOW_KILLS=$(or $(KILLS),10) \
		$(BIN)/python -m pytest tests/interop/test_workflow_crash.py -v -s $(ARGS)

interop-bacalhau: setup ## both directions with a real Bacalhau, built with Go where that is installed
	$(BIN)/python scripts/interop_bacalhau.py $(ARGS)

.PHONY: mesh-chaos
mesh-chaos: setup ## faults of two linked brokers and of the link between them, while jobs run
	DRAGOMAN_CHAOS=1 $(BIN)/python -m pytest tests/interop/test_mesh_interop.py -v $(ARGS)

mutants: setup ## change the core and the loop in small ways: their tests must notice (ARGS=--help)
	$(BIN)/python scripts/mutants.py $(ARGS)

docs: setup ## build the documentation site into site/, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m scripts.build_site

lock: $(VENV)/bin/pip ## rebuild requirements.lock from pyproject.toml (ARGS=--upgrade for newer ones)
	$(PIP) install '$(UV)'
	$(BIN)/uv pip compile pyproject.toml --extra all --group dev --group docs --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --quiet $(ARGS) \
	  --output-file requirements.lock

clean: ## remove .venv and everything else that can be made again
	rm -rf $(VENV) build dist site demo-data spark-warehouse metastore_db derby.log $(NODE)/node_modules
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up, each step once -------------------------------------------------------------------

$(VENV)/bin/pip:
	scripts/make-venv $(VENV)

$(VENV)/.locked: requirements.lock | $(VENV)/bin/pip
	@echo "installing $$(grep -c == requirements.lock) locked packages, Spark among them (about 500 MB)"
	@# uv fetches and unpacks side by side and shows its progress. Where it cannot be had, pip does it.
	@if $(PIP) install '$(UV)'; \
	then $(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements.lock; \
	else $(BIN)/pip --disable-pip-version-check install --require-hashes -r requirements.lock; fi
	touch $@

$(VENV)/.ready: $(VENV)/.locked pyproject.toml
	$(PIP) install --no-deps --no-build-isolation -e .
	scripts/ensure-java
	touch $@

# The upstream peers that are written for Node; only where the interop suite asks for them.
ifneq ($(wildcard $(NODE)/package.json),)
$(VENV)/.ready: $(NODE)/node_modules/.ready
$(NODE)/node_modules/.ready: $(NODE)/package-lock.json
	scripts/ensure-node
	cd $(NODE) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@
endif
