# StreamHouse. Everything below sets up what it needs on a machine with Python 3.11 or later.
#   make run     serve on 127.0.0.1:9092, everything kept in ./streamhouse-data
#   make spark   also what `streamctl sql`, `streamctl pipeline` and spark/ need (and Java 17)
#   make test    all checks, and all tests but the long ones (Java 17 and Maven for Java and Spark)
#   make test-all   the long ones, too (tests/long.txt), in Python's development mode
#   make check   formatting, lint, types, import contracts, known vulnerabilities of what is locked
#   make audit   the last of these, and it fails where the database of them is not reached
# WORKERS processes run the tests, 3 unless told otherwise: tests often wait, on two processors, too.

PYTHON ?= python3
WORKERS ?= 3
UV_VERSION := 0.13.9
UV := .cache/uv/bin/uv
SYNC_WITH := $(UV) sync --quiet --locked --no-python-downloads --python
SYNC := $(SYNC_WITH) $(PYTHON)
TEST := .venv/bin/python
LONG := and not long
AGAIN := .cache/tests-again
ONCE_MORE := .cache/tests-once-more

.PHONY: run spark test test-all check audit unit clean

run: .venv/.run-stamp
	.venv/bin/streamhouse serve

spark: .venv/.spark-stamp

test: check unit

# With Python's checks of itself: asyncio's take a third of the time. (Warnings are errors in both.)
# But for those of memory that C writes to: they take a fifth.
test-all: LONG :=
test-all: TEST += -X dev
test-all: export PYTHONMALLOC := pymalloc
test-all: check unit

check: .venv/.test-stamp
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python deploy/audit.py

audit: .venv/.test-stamp
	.venv/bin/python deploy/audit.py --required

# Some images forbid it; then each of hundreds of processes compiles a thousand modules anew.
unit: export PYTHONDONTWRITEBYTECODE :=

# What measures time has the machine for itself, afterwards; and so has what failed while the host of
# a virtual machine took the processors away: twice, if that happens again.
unit: .venv/.test-stamp
	rm -f $(AGAIN) $(ONCE_MORE)
	$(TEST) -m pytest -m "not alone $(LONG)" --postpone $(AGAIN) --dist loadfile --tx "$(WORKERS)*popen//python=$(TEST)"
	$(TEST) -m pytest -m "alone $(LONG)" --postpone $(AGAIN)
	[ ! -s $(AGAIN) ] || $(TEST) -m pytest --postpone $(ONCE_MORE) @$(AGAIN)
	[ ! -s $(ONCE_MORE) ] || (sleep 120; $(TEST) -m pytest @$(ONCE_MORE))

$(UV):
	$(PYTHON) -m venv .cache/uv
	.cache/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.run-stamp: pyproject.toml uv.lock | $(UV)
	$(SYNC) --no-dev --inexact
	@touch $@

.venv/.spark-stamp: pyproject.toml uv.lock | $(UV)
	$(SYNC) --no-dev --inexact --extra spark
	@touch $@ .venv/.run-stamp

.venv/.test-stamp: pyproject.toml uv.lock | $(UV)
	$(SYNC)
	@touch $@ .venv/.run-stamp .venv/.spark-stamp

# What bench.versus measures: the broker without what only tests need. uv leaves a lock in TMPDIR.
INSTALLED_PYTHON ?= $(PYTHON)
.cache/installed/.stamp: Makefile pyproject.toml uv.lock | $(UV)
	TMPDIR=$(CURDIR)/.cache UV_PROJECT_ENVIRONMENT=.cache/installed $(SYNC_WITH) $(INSTALLED_PYTHON) --no-dev --compile-bytecode
	@touch $@

clean:
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
