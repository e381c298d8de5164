"""The one table of what `agent-eval ci` takes and gives.

The command's flags, `action.yml`, the file `agent-eval.yml` and the reference in the guides are made from
these rows, or tested against them. A value is looked for in this order, the first non-empty one counts:

1. the flag (`--max-regressed-cases 3`),
2. `INPUT_<NAME>` as the GitHub runner sets it, hyphens kept (`INPUT_MAX-REGRESSED-CASES`),
3. `AGENT_EVAL_<NAME>` with underscores (`AGENT_EVAL_MAX_REGRESSED_CASES`),
4. the key `max-regressed-cases` in `agent-eval.yml`,
5. the default below.

Because an empty value counts as not given, `action.yml` must give no default of its own (the token aside):
the runner would pass it as if the user had written it, and `agent-eval.yml` would never be read.
"""

from __future__ import annotations

from agent_eval.ci.agent_inputs import AGENT_INPUTS
from agent_eval.ci.table import Input, Output

CONFIG_FILE = "agent-eval.yml"
"""Read from the working directory when it is there."""

INPUTS: tuple[Input, ...] = (
    Input(
        "suite",
        "lines",
        "",
        "Suites to score, one a line: paths or globs such as `suites/*.jsonl`. Each has its own evidence "
        "pack and its own baseline; the worst outcome counts.",
        required=True,
    ),
    Input(
        "judges",
        "list",
        "",
        "Judges, one a line or separated by commas: built-in names, entry points or `module:Class`. "
        "Default: tool_contract, policy, trajectory_step, regex, json_schema.",
    ),
    Input("judge-config", "path", "", "JSON or YAML file with each judge's configuration, by judge name."),
    Input(
        "case-policy",
        "case policy",
        "all",
        "When a case with several trials passes: `all`, `any`, `majority`, or `pass_rate>=0.75`.",
    ),
    *AGENT_INPUTS,
    Input(
        "min-pass-rate",
        "share",
        "",
        "The share of cases that must pass, from 0 to 1. Needs no baseline.",
        part="thresholds",
    ),
    Input(
        "max-hard-fail-rate",
        "share",
        "",
        "The share of cases that may fail hard, from 0 to 1. Needs no baseline.",
        part="thresholds",
    ),
    Input(
        "max-pass-rate-drop",
        "share",
        "",
        "How far the pass rate may fall below the baseline's, 0 to 1.",
        part="thresholds",
    ),
    Input(
        "max-hard-fail-increase",
        "share",
        "",
        "How far the hard fail rate may rise above the baseline's, 0 to 1.",
        part="thresholds",
    ),
    Input(
        "max-regressed-cases",
        "count",
        "",
        "How many cases may get worse than in the baseline.",
        part="thresholds",
    ),
    Input(
        "max-new-hard-fail-cases",
        "count",
        "",
        "How many cases may fail hard that did not in the baseline.",
        part="thresholds",
    ),
    Input(
        "preset",
        "choice",
        "",
        "How much worse is too much, and what follows when nobody can tell: `pull-request` has a margin of 5 "
        "points and warns, `release` has 2 and blocks. Default: what `policy` says, else `pull-request`. "
        "Thresholds are added to it.",
        choices=("pull-request", "release"),
    ),
    Input(
        "policy",
        "path",
        "",
        "YAML or JSON file with the gate's policy: preset, margin, zero-tolerance judges, quarantine, "
        "thresholds. For a fork's pull request the base branch's version counts.",
    ),
    Input(
        "registry-path",
        "path",
        ".agent_eval/registry.json",
        "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a fork's "
        "pull request the base branch's version counts.",
    ),
    Input(
        "baseline-name",
        "text",
        "main",
        "Whose waivers in the registry apply.",
    ),
    Input(
        "baseline",
        "text",
        "auto",
        "`auto` finds the evidence of an earlier run, `none` compares with nothing, anything else is the "
        "path of an evidence pack or archive, or the name of a baseline in the registry.",
    ),
    Input(
        "baseline-artifact",
        "text",
        "agent-eval-evidence",
        "Name of the workflow artifact that carries the evidence archive. Give each of several "
        "evaluations its own.",
    ),
    Input(
        "baseline-branch",
        "text",
        "",
        "Branch whose runs may be the baseline. Default: the branch the pull request goes into, else the "
        "repository's default branch.",
    ),
    Input(
        "baseline-workflow",
        "text",
        "",
        "File name or id of the workflow whose runs may be the baseline. Default: this workflow.",
    ),
    Input("baseline-run-id", "integer", "", "Take the baseline from exactly this workflow run."),
    Input(
        "require-baseline",
        "switch",
        "false",
        "`true` fails the job when there is no baseline to compare with.",
    ),
    Input(
        "on-case-removed",
        "choice",
        "warn",
        "What happens when a case or a whole suite of the baseline is gone: `warn` says so at the top, "
        "`fail` fails the job.",
        choices=("warn", "fail"),
    ),
    Input(
        "out",
        "path",
        "agent-eval-out",
        "Directory for the evidence packs, the archive and the report; what an earlier run of this job left "
        "there is replaced, anything else is not touched.",
    ),
    Input("report-title", "text", "Agent evaluation", "Heading of the comment and the report."),
    Input(
        "comment",
        "choice",
        "auto",
        "`auto` writes one comment on the pull request and keeps it up to date, `never` writes none.",
        choices=("auto", "never"),
    ),
    Input(
        "comment-id",
        "text",
        "default",
        "Tells several evaluations on one pull request apart: each id has its own comment. Letters, digits, "
        "dots, hyphens and underscores, at most 64.",
    ),
    Input(
        "comment-author",
        "text",
        "",
        "Login under which the token writes comments, for tokens that cannot say it themselves. "
        "Default: asked from GitHub, else `github-actions[bot]`.",
    ),
    Input(
        "fail-on",
        "choice",
        "gate",
        "`gate` fails the job when the gate says no, `never` only reports. What could not be evaluated "
        "fails the job either way.",
        choices=("gate", "never"),
    ),
    Input(
        "github-token",
        "secret",
        "",
        "Token for the baseline artifact and the comment.",
        action_default="${{ github.token }}",
        in_file=False,
    ),
    Input(
        "github-api-url",
        "url",
        "",
        "REST address of GitHub, for GitHub Enterprise. Default: GITHUB_API_URL, which the runner sets.",
        in_file=False,
    ),
)

OUTPUTS: tuple[Output, ...] = (
    Output(
        "outcome",
        "`passed`, `failed`, `inconclusive`, `no-baseline` or `error`: the worst over all suites.",
    ),
    Output("passed", "`true` when the outcome is `passed`, else `false`."),
    Output("pass-rate", "Share of cases that passed, from 0 to 1, over all suites."),
    Output("hard-fail-rate", "Share of cases that failed hard, from 0 to 1, over all suites."),
    Output("regressed-cases", "How many cases got worse than in the baseline; empty without one."),
    Output(
        "new-hard-fail-cases",
        "How many cases fail hard that did not in the baseline; empty without one.",
    ),
    Output("baseline-run-id", "The workflow run the baseline came from; empty without one."),
    Output("baseline-sha", "The commit the baseline came from; empty without one."),
    Output("evidence-pack", "Directories of the evidence packs, one a line, in the order of the suites."),
    Output("evidence-archive", "One deterministic zip of all evidence packs: the file to upload."),
    Output("report", "The full report as a markdown file."),
    Output("comment-url", "Address of the comment; empty when none was written."),
)

INPUT_BY_NAME = {row.name: row for row in INPUTS}
THRESHOLDS = tuple(row.field for row in INPUTS if row.part == "thresholds")
"""Fields of `contracts.Thresholds`, each an input of the same name."""

__all__ = ["CONFIG_FILE", "INPUTS", "INPUT_BY_NAME", "OUTPUTS", "THRESHOLDS", "Input", "Output"]
