"""GitLab's CI/CD component: one job, each input of `agent-eval ci` an input of the component."""

from agent_eval.config.options import Option
from tests.ci_files.rows import IMAGE, as_yaml, inputs_on
from tests.ci_files.starters import GITLAB_RULES, GITLAB_SCRIPT, GITLAB_TAIL

_OWN = {
    "job-name": {
        "description": "Name of the job; the baseline is that of the same name.",
        "default": "agent-eval",
    },
    "stage": {"description": "Stage of the job.", "default": "test"},
    "image": {
        "description": "Where the image lives for you, best with the digest that you have reviewed.",
        "default": IMAGE,
    },
}
_HEAD = """\
# GitLab's CI/CD component, made from the table of inputs by `make generated`. A project uses it so:
#
#   include:
#     - component: $CI_SERVER_FQDN/your-group/agent-eval/agent-eval@<commit>
#       inputs:
#         suite: suites/*.json
#
# A value is one line; one of several lines goes into agent-eval.yml. Tokens are masked variables of the
# project and no inputs, which everybody who reads the pipeline sees.
"""


def gitlab_component() -> str:
    rows = inputs_on("gitlab")
    inputs = {**_OWN, **{row.name: _described(row) for row in rows}}
    variables = "\n".join(_variable(row) for row in rows)
    return f"""\
{_HEAD}spec:
  inputs:
{as_yaml(inputs, "    ")}
---
"$[[ inputs.job-name ]]":
  stage: "$[[ inputs.stage ]]"
  image:
    name: "$[[ inputs.image ]]"
    entrypoint: [""]
{GITLAB_RULES}  # Taken as they are: not as a part of a shell's command, nor as one that holds variables.
  variables:
    GIT_DEPTH: "0"
{variables}
{GITLAB_SCRIPT}{GITLAB_TAIL}"""


def _described(row: Option) -> dict[str, object]:
    described: dict[str, object] = {"description": row.documentation, "default": ""}
    choices = ("true", "false") if row.kind == "switch" else row.choices
    return {**described, "options": ["", *choices]} if choices else described


def _variable(row: Option) -> str:
    return f"""\
    {row.variable}:
      value: |-
        $[[ inputs.{row.name} ]]
      expand: false"""
