"""Buildkite's plugin: a folder with `plugin.yml` and hooks, as Buildkite finds it in a repository."""

from agent_eval.config.options import LISTED, Option
from tests.ci_files.rows import IMAGE, NAMES_VARIABLES, as_yaml, inputs_on

_HEAD = """\
# Buildkite's plugin, made from the table of inputs; `make generated` writes it anew. A step uses it so:
#
#   plugins:
#     - https://github.com/your-organisation/agent-eval/ci-templates/agent-eval-buildkite-plugin#<commit>:
#         suite: suites/*.json
"""
_TYPES = {
    "switch": "boolean", "share": "number", "amount": "number", "count": "integer", "integer": "integer",
    "trials": "integer",
}  # fmt: skip


def plugin_yml() -> str:
    properties: dict[str, object] = {"image": {"type": "string", "description": "The image, best by digest."}}
    properties |= {row.name: _described(row) for row in inputs_on("buildkite")}
    body = {
        "name": "agent-eval",
        "description": "Judge an agent, compare with the last good run, gate the build and annotate it.",
        "author": "The agent-eval authors",
        "requirements": ["bash", "docker", "git"],
        "configuration": {"properties": properties, "additionalProperties": False},
    }
    return f"{_HEAD}{as_yaml(body, '')}\n"


def _described(row: Option) -> dict[str, object]:
    described: dict[str, object] = {"description": row.documentation}
    if row.choices:
        return {**described, "enum": list(row.choices)}
    if row.kind in LISTED:
        return {**described, "type": ["string", "array"]}
    stated = _TYPES.get(row.kind, "string")
    return {**described, "type": ["string", stated] if stated != "string" else "string"}


def command_hook() -> str:
    rows = inputs_on("buildkite")
    names = " ".join(row.variable.removeprefix("AGENT_EVAL_") for row in rows)
    naming = " ".join(f'"${{{row.variable}:-}}"' for row in rows if row.kind in NAMES_VARIABLES)
    return f"""\
#!/usr/bin/env bash
# Runs `agent-eval ci` in the image, on the checkout. Made from the table of inputs by `make generated`.
set -euo pipefail

prefix=BUILDKITE_PLUGIN_AGENT_EVAL_
image={IMAGE}
known=" {names} "

# BUILDKITE_PLUGIN_AGENT_EVAL_MIN_PASS_RATE becomes AGENT_EVAL_MIN_PASS_RATE; the items of a list, ..._0 and
# so on, become lines.
while read -r variable; do
  input="${{variable#"$prefix"}}"
  if [[ $input == IMAGE ]]; then
    image="${{!variable}}"
  elif [[ $known == *" $input "* ]]; then
    export "AGENT_EVAL_$input=${{!variable}}"
  elif [[ $input =~ ^(.+)_([0-9]+)$ && $known == *" ${{BASH_REMATCH[1]}} "* ]]; then
    input="AGENT_EVAL_${{BASH_REMATCH[1]}}"
    if [[ ${{BASH_REMATCH[2]}} == 0 ]]; then unset "$input"; fi
    export "$input=${{!input:+${{!input}}$'\\n'}}${{!variable}}"
  else
    echo "agent-eval: there is no input $input" >&2
    exit 2
  fi
done < <(compgen -e | grep "^$prefix" | sort -V)

# The container is given what Buildkite and agent-eval name, the keys of models, and what the inputs name.
options=(--rm --user "$(id -u):$(id -g)" --env HOME=/tmp)
while read -r variable; do
  options+=("--env=$variable")
done < <(compgen -e | grep -E '^(BUILDKITE|AGENT_EVAL_|LLM_|OPENAI_|ANTHROPIC_)')
for named in {naming}; do
  for variable in ${{named//,/ }}; do
    options+=("--env=${{variable##*=}}")
  done
done
options+=(--volume "$PWD:$PWD" --workdir "$PWD")
if agent="$(command -v buildkite-agent)"; then
  options+=(--volume "$agent:/usr/local/bin/buildkite-agent:ro")
fi
if [[ -n ${{BUILDKITE_REPO_MIRROR:-}} ]]; then
  options+=(--volume "$BUILDKITE_REPO_MIRROR:$BUILDKITE_REPO_MIRROR:ro")
fi

git fetch --quiet origin "${{BUILDKITE_PULL_REQUEST_BASE_BRANCH:-$BUILDKITE_PIPELINE_DEFAULT_BRANCH}}"
exec docker run "${{options[@]}}" "$image" ci
"""


def post_command_hook() -> str:
    return """\
#!/usr/bin/env bash
# Keeps the report and the evidence, also after a failed gate: it is needed most then, and the evidence of the
# default branch is the next baseline. Made by `make generated`.
set -euo pipefail

out="${BUILDKITE_PLUGIN_AGENT_EVAL_OUT:-${AGENT_EVAL_OUT:-agent-eval-out}}"
if [[ -d $out ]]; then
  buildkite-agent artifact upload "$out/**/*"
fi
"""
