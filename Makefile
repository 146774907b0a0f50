# Everything starts here: `make plan` plans the sample workspace, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKSPACE ?= workspace

CASES ?= ../shared

.PHONY: plan test ui lint format bench accuracy fit schema lock clean help

help:
	@echo "make plan   plan the workspace in ./$(WORKSPACE) (made from the sample if it is not there)"
	@echo "make test   run every test"
	@echo "make ui     open the asset graph of the workspace in the browser"
	@echo "make lint   ruff and mypy, strict"
	@echo "make bench  time the replay and the step model; prints a table"
	@echo "make accuracy   predict every measured file in $(CASES)/cases and print the errors"
	@echo "make fit    fit the step coefficients anew to the measurements in $(CASES)/cases; prints the left-out errors"
	@echo "make lock   resolve pyproject.toml into requirements.lock again"

# uv installs the locked set in seconds; pip is only used to fetch uv.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "capsheet needs Python 3.11 or later; name one with make PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --requirements requirements.lock
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

$(WORKSPACE)/capsheet.yaml: | $(READY)
	$(BIN)/capsheet init $(WORKSPACE)

plan: $(READY) $(WORKSPACE)/capsheet.yaml
	$(BIN)/capsheet plan --workspace $(WORKSPACE)

ui: $(READY) $(WORKSPACE)/capsheet.yaml
	$(BIN)/capsheet ui --workspace $(WORKSPACE)

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m tests.benchmarks

accuracy: $(READY)
	@test -f $(CASES)/cases/engine_memory_logs.csv || { echo "no measured cases in $(CASES): name their folder with make accuracy CASES=..., or run capsheet accuracy on your own measurements" >&2; exit 1; }
	for file in $(CASES)/cases/engine_memory_logs.csv $(CASES)/cases/serving_measured_*.csv; do $(BIN)/capsheet accuracy $$file --models $(CASES)/data/hf_configs || exit 1; done
	for file in $(CASES)/cases/serving_measured_closed_loop.csv $(CASES)/cases/serving_measured_open_loop.csv; do $(BIN)/capsheet accuracy $$file --models $(CASES)/data/hf_configs --correct 0.3 || exit 1; done

# One thread: sums of several threads differ in their last bits from run to run.
fit: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pipelines.planning.serving.fitting $(CASES)/cases --models $(CASES)/data/hf_configs

# Migrations and the data dictionary follow the column registry; tests fail until they do. A change becomes the next
# migration, so that older warehouses come along: read it before it is committed, and name it.
schema: $(READY)
	$(BIN)/python -m warehouse.migrate
	$(BIN)/python -m warehouse.dictionary > docs/data-dictionary.md

lock:
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --generate-hashes --group dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
