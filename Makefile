# `make` alone lists the verbs. Everything runs in .venv, which `setup` makes from requirements.lock.
SHELL := bash
PY := .venv/bin/python
READY := .venv/.ready
CLASSES := .venv/.classes.jsa

# Spark's workers must be the Python that has our packages, not whatever python3 is on PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(PY)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(PY)

# Some machines forbid Python to keep what it compiled. Tests start a hundred processes, workers among them.
unexport PYTHONDONTWRITEBYTECODE

# A Spark session leaves half of two cores idle, so three processes share the tests, two of them with a session. A file
# stays in one process, since its fixtures are made once in each. `make test PARALLEL=` runs all in one.
PARALLEL ?= -n 3

# How many times as many random examples `make random` takes as `make test`.
EXAMPLES ?= 10

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast lint format compat bench bench-windows bench-cold bench-growth bench-joins bench-relations bench-feedback bench-experiments bench-quality bench-between faults faults-night random conformance lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the lock (needs Python 3.10+ and Java 17+)

$(READY): requirements.lock pyproject.toml tools/setup.sh
	@tools/setup.sh
	@touch $@

demo: setup ## a disordered stream, a live table, an HTML report
	.venv/bin/slackwater demo

# Without it tests are slower, and nothing else: a JVM that cannot write one is no failure.
$(CLASSES): $(READY)
	@$(PY) -m tests.class_archive $@ >/dev/null 2>&1 || echo "no archive of Java's classes: tests start slower"

test: setup $(CLASSES) ## all tests but those of `make faults`, random ones with few examples
	$(PY) -m pytest -q $(PARALLEL) -m "not faults"
	$(PY) -m tools.conformance --check

test-fast: setup ## only what needs no Spark: the meaning and the kernels
	$(PY) -m pytest -q -m "not spark and not slow and not faults"

lint: setup ## style, types, layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m mypy --config-file tools/mypy-tests.ini
	.venv/bin/lint-imports

format: setup ## rewrite the code in the house style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: setup ## all benchmarks
	$(PY) -m benchmarks $(BENCH)

bench-windows: setup ## sliding windows: Slackwater beside native Structured Streaming
	$(PY) -m benchmarks windows $(BENCH)

bench-cold: setup ## windows in new processes from the first batches on, and over 50 columns of which 3 are read
	$(PY) -m benchmarks.cold $(BENCH)

bench-growth: setup ## throughput and memory as keys and overlap grow, as a plot in docs/
	$(PY) -m benchmarks growth $(BENCH)

bench-joins: setup ## joins: Slackwater beside native stream-stream joins, as a plot in docs/ too
	$(PY) -m benchmarks joins $(BENCH)

bench-relations: setup ## joins with a table: Slackwater beside Spark's stream-static join
	$(PY) -m benchmarks relations $(BENCH)

bench-feedback: setup ## what feedback costs and saves, as docs/feedback-experiments.md (BENCH="--cases viewport")
	$(PY) -m benchmarks feedback $(BENCH)

bench-experiments: setup ## experiments on the kernels beside baselines that need order, as docs/experiments.md
	$(PY) -m benchmarks experiments $(BENCH)

bench-quality: setup ## quality targets: how often they are kept, and how long results wait
	$(PY) -m benchmarks quality $(BENCH)

bench-between: setup ## windows and joins, this tree and an earlier commit in turns (COMMIT=main~9 BENCH="--cases 2m")
	$(PY) -m benchmarks.between $(COMMIT) $(BENCH)

# Whoever asks for some faults wants no random tests, and wants them whatever docs/faults.md says of them.
STALE ?= $(if $(FAULTS),,1)
faults: setup $(CLASSES) ## kill a query at every durable step, restart it, compare the output (FAULTS="-k tumbling")
	STALE=$(STALE) $(PY) -m pytest -q -m faults $(FAULTS)
	$(if $(FAULTS),,$(MAKE) random)

# Seeds from 0 on that have no line which still holds, or the N seeds from SEED on.
N ?= $(if $(SEED),1,1000)
MINUTES ?= 1000000
faults-night: setup $(CLASSES) ## kill queries at random moments, restart them, compare the output (N=1000 MINUTES=8, or SEED=17 for one)
	$(PY) -m tests.faults.night --cases $(N) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

random: setup ## random tests, with many more examples than `make test` takes (EXAMPLES=100: times as many)
	EXAMPLES=$(EXAMPLES) $(PY) -m pytest -q $(PARALLEL) -m "hypothesis and not faults"

compat: setup ## a telling part of the Spark tests with another PySpark, in .venv-compat (SPARK=4.0.1)
	tools/compat.sh $(SPARK)

conformance: setup ## rewrite docs/conformance.md from the marks in the tests
	$(PY) -m tools.conformance

lock: ## resolve requirements.lock again (needs uv)
	uv pip compile --universal --python-version 3.10 --no-header --no-annotate --no-emit-index-url \
	  --extra spark --group dev pyproject.toml -o requirements.lock

clean: ## remove .venv and all that was generated
	rm -rf .venv .venv-compat .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis build dist
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
