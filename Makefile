# Everything here starts from Python 3.11 or newer and make; the rest is set up in .venv on the way.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := src tests bench examples docs/site ops/grafana .ci
INSTALL := $(PIP) install --constraint constraints.txt
KERNEL := $(wildcard src/penstock/records/kernel/*.p[xy][xd])

# Bytecode also where PYTHONDONTWRITEBYTECODE keeps Python from leaving any: without it every start
# compiles 300 modules first, which doubles it.
BYTECODE := $(BIN)/python -m compileall -q src

# Modules that are compiled as they are. After `make unbuild` they run in Python until `make build`.
UNBUILT := $(VENV)/.penstock-unbuilt
ifeq ($(wildcard $(UNBUILT)),)
HOT := $(shell cat hot-modules.txt)
else
HOT :=
export PENSTOCK_COMPILE := no
endif
BUILD := pyproject.toml setup.py hot-modules.txt constraints.txt $(KERNEL) $(HOT)

# Tests run in five parts. Four of them are live: they wait for processes, connections and Java in real
# time, so two run at a time, those that take longest first. The fifth, with the rules and the simulator,
# computes: it runs beside them at a low priority, takes what they leave, and is told of while it runs.
SPARK_TESTS := tests/spark
NODE_TESTS := tests/broker tests/cli tests/client tests/node tests/ops tests/testing tests/world
CLIENT_TESTS := tests/interop tests/examples
PEER_TESTS := tests/peer
LIVE_TESTS := $(SPARK_TESTS) $(NODE_TESTS) $(CLIENT_TESTS) $(PEER_TESTS)

# With SLOW=yes each part runs the tests that are marked as slow, else all others.
SLOW ?=
WHICH := $(if $(SLOW),slow,not slow)

# $(call pytest,PART,ARGUMENTS): also tells which tests took longest, and writes which failed, for
# .ci/run; nothing here runs a test twice. A part that crashed, if only at its very end, has no record.
SLOWEST := --durations=30 --durations-min=5
record = $(VENV)/.penstock-$(if $(SLOW),slow-)$(1)
pytest = $(PRIORITY) $(BIN)/python -m pytest -m "$(WHICH)" $(SLOWEST) --outcome-record=$(record).json $(2); \
	status=$$?; [ $$status -le 1 ] || rm -f $(record).json

# $(call live_tests,PART,TITLE,FOLDERS): the report is shown whole when the part has ended: those of
# several would else be written into each other.
live_tests = $(call pytest,$(1),$(3) >$(record)-tests 2>&1); \
	echo; echo "== $(2)"; cat $(record)-tests; exit $$status

# $(call two_at_a_time,PARTS): on its own, whatever the jobs of the make above it.
two_at_a_time = MAKEFLAGS= $(MAKE) --no-print-directory --keep-going --jobs=2 $(1)

# What `make bench` is told, such as BENCH=--quick.
BENCH ?=

# Which simulations `make soak` runs; with FOR=1h it soaks a real node for that long instead, and
# with KILLS=50 it kills one that often, with fsync acks and without. RECORDS=100000 sends as many
# through a pipeline that is to be exactly once, with APP_KILLS and NODE_KILLS on the way. SPARK=1 does
# so with Spark's queries, SPARK=3 three times as long.
SEEDS ?= 5000
START ?= 0
FOR ?=
KILLS ?=
RECORDS ?=
SPARK ?=
APP_KILLS ?= 30
NODE_KILLS ?= 10

# Stamps say what is installed. They age with the files that decide it.
RUN_STAMP := $(VENV)/.penstock-run
DEV_STAMP := $(VENV)/.penstock-dev

.PHONY: help demo test test-slow test-rules test-live test-spark test-nodes test-clients test-peer soak lint format docs bench wheel build unbuild clean

help:
	@echo "make demo    set up, run a shop on three nodes and Spark, kill a leader and Spark, and prove it"
	@echo "make test    set up, check style and types, run all tests but the slow ones: test-rules, beside"
	@echo "             test-live, which is test-spark, test-nodes, test-clients and test-peer, two at a time"
	@echo "make test-slow   the slow ones: ordeals, pipelines, campaigns; test-spark SLOW=yes: of one part"
	@echo "make soak    crash a node in 5,000 simulated worlds; SEEDS=N and START=S for others"
	@echo "             FOR=1h: a real node under constant load; KILLS=50: one that is killed that often"
	@echo "             RECORDS=100000: exactly once, while the application and the node are killed"
	@echo "             SPARK=1: Spark's queries, while drivers, executors, tasks and the node are killed"
	@echo "make lint    style, format and types alone"
	@echo "make format  lay the code out as the checks want it"
	@echo "make docs    write docs/protocol.md and docs/settings.md again, and build the site in site/"
	@echo "make bench   measure cost, speed, start-up and memory, beside Apache Kafka where there is Java"
	@echo "make wheel   compile once into dist/: pip installs that wheel in seconds"
	@echo "make build   compile the hot modules again; the others here do so by themselves"
	@echo "make unbuild go on without compiled hot modules, while they are being edited"
	@echo "make clean   remove what these commands made"

demo: $(RUN_STAMP)
	@$(BYTECODE)
	$(BIN)/penstock demo

test: lint
	@echo "== tests"
	@$(BYTECODE)
	@$(call two_at_a_time,test-rules test-live)

test-slow: $(DEV_STAMP)
	@echo "== slow tests"
	@$(BYTECODE)
	@SLOW=yes $(call two_at_a_time,test-rules test-live)

test-rules: PRIORITY := nice -n 15
test-rules: $(DEV_STAMP)
	@$(call pytest,rules,$(patsubst %,--ignore=%,$(LIVE_TESTS))); exit $$status

test-live: $(DEV_STAMP)
	@$(call two_at_a_time,test-spark test-nodes test-clients test-peer)

test-spark: $(DEV_STAMP)
	@$(call live_tests,spark,tests with Spark,$(SPARK_TESTS))

test-nodes: $(DEV_STAMP)
	@$(call live_tests,nodes,tests of nodes,$(NODE_TESTS))

test-clients: $(DEV_STAMP)
	@$(call live_tests,clients,tests with real clients,$(CLIENT_TESTS))

test-peer: $(DEV_STAMP)
	@$(call live_tests,peer,tests beside Apache Kafka,$(PEER_TESTS))

ifneq ($(FOR),)
soak: $(DEV_STAMP)
	$(BIN)/python bench/soak.py run --for $(FOR)
else ifneq ($(KILLS),)
soak: $(DEV_STAMP)
	$(BIN)/python bench/soak.py kills --count $(KILLS) --fsync on
	$(BIN)/python bench/soak.py kills --count $(KILLS) --fsync off
else ifneq ($(RECORDS),)
soak: $(DEV_STAMP)
	$(BIN)/python bench/soak.py exactly-once --records $(RECORDS) --app-kills $(APP_KILLS) \
		--node-kills $(NODE_KILLS)
else ifneq ($(SPARK),)
soak: $(DEV_STAMP)
	$(BIN)/python bench/spark_soak.py --scale $(SPARK)
else
soak: $(RUN_STAMP)
	$(BIN)/penstock sim run --seeds $(SEEDS) --start $(START)
endif

lint: $(DEV_STAMP)
	@echo "== style"
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@echo "== types"
	$(BIN)/mypy --strict

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

# Pages first: they are written even where the site cannot be built, for want of a network.
docs: $(RUN_STAMP)
	$(BIN)/python -m penstock.broker.network.protocol_table >docs/protocol.md
	$(BIN)/python -m penstock.cli.settings_page >docs/settings.md
	@[ -x $(BIN)/mkdocs ] || { echo "== installing mkdocs-material"; $(INSTALL) mkdocs-material; }
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(DEV_STAMP)
	@$(BYTECODE)
	$(BIN)/python bench/start.py
	$(BIN)/python bench/compare.py $(BENCH)

# Compiled whatever `make unbuild` said; without what an earlier build left, which would be packed too.
wheel: | $(BIN)/python
	@echo "== compiling penstock into a wheel: some minutes"
	@rm -rf build/lib* build/bdist* dist
	@PENSTOCK_COMPILE= $(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

build: | $(BIN)/python
	@rm -f $(UNBUILT) $(RUN_STAMP) $(DEV_STAMP)
	@PENSTOCK_COMPILE= $(MAKE) --no-print-directory $(DEV_STAMP)

unbuild: | $(BIN)/python
	@touch $(UNBUILT)
	find src -name '*.so' -not -path '*/kernel/*' -delete
	rm -f src/penstock/compiled.txt

clean:
	rm -rf $(VENV) build dist site src/penstock.egg-info penstock-data
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -f src/penstock/compiled.txt

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; $(PYTHON) is older"; exit 1; }
	@echo "== making $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV)

$(RUN_STAMP): $(BUILD) | $(BIN)/python
	@echo "== compiling and installing penstock, Spark and a PostgreSQL for the demo: some minutes"
	@$(INSTALL) --editable '.[spark,tables,demo]'
	@$(BYTECODE)
	@$(BIN)/penstock --version
	@touch $@

$(DEV_STAMP): $(BUILD) | $(BIN)/python
	@echo "== compiling and installing penstock, and what its tests need, Spark among them: some minutes"
	@$(INSTALL) --editable '.[dev,spark,tables,demo]'
	@$(BYTECODE)
	@$(BIN)/penstock --version
	@touch $@ $(RUN_STAMP)
