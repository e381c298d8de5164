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

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text",
    "lines",
    "list",
    "script",
    "path",
    "choice",
    "share",
    "amount",
    "count",
    "integer",
    "parallel",
    "switch",
    "case policy",
    "url",
    "secret",
]
"""`lines` is one value a line, and `list` the same or separated by commas; `script` is text of several lines;
`share` a number from 0 to 1, `amount` one above 0; `count` a whole number from 0; `integer` a positive whole
number; `parallel` one up to 256, or `auto`; `switch` is true or false; `case policy` as
`contracts.trials.case_policy` reads it; `secret` never appears in any output."""

Part = Literal["job", "thresholds", "agent"]
"""Where a value goes: `Settings`, `contracts.Thresholds`, or `agent_settings.AgentSettings`."""


@dataclass(frozen=True, slots=True)
class Input:
    """One thing the user can say.

    Args:
        name: As in `action.yml`, with hyphens.
        kind: How the text is read.
        default: What holds when nobody says anything; empty for none. Never put into `action.yml`.
        description: One or two plain sentences for the reference.
        choices: The words a `choice` accepts.
        required: Whether the job cannot run without it. It may still come from any of the places above,
            so `action.yml` says `required: false` for every input.
        action_default: The default that `action.yml` itself must carry (the token only).
        in_file: Whether `agent-eval.yml` may say it. The file comes with the code under test, so it may
            not say where the token goes, nor which secrets the agent gets and where they are sent.
        part: Where the value goes.
    """

    name: str
    kind: Kind
    default: str
    description: str
    choices: tuple[str, ...] = ()
    required: bool = False
    action_default: str = ""
    in_file: bool = True
    part: Part = "job"

    @property
    def documentation(self) -> str:
        """The description with the default, as the command's help and `action.yml` show it."""
        return f"{self.description} Default: {self.default}." if self.default else self.description

    @property
    def field(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The name as a command line flag."""
        return f"--{self.name}"

    @property
    def runner_variable(self) -> str:
        """The environment variable in which the GitHub runner passes it."""
        return f"INPUT_{self.name.upper()}"

    @property
    def variable(self) -> str:
        """The environment variable for every other place."""
        return f"AGENT_EVAL_{self.field.upper()}"


@dataclass(frozen=True, slots=True)
class Output:
    """One thing the job says to the steps after it."""

    name: str
    description: str


AGENT_INPUTS: tuple[Input, ...] = (
    Input(
        "agent-command",
        "text",
        "",
        "Run this program on every case instead of judging recorded traces: a command that reads a task as "
        "JSON and writes its answer as JSON.",
        part="agent",
    ),
    Input(
        "agent-url",
        "url",
        "",
        "The same for an agent behind an address, which is sent the task by POST.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-openai-base-url",
        "url",
        "",
        "The same for a model behind an OpenAI-compatible endpoint, named by `agent-model`; the key is "
        "`OPENAI_API_KEY` in the step's environment.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent",
        "text",
        "",
        "The same for any kind of agent, such as `openai:MODEL` or `anthropic:MODEL`.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-model",
        "text",
        "",
        "The model: the one that is asked at `agent-openai-base-url`, and for any agent the one that the "
        "evidence names.",
        part="agent",
    ),
    Input("system-prompt", "path", "", "File with the system prompt of a hosted model.", part="agent"),
    Input(
        "agent-env",
        "list",
        "",
        "Names of environment variables that the agent's program may see, one a line or separated by commas. "
        "It sees `PATH`, `HOME` and the like, and no other; the job's own token is refused.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-header",
        "lines",
        "",
        "Headers for an agent behind an address, each from an environment variable: `NAME=VARIABLE`, one a "
        "line.",
        in_file=False,
        part="agent",
    ),
    Input(
        "setup-command",
        "script",
        "",
        "Shell commands that install what the agent needs, run once before it and in the same place, by "
        "`sh -e`. They see no variable but `PATH`, `HOME` and the like.",
        part="agent",
    ),
    Input(
        "setup-env",
        "list",
        "",
        "Names of environment variables that `setup-command` may see as well.",
        in_file=False,
        part="agent",
    ),
    Input("setup-timeout-seconds", "amount", "900", "How long `setup-command` may take.", part="agent"),
    Input("trials", "integer", "1", "How often the agent runs each case, at most 1000.", part="agent"),
    Input(
        "max-repairs",
        "count",
        "0",
        "Attempts after a failed one, each told what the judges said, until one passes.",
        part="agent",
    ),
    Input(
        "parallel",
        "parallel",
        "1",
        "Cases at once, 1 to 256; `auto` adapts to what a hosted model takes.",
        part="agent",
    ),
    Input("command-timeout-seconds", "amount", "30", "Time of each attempt.", part="agent"),
    Input("max-output-bytes", "integer", "", "What an attempt may write or answer.", part="agent"),
    Input("max-steps", "integer", "", "Answers of a model in an attempt.", part="agent"),
    Input("max-tool-calls", "integer", "", "Tool calls in an attempt.", part="agent"),
    Input("max-case-seconds", "amount", "", "Time of all attempts at a case.", part="agent"),
    Input("max-case-tokens", "integer", "", "Tokens of all attempts at a case.", part="agent"),
    Input("max-case-cost", "amount", "", "US dollars for all attempts at a case.", part="agent"),
    Input(
        "max-run-seconds",
        "amount",
        "",
        "Time of a whole suite; a suite that reaches it is not evaluated.",
        part="agent",
    ),
    Input(
        "max-run-cost",
        "amount",
        "",
        "US dollars for a whole suite; a suite that reaches it is not evaluated.",
        part="agent",
    ),
    Input(
        "strict-side-effects",
        "switch",
        "false",
        "`true` fails an attempt with a tool call for which the case has no answer.",
        part="agent",
    ),
    Input(
        "replay",
        "path",
        "",
        "File of recorded answers of tools, for calls that the case does not answer; a call that is not in "
        "it fails.",
        part="agent",
    ),
)
"""In the order of `action.yml`."""


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
