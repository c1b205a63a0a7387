# Two commands on a fresh machine: `make demo` and `make test`. Nothing else is needed but Python 3.11+, make and a
# C++ compiler; everything goes into .venv here.

PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
PARTS := rounds roofline scaling jobs memory start paper
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/* native/*/*)
PACKAGES := $(wildcard src/starcast/*/__init__.py)  # an editable install knows each by its path

.PHONY: demo test torch lint format bench peers docs figures clean help

help:
	@echo "make demo   fit, compare and forecast on embedded data; writes a report page"
	@echo "make test   all tests"
	@echo "make torch  PyTorch for the neural models, whose tests run then, too"
	@echo "make lint   ruff and mypy"
	@echo "make bench  how fast it is, beside other libraries; QUICK=1 in minutes, PARTS=jobs one part of it"
	@echo "make docs   the docs site in build/site, strictly; FIGURES=1 draws all figures anew, which fits models for minutes"
	@echo "make clean  remove what was built"

demo: $(VENV)/.demo
	@echo "» running the demo"
	@$(BIN)/starcast demo --out starcast-report.html

test: $(VENV)/.test
	@echo "» running the tests"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

torch: $(VENV)/.torch

lint: $(VENV)/.lint
	@$(BIN)/ruff check src tests benchmarks docs examples native
	@$(BIN)/ruff format --check src tests benchmarks docs examples native
	@$(BIN)/mypy

format: $(VENV)/.lint
	@$(BIN)/ruff check --fix src tests benchmarks docs examples native
	@$(BIN)/ruff format src tests benchmarks docs examples native

# A quick run tries the programs out and writes to build/bench, a full one to benchmarks/results.
bench: $(VENV)/.bench $(PEERS)/.made
	@for part in $(PARTS); do \
	  echo "» $$part"; STARCAST_BENCH_QUICK=$(QUICK) $(BIN)/python benchmarks/bench_$$part.py || exit 1; \
	done
	@STARCAST_BENCH_QUICK=$(QUICK) $(BIN)/python benchmarks/bars.py

peers: $(PEERS)/.made

# Tables come from benchmarks/results and from the code; figures that need fits are drawn only when asked for.
docs: $(VENV)/.docs $(if $(FIGURES),figures)
	@$(BIN)/python docs/make_performance.py
	@$(BIN)/python docs/make_models.py
	@$(BIN)/python docs/make_trust.py
	@$(BIN)/python docs/make_reference.py
	@rm -rf build/site
	@$(BIN)/python -m sphinx -W --keep-going -n -E -q -d build/doctrees docs build/site
	@echo "» open build/site/index.html"

figures: $(VENV)/.docs
	@$(BIN)/python docs/make_figures.py
	@$(BIN)/python docs/make_page_images.py

$(VENV)/.python:
	@echo "» making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Starcast needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) || (echo "python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv" && exit 1)
	@$(PIP) install --upgrade pip
	@touch $@

# The package itself, editable: Python files are live, a change of the C++ files builds anew.
$(VENV)/.built: $(VENV)/.python $(NATIVE) $(PACKAGES) constraints.txt
	@echo "» building and installing starcast (a C++ compiler is at work)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.demo: $(VENV)/.built
	@echo "» installing what the demo needs"
	@$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.built
	@echo "» installing what the tests need"
	@$(PIP) install --group test
	@touch $@

$(VENV)/.torch: $(VENV)/.test
	@echo "» installing PyTorch"
	@$(PIP) install --group torch
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@echo "» installing ruff and mypy"
	@$(PIP) install --group lint
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	@echo "» installing what the docs need"
	@$(PIP) install --group docs
	@touch $@

# What Starcast is compared with wants other versions of what it shares with it.
$(PEERS)/.made: benchmarks/peers.txt
	@echo "» installing the libraries to compare with in $(PEERS)"
	@$(PYTHON) -m venv $(PEERS)
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= $(PEERS)/bin/python -m pip --quiet --disable-pip-version-check install -r $<
	@touch $@

clean:
	@rm -rf $(VENV) $(PEERS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
