# Everything here starts from Python 3.11 or newer and make; the rest is set up in .venv on the way.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := src tests bench
INSTALL := $(PIP) install --constraint constraints.txt
KERNEL := $(wildcard src/penstock/records/kernel/*.p[xy][xd])

# What `make bench` is told, such as BENCH=--quick.
BENCH ?=

# Which simulations `make soak` runs.
SEEDS ?= 5000
START ?= 0

# Stamps say what is installed. They age with the files that decide it.
RUN_STAMP := $(VENV)/.penstock-run
DEV_STAMP := $(VENV)/.penstock-dev

.PHONY: help demo test soak lint format bench clean

help:
	@echo "make demo    set up, start a node, write and read back a million records"
	@echo "make test    set up, check style and types, run every test"
	@echo "make soak    crash a node in 5,000 simulated worlds; SEEDS=N and START=S for others"
	@echo "make lint    style, format and types alone"
	@echo "make format  lay the code out as the checks want it"
	@echo "make bench   measure cost, speed, start-up and memory, beside Apache Kafka where there is Java"
	@echo "make clean   remove what these commands made"

demo: $(RUN_STAMP)
	$(BIN)/penstock demo

test: lint
	@echo "== tests"
	$(BIN)/python -m pytest

soak: $(RUN_STAMP)
	$(BIN)/penstock sim run --seeds $(SEEDS) --start $(START)

lint: $(DEV_STAMP)
	@echo "== style"
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@echo "== types"
	$(BIN)/mypy --strict

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(DEV_STAMP)
	$(BIN)/python bench/start.py
	$(BIN)/python bench/compare.py $(BENCH)

clean:
	rm -rf $(VENV) build dist src/penstock.egg-info penstock-data
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; $(PYTHON) is older"; exit 1; }
	@echo "== making $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV)

$(RUN_STAMP): pyproject.toml constraints.txt $(KERNEL) | $(BIN)/python
	@echo "== installing penstock and confluent-kafka"
	@$(INSTALL) --editable . confluent-kafka
	@touch $@

$(DEV_STAMP): pyproject.toml constraints.txt $(KERNEL) | $(BIN)/python
	@echo "== installing penstock and what its tests need"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(RUN_STAMP)
