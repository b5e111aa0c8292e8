# Every word sets up what it needs by itself: python3 (3.11 or newer), pip and make are enough to begin.
#
#   make setup   the environment (.venv), Java if it is missing, Spark's jars
#   make demo    a project in a temporary folder, run and explained
#   make check   lint, types, architecture and unit tests; for every commit, under a minute
#   make test    everything that CI runs
#   make bench   the benchmarks; figures in benchmarks/results/
#   make docs    the generated pages of docs/reference
#   make mutants breaks the core one comparison at a time; every survivor is killed or argued
#   make lock    requirements.lock from pyproject.toml
#   make clean   removes what the words above made

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTEST := $(PY) -m pytest

.PHONY: setup java jars servers demo check lint types architecture unit test bench docs mutants lock clean

setup: $(READY) java jars

$(READY): requirements.lock pyproject.toml scripts/setup-python
	@scripts/setup-python $(VENV)
	@touch $@

java: $(READY)
	@scripts/setup-java

jars: $(READY) java
	@$(PY) -m tidegate.spark.jars >/dev/null

servers: $(READY)
	@scripts/setup-servers $(VENV)

demo: setup
	@$(VENV)/bin/tidegate demo

lint: $(READY)
	@$(PY) -m ruff check src tests benchmarks scripts
	@$(PY) -m ruff format --check src tests benchmarks scripts

types: $(READY)
	@$(PY) -m mypy

architecture: $(READY)
	@$(VENV)/bin/lint-imports --no-cache >build/architecture.log 2>&1 || { cat build/architecture.log; exit 1; }

unit: $(READY)
	@$(PYTEST) -q -n 2 tests/unit

check: $(READY)
	@mkdir -p build
	@$(MAKE) --no-print-directory lint types architecture unit

test: setup servers
	@mkdir -p build
	@$(MAKE) --no-print-directory lint types architecture
	@# Few and long tests first (blackbox, crash), many and short ones last (unit): no worker waits for the other.
	@TIDEGATE_EXAMPLES=thorough $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --durations=15 tests

bench: setup
	@$(PY) -m benchmarks.run $(ONLY)

docs: $(READY)
	@$(PY) scripts/docs.py

mutants: $(READY)
	@$(PY) scripts/mutants.py

lock: $(READY)
	@scripts/lock $(VENV)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .pytest_cache
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
