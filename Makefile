# Every target does its own set-up on a machine that has Python 3.11+ and can reach a package index.
# CI runs `make verify`, `make test` and `make demo`, nothing else.

# The first interpreter that is new enough; `make PYTHON=/path/to/python ...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
MEMBERS := python/contract python/core python/service python/scheduler python/client python/cli workers/python
BIN := .venv/bin
READY := .venv/.ready
# Among how many processes the tests are shared (tests/shares.py); 0: none, each test under the eyes of who runs it.
PROCESSES ?= 2
SHARED := -n $(PROCESSES) --max-worker-restart=0
PROTOS := $(shell find proto -name '*.proto' 2>/dev/null)
GOOGLEAPIS := build/googleapis/.copied
GO_WORKER := build/go-worker/worker

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long conformance conformance-python conformance-go conformance-java verify lint types contract imports generated proto java descriptor baseline bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock, with the workspace's packages in it

$(READY): requirements.lock pyproject.toml $(MEMBERS:%=%/pyproject.toml) tools/setup.sh
	@sh tools/setup.sh "$(PYTHON)" $(MEMBERS)
	@touch $@

demo: $(READY) ## run a real workflow on worker processes and show its report (DEMO=--keep leaves it running)
	@$(BIN)/taskyard demo $(DEMO)

test: $(READY) ## run every test but the long ones; ends with the names of what was skipped (WITHOUT=marker leaves more out)
	@$(BIN)/python -m pytest $(SHARED) -m "not long$(if $(WITHOUT), and not $(WITHOUT))" $(TESTS)

test-long: export SEEDS ?= 20000
test-long: $(READY) ## run every test, with 20,000 simulated histories (SEEDS=n for more)
	@$(BIN)/python -m pytest $(SHARED) $(TESTS)

conformance: $(READY) ## play the conformance scenarios with a worker: WORKER="its command line" (KIT=--core plays less)
	@PYTHONPATH=tests exec $(BIN)/python -m conformance.kit $(KIT) -- $(WORKER)

conformance-python: $(READY) ## play the conformance scenarios with the Python worker
	@exec $(MAKE) --no-print-directory conformance WORKER="$(BIN)/python tests/conformance/workers/python/worker.py"

conformance-java: java ## play the conformance scenarios with the Java worker
	@exec $(MAKE) --no-print-directory conformance WORKER="sh tests/conformance/workers/java/worker.sh"

conformance-go: $(GO_WORKER) ## play the core of the conformance scenarios with the Go worker
	@exec $(MAKE) --no-print-directory conformance WORKER="$(GO_WORKER)" KIT="--core $(KIT)"

$(GO_WORKER): $(READY) $(GOOGLEAPIS) $(PROTOS) $(wildcard tests/conformance/workers/go/*) tools/go.sh
	@sh tools/go.sh >/dev/null
	@rm -rf $(@D) && mkdir -p $(@D) && cp tests/conformance/workers/go/* $(@D)
	@$(BIN)/buf build -o $(@D)/taskyard.binpb
	@cd $(@D) && PATH="$(CURDIR)/$(BIN):$$PATH" sh $(CURDIR)/tools/go.sh buf generate taskyard.binpb
	@cd $(@D) && sh $(CURDIR)/tools/go.sh go build -buildvcs=false -o $(@F) .

verify: lint types contract imports generated ## check lint, format, types, contract, import rules and generated files

lint: $(READY) ## check lint and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY) ## check types with mypy (strict) and basedpyright
	@$(BIN)/mypy $(foreach member,$(filter-out python/contract,$(MEMBERS)),$(member)) tools $(wildcard tests bench examples) conftest.py
	@$(BIN)/basedpyright

contract: $(READY) $(GOOGLEAPIS) ## check proto/: lint, format, compatibility with the baseline; generated code is current
	@$(BIN)/buf lint
	@$(BIN)/buf format --diff --exit-code proto
	@if [ -f proto/baseline.binpb ]; then $(BIN)/buf breaking proto --against proto/baseline.binpb; fi
	@$(BIN)/python tools/generate.py --check

imports: $(READY) ## check who imports whom
	@$(BIN)/lint-imports --no-logo

generated: $(READY) ## check that pages and tables which a tool writes are current
	@$(BIN)/python tools/make_configuration.py --check
	@$(BIN)/python tools/make_workflow_schema.py --check
	@$(BIN)/python tools/make_text_tables.py --check
	@$(BIN)/python tools/make_reference.py --check
	@$(BIN)/python tools/make_filters.py --check

proto: $(READY) ## write python/contract from proto/
	@$(BIN)/python tools/generate.py

java: $(READY) ## build workers/java with the JDK 21 or later that is found (JAVA_HOME, else the usual places)
	@sh tools/java.sh mvn -q -B -f workers/java/pom.xml install

descriptor: $(READY) $(GOOGLEAPIS) ## write the whole contract as one image, dist/taskyard.binpb
	@mkdir -p dist
	@$(BIN)/buf build -o dist/taskyard.binpb
	@echo "wrote dist/taskyard.binpb: buf generate dist/taskyard.binpb works with it alone"

# Only a release commit runs this: it is what `make contract` compares with.
baseline: $(READY) $(GOOGLEAPIS)
	@$(BIN)/buf build proto --exclude-source-info -o proto/baseline.binpb

$(GOOGLEAPIS): $(READY) $(PROTOS) tools/googleapis.py
	@$(BIN)/python tools/googleapis.py
	@touch $@

bench: $(READY) ## run all benchmarks
	@$(BIN)/python -m bench

bench-%: $(READY) ## run one benchmark, e.g. bench-throughput
	@$(BIN)/python -m bench $*

lock: $(READY) ## resolve dependencies anew and write requirements.lock
	@$(BIN)/python tools/lock.py $(if $(UPGRADE),--upgrade)

clean: ## remove what was built, not .venv
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
