"""CircleCI's orb: its source as one file, to be packed and published, or pasted under `orbs`."""

from agent_eval.config.options import Option
from tests.ci_files.rows import IMAGE, as_yaml, inputs_on
from tests.ci_files.starters import CIRCLECI_DOCKER

_HEAD = """\
# The source of CircleCI's orb, made from the table of inputs by `make generated`. `circleci orb pack` reads
# its folder, and `circleci orb publish` publishes what that writes. A workflow uses it so:
#
#   jobs:
#     - agent-eval/evaluate:
#         context: agent-eval
#         circleci-project-slug: << pipeline.project.slug >>
#         suite: suites/*.json
#
# Tokens come from the context, as variables, and are no parameters.
"""


def circleci_orb() -> str:
    rows = inputs_on("circleci")
    parameters = {
        "image": {
            "type": "string",
            "description": "Where the image lives for you, best with the digest that you have reviewed.",
            "default": IMAGE,
        },
        "machine-image": {
            "type": "string",
            "description": "CircleCI's machine that runs it.",
            "default": "ubuntu-2404:current",
        },
        "results": {
            "type": "string",
            "description": "Directory that is kept with the job: `out`, where that is given.",
            "default": "agent-eval-out",
        },
        **{row.name: _described(row) for row in rows},
    }
    environment = "\n".join(f"      {row.variable}: << parameters.{row.name} >>" for row in rows)
    command = "\n".join(f"            {line}" for line in CIRCLECI_DOCKER.split("\n"))
    return f"""\
{_HEAD}version: 2.1
description: Judge an agent, compare with the last good run, gate the change and say why.
jobs:
  evaluate:
    parameters:
{as_yaml(parameters, "      ")}
    machine:
      image: << parameters.machine-image >>
    environment:
      EVALUATION_IMAGE: << parameters.image >>
{environment}
    steps:
      - checkout:
          method: full # with the files of the commit where the branch began
      - run:
          name: Evaluate
          command: >-
{command}
            "$EVALUATION_IMAGE" ci
      - store_test_results:
          path: << parameters.results >>/junit
      - store_artifacts:
          path: << parameters.results >>
          destination: << parameters.results >>
"""


def _described(row: Option) -> dict[str, object]:
    described = {"type": "string", "description": row.documentation.replace("<<", "\\<<"), "default": ""}
    choices = ("true", "false") if row.kind == "switch" else row.choices
    return {**described, "type": "enum", "enum": ["", *choices]} if choices else described
