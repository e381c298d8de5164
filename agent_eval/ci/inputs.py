"""Inputs and outputs of `agent-eval ci`: the job's rows of the table of options, and values for later steps.

The command's flags, `action.yml`, the file `agent-eval.yml` and the reference in the guides are made from
these rows, or tested against them. A value is looked for in this order, the first non-empty one counts:

1. the flag (`--max-regressed-cases 3`),
2. the variable in which a platform's runner passes the input,
3. `AGENT_EVAL_<NAME>` with underscores (`AGENT_EVAL_MAX_REGRESSED_CASES`),
4. the key `max-regressed-cases` in `agent-eval.yml`,
5. the row's default.

Because an empty value counts as not given, `action.yml` must give no default of its own (the token aside):
the runner would pass it as if the user had written it, and `agent-eval.yml` would never be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.config.options import CI, SECRET, Option
from agent_eval.config.table import options_of

CONFIG_FILE = "agent-eval.yml"
"""Read from the working directory when it is there."""

PLATFORM_INPUTS: tuple[Option, ...] = tuple(row for spec in platform_specs() for row in spec.inputs)
"""Rows that one platform needs. The job takes those of every platform; each platform reads its own."""

INPUTS: tuple[Option, ...] = (*options_of(CI), *PLATFORM_INPUTS)
"""The rows that every platform has, then those of each platform."""

SECRET_INPUTS = tuple(row.name for row in INPUTS if row.kind in SECRET)

INPUT_BY_NAME = {name: row for row in INPUTS for name in row.names}
"""By name and by every other name that is accepted."""


@dataclass(frozen=True, slots=True)
class Output:
    """One value that the job sets for the steps after it."""

    name: str
    description: str


OUTPUTS: tuple[Output, ...] = (
    Output(
        "outcome",
        "`passed`, `failed`, `inconclusive`, `no-baseline` or `error`: the worst over all "
        "suites. `inconclusive` is not settled.",
    ),
    Output("passed", "`true` when the outcome is `passed`, else `false`."),
    Output("pass-rate", "Share of cases that passed, from 0 to 1, over all suites."),
    Output("hard-fail-rate", "Share of cases that failed hard, from 0 to 1, over all suites."),
    Output("regressed-cases", "How many cases got worse than in the baseline; empty without one."),
    Output(
        "new-hard-fail-cases",
        "How many cases fail hard that did not in the baseline; empty without one.",
    ),
    Output("baseline-run-id", "The run the baseline came from; empty without one."),
    Output("baseline-sha", "The commit the baseline came from; empty without one."),
    Output("evidence-pack", "Directories of the evidence packs, one a line, in the order of the suites."),
    Output("evidence-archive", "One deterministic zip of all evidence packs: the file to upload."),
    Output("report", "The full report as a markdown file."),
    Output(
        "html-report",
        "The report as one HTML file, which loads nothing: upload it as a file of its own. Empty where it "
        "was not wanted.",
    ),
    Output("comment-url", "Address of the comment; empty when none was written."),
)
