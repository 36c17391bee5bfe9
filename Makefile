# Everything starts from a machine that has python3 and make; each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IN_VENV := VIRTUAL_ENV=$(CURDIR)/$(VENV) PATH=$(CURDIR)/$(BIN):$$PATH
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
PACKAGE := .package
# The real data sets, where they are at hand; tests that need them are skipped, with a message, where they are not.
BIGCAT_DATA ?= $(wildcard ../shared/data)
export BIGCAT_DATA
# Only source is installed, which is faster, and Python keeps the byte code of what it imports.  Where
# that is forbidden, each process would compile it anew.
unexport PYTHONDONTWRITEBYTECODE
# uv takes seconds where pip takes a minute.  It does not read pip's settings: where it finds no
# packages, and pip would, say `make INSTALL="python -m pip install --no-compile"`.
INSTALL ?= uv pip install --quiet

# A file's tests use the same kernels, so they go to one process; tests/conftest.py says which go first.
IN_PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# With a core for each process, more threads of BLAS and OpenMP would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: environment demo cluster-demo test test-slow torture coverage package lint format \
	bench bench-full docs clean

environment: $(READY)

demo: $(READY)
	$(BIN)/bigcat demo --output demo

# Two processes of this machine as a cluster, beside one process; they end with it.
cluster-demo: $(READY)
	$(ONE_THREAD) $(BIN)/python -m benchmarks.distributed demo

test: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest $(IN_PARALLEL) -m "not slow"

test-slow: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest $(IN_PARALLEL) -m slow

torture: $(READY)
	BIGCAT_TRIES=1000 $(BIN)/python -m pytest -q tests/test_damaged_data.py tests/test_damaged_models.py
	$(BIN)/python -m tests.torture

# Compiled code leaves no trace of its lines, so what compiles is followed in plain Python, on small
# problems and in a sample of its tests, and the rest by the tests of every day.
PLAIN := $(patsubst %,tests/test_%.py,blas bound_parts bounds noise \
	probabilities random_numbers sampler_tables samplers special vector weights) \
	tests/test_unbiased.py::test_steps_are_those_of_the_twin
COVERAGE := $(BIN)/python -m coverage
coverage: $(READY)
	$(COVERAGE) erase
	NUMBA_DISABLE_JIT=1 $(COVERAGE) run --parallel-mode -m pytest -q tests/test_tiny_fits.py
	NUMBA_DISABLE_JIT=1 $(COVERAGE) run --parallel-mode -m pytest -q -p tests.quick \
		-W ignore -m "not slow and not data" $(PLAIN) || true # some take compiled code for granted
	printf '%s\n' tests/test_*.py tests/torture src | $(ONE_THREAD) xargs -n 15 -P 2 \
		$(COVERAGE) run --parallel-mode -m pytest -q -m "not slow"
	$(COVERAGE) combine --quiet
	$(COVERAGE) report

# The archives that people install, each tried in an environment of its own; PYTHON=python3.13 for
# another one.  The wheel carries machine code of the common kernels (hatch_build.py).
package:
	rm -rf $(PACKAGE)
	$(PYTHON) -m venv $(PACKAGE)/build
	$(PACKAGE)/build/bin/python -m pip install --quiet build
	BIGCAT_KERNELS=1 $(PACKAGE)/build/bin/python -m build --outdir $(PACKAGE)/dist .
	cp tests/smoke.py benchmarks/start_up.py $(PACKAGE)
	for archive in $(PACKAGE)/dist/*; do \
		$(PYTHON) -m venv --clear $(PACKAGE)/clean && \
		$(PACKAGE)/clean/bin/python -m pip install --quiet $$archive && \
		(cd $(PACKAGE) && NUMBA_CACHE_DIR=$$PWD/kernels clean/bin/python -I smoke.py) || exit 1; \
	done

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/site/prose.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A warning of the build is an error (`strict` in mkdocs.yml).
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "Open site/index.html in a browser: it needs no server and no network."

bench: $(READY)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks peers run --quick
	$(BIN)/python -m benchmarks peers report

bench-full: $(READY)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks peers run
	$(BIN)/python -m benchmarks peers report

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt uv torch
	$(IN_VENV) $(INSTALL) --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

$(DOCS_READY): $(READY)
	$(IN_VENV) $(INSTALL) --constraint constraints.txt --editable ".[docs]"
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) $(PACKAGE) demo site
