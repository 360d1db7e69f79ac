# Each target sets up what it needs in .venv; only Python 3.11 or newer has to be there.
# Without make: python3 scripts/set_up.py && .venv/bin/understudy demo

PYTHON ?= python3
RUN := .venv/bin/python
READY := .venv/.ready
# Where the environment forbids compiled files, every process would compile every test again, each time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest
# Two processes for each core (tests/conftest.py); ARGS="-n 4" says otherwise, and ARGS="-n 0" or ARGS="-p no:xdist" runs all in one.
SPREAD = $(if $(findstring no:xdist,$(ARGS)),,-n auto --dist loadgroup)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format bench bench-compare budget budget-nightly budget-update soak replacements simulate real-model agent-suite mutants pictures page-pictures claude-code-picture changelog site typescript release clean set-up

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nARGS="…" hands words on, for example:\n'
	@printf '  make %s\n' 'test ARGS="tests/cli -k export"' 'test ARGS="-n 0 -x"' 'agent-suite ARGS="patch-* -v"' 'typescript ARGS=FOLDER' 'simulate SEED=17'

demo: $(READY) ## the whole thing with no key and no network
	@$(RUN) -m understudy demo

test: $(READY) ## the tests, default tier
	@$(PYTEST) $(SPREAD) -m "not slow" $(ARGS)

test-all: $(READY) ## the tests, both tiers
	@$(PYTEST) $(SPREAD) $(ARGS)

check: $(READY) ## style, types, import order
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m pyright
	@$(PYTEST) tests/test_import_order.py tests/test_startup_imports.py

format: $(READY) ## format the code
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

bench: $(READY) ## the benchmarks
	@$(RUN) -m benchmarks $(ARGS)

bench-compare: $(READY) ## the benchmarks side by side with another server
	@$(RUN) -m benchmarks compare $(ARGS)

budget: $(READY) ## what things cost by count (calls, system calls, frames …), against benchmarks/budget.json
	@$(RUN) -m benchmarks.counting check $(ARGS)

budget-nightly: $(READY) ## machine instructions against benchmarks/budget.json, by valgrind (minutes)
	@$(RUN) -m benchmarks.counting check --instructions $(ARGS)

budget-update: $(READY) ## write benchmarks/budget.json anew from what is counted now; raising a line needs a trailer in the commit message
	@$(RUN) -m benchmarks.counting update $(ARGS)

soak: $(READY) ## long runs: random schedules, kill -9 at random moments (also python -m tests.soak.http_kills)
	@$(RUN) -m tests.soak $(ARGS)

replacements: $(READY) ## names that are kept from running commands are replaced from outside in generated layouts; ARGS="--count 2000 --seed 7"
	@nice $(RUN) -m tests.soak replacements $(ARGS)

simulate: $(READY) ## the engine in a simulated world, under SEEDS=2000 schedules from FIRST=0, or one with its history: SEED=17
	@$(RUN) -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),2000) --first $(or $(FIRST),0)) $(ARGS)

real-model: $(READY) ## a small real model (llama.cpp) answers through the server (installs it; outside CI)
	@$(RUN) scripts/real_model.py $(ARGS)

agent-suite: $(READY) ## the tasks with hidden tests, played by scripted models that solve, err and repair, or only boast
	@$(RUN) -m tests.agent_suite $(ARGS)

mutants: $(READY) ## change the code in one place at a time, and see whether its tests notice (slow; not in CI)
	@$(RUN) -c "import cosmic_ray" 2>/dev/null || $(PYTHON) scripts/set_up.py mutants
	@$(RUN) scripts/mutants.py $(ARGS)

pictures: $(READY) ## docs/pictures, made anew in a real terminal (not in CI)
	@$(RUN) -c "import pyte" 2>/dev/null || $(PYTHON) scripts/set_up.py pictures
	@$(RUN) scripts/pictures.py $(ARGS)

page-pictures: $(READY) ## docs/pictures/page*.png, made anew in a real browser (not in CI)
	@PYTHONPATH=. UNDERSTUDY_TEST_WAIT=60 $(RUN) scripts/page_pictures.py $(ARGS)

claude-code-picture: $(READY) ## docs/pictures/claude-code-ask.svg, made anew in the released Claude Code (not in CI)
	@PYTHONPATH=. UNDERSTUDY_TEST_WAIT=60 $(RUN) scripts/claude_code_picture.py

changelog: $(READY) ## move the fragments of changelog.d into CHANGELOG.md
	@$(RUN) scripts/changelog.py

site: $(READY) ## the pages of docs as a site with search, into dist/site
	@$(RUN) scripts/documentation_site.py $(ARGS)

typescript: $(READY) ## the TypeScript client, into dist/typescript (then npm install && npm run build there)
	@$(RUN) scripts/typescript_client.py $(ARGS)

release: $(READY) ## wheel, sdist and notes in dist, tried in fresh environments
	@$(RUN) -m scripts.release

set-up: $(READY) ## only the virtual environment

$(READY): uv.lock pyproject.toml scripts/set_up.py
	@command -v $(PYTHON) >/dev/null || { echo "set-up: $(PYTHON) not found: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) scripts/set_up.py
	@touch $@

clean: ## remove what make has made
	@rm -rf .venv .uv build dist .ruff_cache .hypothesis
