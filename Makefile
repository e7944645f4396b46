# One set of commands for people and CI. Each sets up what it needs; only Python 3.11+ and git have to be there.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# most tests start child processes of ours: compiled once, not once a process
unexport PYTHONDONTWRITEBYTECODE
UV := UV_COMPILE_BYTECODE=1 $(BIN)/uv
# behind a proxy only the system knows the certificates
export UV_SYSTEM_CERTS ?= 1
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock"
# for the image, and for machines without Docker: any system, any Python that evalgate runs on
LOCK := $(COMPILE) --generate-hashes --universal --python-version 3.11

ENVIRONMENTS := .venv-adk/.ready .venv-adk-old/.ready .venv-frameworks/.ready
SHARED := -n auto --dist worksteal
# `make coverage` measures these; whether they pass is for others to say: on a full disk it cannot write either
MEASURED := unit entrypoint integration-1 integration-2 integration-3

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

# what runs the gate, and what tests it
.venv/.run: pyproject.toml | $(BIN)/uv
	@echo "setting up .venv ..."
	@$(UV) pip install --quiet --python $(BIN)/python --editable .
	@touch $@

.venv/.ready: pyproject.toml .venv/.run
	@$(UV) pip install --quiet --python $(BIN)/python --group dev --editable .
	@touch $@

# the newest and the oldest google-adk and the other frameworks, each in an environment of its own
.venv-adk/.ready: tests/requirements/adk.txt | $(BIN)/uv
.venv-adk-old/.ready: tests/requirements/adk-old.txt | $(BIN)/uv
.venv-frameworks/.ready: tests/requirements/frameworks.txt | $(BIN)/uv
# compiled is what tests import, not all of the 30,000 modules
.venv-adk/.ready .venv-adk-old/.ready: IMPORTED := google.adk.agents, google.adk.runners
.venv-frameworks/.ready: IMPORTED := langchain.agents, pydantic_ai, agents, smolagents, strands, \
	llama_index.core.agent.workflow, autogen_agentchat.teams, agent_framework
environments: $(ENVIRONMENTS)
.venv-cxas/.ready: tests/requirements/cxas.txt | $(BIN)/uv # 800 MB, for the one test that speaks with it
.venv-frameworks-large/.ready: tests/requirements/frameworks-large.txt | $(BIN)/uv # 1.1 GB: CrewAI, Semantic Kernel
.venv-frameworks-oldest/.ready: tests/requirements/frameworks-oldest.txt | $(BIN)/uv
.venv-adk/.ready .venv-adk-old/.ready .venv-frameworks/.ready .venv-frameworks-large/.ready .venv-frameworks-oldest/.ready .venv-cxas/.ready:
	@echo "setting up $(@D) (minutes, the first time) ..."
	@test -x $(@D)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python --requirements $<
	@$(if $(IMPORTED),$(@D)/bin/python -W ignore -c "import $(IMPORTED)")
	@touch $@

demo: .venv/.run ## a bundled agent, a passing gate and a failing one; needs no account
	@$(BIN)/python examples/demo/demo.py

check: .venv/.ready ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: .venv/.ready ## fast tests only
	$(BIN)/pytest tests/unit tests/contract -m "not integration" -q

test: check tests ## everything but the container

tests: .venv/.ready $(ENVIRONMENTS)
	$(BIN)/pytest $(SHARED) -m "not action" --complete

# a group of tests/builders/groups.py, as a job of the workflow runs it
.SECONDEXPANSION:
test-%: .venv/.ready $$(if $$(filter unit browser,$$*),,$(ENVIRONMENTS))
	$(BIN)/pytest --group $* $(SHARED) -m "not action" --complete

test-closed: ## agents of other users, in a checkout that only its owner may enter; says something to root alone
	@home="$$(mktemp -d)" && trap 'rm -rf "$$home"' EXIT && git clone --quiet . "$$home/evalgate" && \
	$(MAKE) -C "$$home/evalgate" .venv/.ready .venv-adk/.ready && cd "$$home/evalgate" && \
	$(BIN)/pytest tests/first_try/test_variables.py tests/integration/test_isolation.py --complete

coverage: $(MEASURED:%=coverage-%) ## how much of evalgate the tests run, and the least covered files (half an hour)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report >build/coverage/report.txt; code=$$?; \
	head -n 22 build/coverage/report.txt; tail -n 4 build/coverage/report.txt; exit $$code

$(MEASURED:%=coverage-%): coverage-%: .venv/.ready $(ENVIRONMENTS)
	@rm -rf build/coverage/$*
	-$(BIN)/coverage run --data-file=build/coverage/$*/data -m pytest --group $* $(SHARED) -m "not action"
	@$(BIN)/coverage combine --quiet --data-file=build/coverage/$*/data build/coverage/$*
	@mv build/coverage/$*/data build/coverage/data.$*

NIGHT_FRAMEWORKS := .venv-frameworks-large/.ready .venv-frameworks-oldest/.ready
night-frameworks: .venv/.ready $(NIGHT_FRAMEWORKS) ## CrewAI and Semantic Kernel; the oldest versions of others
	$(BIN)/pytest tests/integration/agents/test_framework_large.py tests/integration/agents/test_framework_oldest.py -q --complete

nightly: .venv/.ready $(ENVIRONMENTS) $(NIGHT_FRAMEWORKS) ## ten times the examples, long fuzzing, simulation and outages, every view (an hour)
	NIGHTLY=1 $(BIN)/pytest $(SHARED) -m "not action" --complete

test-action: .venv/.ready ## build the image, run workflows as GitHub does
	@$(UV) pip install --quiet --python $(BIN)/python --group action
	@tests/action/container_host up
	@host=$$(tests/action/container_host env) && eval "$$host" && $(BIN)/pytest tests/action -m action --complete

bench: .venv/.ready .venv-adk/.ready ## side by side with `adk eval`
	$(BIN)/python bench/adk.py
	$(BIN)/python bench/inputs.py
	$(BIN)/python bench/judge.py
	$(BIN)/python bench/turns.py
	$(BIN)/python bench/verdict.py

accessibility: .venv/.ready ## axe on every page, view, theme and width of report.html (a quarter of an hour)
	NIGHTLY=1 $(BIN)/pytest tests/browser -k axe -n auto -q --complete

golden: .venv/.ready ## rewrite tests/golden; review the diff
	$(BIN)/pytest tests/golden --update-golden -q

docs: .venv/.ready ## rewrite action.yml, tables, schemas, pinned actions and the picture of the rooms
	$(BIN)/python docs/pins.py
	$(BIN)/python docs/generate.py

pictures: .venv/.ready ## draw README's pictures from what the demo writes; look at them
	@$(BIN)/python examples/demo/demo.py
	$(BIN)/python docs/pictures.py

lock: $(BIN)/uv ## pin what the image and the parity tests hold
	$(LOCK) --group image -o requirements.lock pyproject.toml
	$(LOCK) --group build -o requirements-build.lock
	$(COMPILE) --universal --python-version 3.11 -o tests/requirements/adk.txt tests/requirements/adk.in
	$(COMPILE) --universal --python-version 3.11 -o tests/requirements/adk-old.txt tests/requirements/adk-old.in
	$(COMPILE) --universal --python-version 3.11 -o tests/requirements/frameworks.txt tests/requirements/frameworks.in
	$(COMPILE) --universal --python-version 3.11 -o tests/requirements/frameworks-large.txt tests/requirements/frameworks-large.in
	$(COMPILE) --universal --python-version 3.11 --exclude-newer 2025-09-10 \
		-o tests/requirements/frameworks-oldest.txt tests/requirements/frameworks-oldest.in

audit: .venv/.ready ## known vulnerabilities of what the image holds, by osv.dev; no answer is a failure
	$(BIN)/pip-audit --vulnerability-service osv $(if $(OSV_URL),--osv-url $(OSV_URL)) --strict --disable-pip \
		--require-hashes --requirement requirements.lock --requirement requirements-build.lock --progress-spinner off

clean: ## remove what was made
	rm -rf .venv .venv-* .cache .mypy_cache .ruff_cache .pytest_cache build dist

.PHONY: help demo check unit test tests environments test-closed night-frameworks coverage nightly test-action bench accessibility golden docs pictures lock audit clean
