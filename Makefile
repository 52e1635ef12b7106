# Everything lives in .venv, made from the pinned versions in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

.PHONY: run figures docs package test test-slow test-guide test-all test-portable test-shipped test-mutants test-adapters lint types format clean

run: .venv/core             ## APO against discounted PPO on a machine to be serviced, about two minutes
	$(BIN)/python examples/maintenance.py

# Before the first run one collection compiles the bytecode of what all tests import, beside mypy,
# instead of in each of pytest's processes at the same time.
COMPILE := test -e .venv/compiled || { $(BIN)/pytest -n 0 --collect-only > /dev/null; touch .venv/compiled; }

test: lint                  ## set-up, lint, type check beside the tests, without the slow ones
	$(BIN)/mypy & types=$$!; $(COMPILE); \
	$(BIN)/pytest; tests=$$?; wait $$types && exit $$tests

test-slow: .venv/ready      ## the slow tests: killed processes, clusters, devices
	$(BIN)/pytest -m slow

test-guide: .venv/ready     ## the pages of the guide and the examples, shortened
	$(BIN)/pytest -m guide

# The numerical tests run again as on another machine, always the same one, so that AVX-512 cannot
# hide what fails elsewhere. They wait for nothing, and many slow tests do: both at the same time.
test-all: lint              ## what .ci/run runs: the tests, the slow tests, and some of them again
	$(BIN)/mypy & types=$$!; $(COMPILE); \
	{ $(BIN)/python tests/portable.py --quick --machine avx2 --processes 1 && $(SHIPPED); } \
		> .venv/portable.log 2>&1 & \
	portable=$$!; $(BIN)/pytest -n 3 -m 'not long and not guide'; tests=$$?; \
	wait $$portable || tests=1; cat .venv/portable.log; wait $$types && exit $$tests

# Some tests of learning without what conftest.py switches off: XLA's optimisations and emitters of
# loops, and unrolled scans. One kind of actions and of policy steps is enough for these.
SHIPPED := JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/pytest -n 0 -m 'shipped and not slow' \
	-k 'not categorical and not trpo' tests/learn tests/native

test-shipped: .venv/ready   ## some tests of learning with programs that are optimised as users have them
	$(SHIPPED)

# Minutes. Nothing runs it by itself; tests/test_mutants.py keeps its list in step with the code.
test-mutants: .venv/ready   ## apply the mutants of tests/mutants.py, each of which a test must notice
	$(BIN)/python tests/mutation_run.py

test-portable: .venv/ready  ## the numerical tests as if on older machines (instruction sets, BLAS, order)
	$(BIN)/python tests/portable.py

test-adapters: .venv/ready   ## the tests of Brax, MuJoCo Playground and gymnax, with these installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[brax,gymnax]"
	$(BIN)/pip install --quiet -c constraints.txt --no-deps playground lxml tqdm  # Warp is 149 MB
	$(BIN)/pytest tests/native/test_adapters.py

package:                    ## build the wheel and try it in an empty environment, outside of this folder
	rm -rf dist .venv-package
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/pip install --quiet --disable-pip-version-check build
	.venv-package/bin/python -m build --outdir dist .
	rm -rf build
	$(PYTHON) -m venv --clear .venv-package
	.venv-package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd / && $(CURDIR)/.venv-package/bin/python -P $(CURDIR)/tests/wheel_smoke.py

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

figures: .venv/core         ## write the measured figures into README.md, docs/figures.md and results/*.md
	$(BIN)/python benchmarks/quoted_figures.py
	$(BIN)/python benchmarks/paper_pictures.py
	$(BIN)/python benchmarks/tuned_pictures.py

docs: .venv-docs/ready      ## build the guide into site/, with its pictures; about two minutes the first time
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "the guide: site/index.html (its search needs a server: python3 -m http.server -d site)"

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What the library needs, and no more; `ready` adds what its tests need.
.venv/core: pyproject.toml constraints.txt
	@echo "installing longrun and what it needs (JAX, Gymnasium, SciPy, MuJoCo, Matplotlib) into .venv"
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[mujoco,plot]"
	touch .venv/core

# uv installs the same versions in a fifth of pip's time; pip does it where uv cannot be had or used.
.venv/ready: pyproject.toml constraints.txt
	@echo "installing longrun and what its tests need (pytest, mypy, ruff, Ray, Optuna, rliable) into .venv"
	$(PYTHON) -m venv .venv
	{ $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[dev]"; } \
		|| $(PIP) -e ".[dev]"
	rm -f .venv/compiled
	touch .venv/core .venv/ready

# An environment of its own: the tests do not need MkDocs.
.venv-docs/ready: pyproject.toml constraints.txt
	@echo "installing longrun and what its guide needs (MkDocs, mkdocstrings) into .venv-docs"
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch .venv-docs/ready

clean:
	rm -rf .venv .venv-docs .venv-package dist site build/guide-pictures .mypy_cache .ruff_cache .pytest_cache .hypothesis
