#!/bin/sh
# Checks that suites of every schema version and exports of every format are still read.
set -eu
cd "$(dirname "$0")/.."
agent_eval=.venv/bin/agent-eval
if [ ! -x "$agent_eval" ]; then agent_eval=agent-eval; fi
exec "$agent_eval" contracts-check \
	--schema-fixtures-dir tests/fixtures/schema_backcompat \
	--adapter-fixtures-dir tests/fixtures/adapters \
	--min-fixtures-per-provider "${MIN_FIXTURES_PER_PROVIDER:-2}"
