# Two commands do everything: `make demo` and `make test`. Each makes its own environment: .venv-run, .venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
SYSTEM := $(VENV)/.system
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) '*' 2)
RUN := .venv-run
unexport PYTHONDONTWRITEBYTECODE

.PHONY: picture demo test test-full system docs documents lint format bench clean help

help:
	@printf '%s\n' 'make demo       the main job on the bundled example, with what ktxkit needs to run alone' \
	  'make test       lint and every test, in short forms' \
	  'make test-full  the same with the long stress, fault and fuzz suites' \
	  'make system     a browser, shells, Redis and Prolog for the tests of them (as root)' \
	  'make lint       ruff and mypy --strict' \
	  'make docs       the documentation as a site, links checked' \
  'make picture    docs/report.png, the page of the demo (needs a browser)' \
  'make documents  the types of documents, from schemas/' \
	  'make bench      side-by-side measurements'

VERSION := $(PYTHON) -c 'import sys; sys.exit("ktxkit needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=...") if sys.version_info < (3, 11) else None'

$(STAMP): pyproject.toml Makefile
	@$(VERSION)
	@echo 'make: everything for tests, lint and documentation goes into $(VENV) (800 MB, some minutes the first time)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

$(RUN)/.stamp: pyproject.toml
	@$(VERSION)
	@echo 'make: $(RUN) gets what ktxkit needs to run, and nothing else (50 MB; pip takes most of the time)'
	@test -x $(RUN)/bin/python || $(PYTHON) -m venv $(RUN)
	@$(RUN)/bin/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

demo: $(RUN)/.stamp
	@echo 'make: ten units on a made-up shop, some of them wrong on purpose, in .demo/'
	@PATH="$(CURDIR)/$(RUN)/bin:$$PATH" sh examples/demo/run.sh .demo

# The picture of README.md: the report page of the demo, drawn by Chromium.
picture: $(STAMP) demo
	@$(RUN)/bin/job-report -C .demo demo --html "$(CURDIR)/.demo/report.html" --quiet
	$(BIN)/python tools/picture.py .demo/report.html docs/report.png

# A browser, shells and their kin for the tests that look at what people touch (as root; otherwise those skip).
system: $(SYSTEM)

$(SYSTEM): $(STAMP) tests/support/system.sh
	@sh tests/support/system.sh $(VENV)
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint $(SYSTEM)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

# Fuzzing that coverage guides, where it installs (it has no wheels for every system).
FUZZ := $(VENV)/.fuzz
$(FUZZ): $(STAMP)
	@$(BIN)/python -m pip install -q --disable-pip-version-check 'atheris>=3' || \
	  echo 'atheris does not install here: its tests are skipped'
	@touch $@

test-full: lint $(SYSTEM) $(FUZZ)
	KTX_TEST_FULL=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

# The documentation as a site, every link checked (--strict).
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open site/index.html'

# What mypy knows of each document, written from the schemas.
documents: $(STAMP)
	$(BIN)/python tools/documents.py
	$(BIN)/ruff format -q ktxkit/base/documents.py ktxkit/base/kinds.py

# Side-by-side measurements, written to docs/performance.md.
bench: $(STAMP)
	@test -x $(VENV)/peers/bin/check-jsonschema || $(PYTHON) -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip install -q --disable-pip-version-check check-jsonschema pre-commit duckdb || echo 'not every peer could be installed: the rows of the others say so'
	$(BIN)/python bench/run.py --write docs/performance.md

clean:
	rm -rf $(VENV) $(RUN) .demo build dist *.egg-info
