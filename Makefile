# StreamHouse. Everything below sets up what it needs on a machine with Python 3.11 or later.
#   make run     serve on 127.0.0.1:9092, everything kept in ./streamhouse-data
#   make spark   also what `streamctl sql`, `streamctl pipeline` and spark/ need (and Java 17)
#   make test    all checks and all tests (Java 17 and Maven for the Java and Spark clients)
#   make check   formatting, lint, types, import contracts, known vulnerabilities of what is locked
#   make audit   the last of these, and it fails where the database of them is not reached
# WORKERS processes run the tests, 2 unless told otherwise.

PYTHON ?= python3
WORKERS ?= 2
UV_VERSION := 0.13.9
UV := .cache/uv/bin/uv
SYNC := $(UV) sync --quiet --locked --no-python-downloads --python $(PYTHON)
DEV := .venv/bin/python -X dev

.PHONY: run spark test check audit unit clean

run: .venv/.run-stamp
	.venv/bin/streamhouse serve

spark: .venv/.spark-stamp

test: check unit

check: .venv/.test-stamp
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python deploy/audit.py

audit: .venv/.test-stamp
	.venv/bin/python deploy/audit.py --required

# What measures time has the machine for itself, afterwards.
unit: .venv/.test-stamp
	$(DEV) -m pytest -m "not alone" --dist loadfile --tx "$(WORKERS)*popen//python=$(DEV)"
	$(DEV) -m pytest -m alone

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

clean:
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
