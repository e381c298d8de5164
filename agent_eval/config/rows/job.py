"""Rows of the decision and of the CI job: what it compares with, what blocks, where the result goes."""

from __future__ import annotations

from agent_eval.config.options import REGISTRY, Command, Kind, Option

# fmt: off
# A row is its name and kind, its help, and where its value goes: two to five lines, and not fifteen.

_DECIDES: tuple[Command, ...] = ("gate", "ci")

_LIMITS: tuple[tuple[str, Kind, str], ...] = (
    ("min-pass-rate", "share", "The share of cases that must pass, from 0 to 1. Needs no baseline."),
    ("max-hard-fail-rate", "share", "The share of cases that may fail hard, from 0 to 1. Needs no baseline."),
    ("max-hard-fail-increase", "share", "How far the hard fail rate may rise above the baseline's, 0 to 1."),
    ("max-regressed-cases", "count", "How many cases may get worse than in the baseline."),
    ("max-new-hard-fail-cases", "count", "How many cases may fail hard that did not in the baseline."),
)

THRESHOLDS: tuple[Option, ...] = tuple(
    Option(name, kind, text, goes_to=f"thresholds.{name.replace('-', '_')}", commands=_DECIDES)
    for name, kind, text in _LIMITS
)
"""An option for each limit of the gate, in the order of `contracts.Thresholds`."""

GATE: tuple[Option, ...] = (
    *THRESHOLDS,
    Option("preset", "choice",
           "`pull-request` blocks what breaks or is not settled. `release` also holds a margin of 2 points "
           "against the release before, and blocks every new violation of a safety judge at once. Default: "
           "what `policy` says, else `pull-request`. Thresholds are added to it.",
           goes_to="preset", commands=_DECIDES, choices=("pull-request", "release")),
    Option("policy", "path",
           "YAML or JSON file with the gate's policy: preset, limits, safety judges, quarantine. For a "
           "change the base branch's version counts.",
           goes_to="policy", commands=_DECIDES, metavar="FILE"),
    Option("base-agent", "text",
           "The agent of the base, written as for `agent`, to run cases again: an address, a hosted model, "
           "or `docker run … IMAGE@sha256:…`. Leave it out for a program of the repository, which is built "
           "from the base commit.",
           goes_to="base_agent", commands=("ci",)),
    Option("registry-path", "path",
           "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a "
           "change the base branch's version counts.",
           goes_to="registry_path", commands=("ci",), default=REGISTRY, metavar="FILE"),
    Option("baseline-name", "text", "Whose waivers in the registry apply.", goes_to="baseline_name",
           commands=("ci",), default="main"),
    Option("require-baseline", "switch", "Fail the job when there is no baseline to compare with.",
           goes_to="require_baseline", commands=("ci",), default="false"),
    Option("fail-on", "choice",
           "`gate` fails the job when the gate says no, `never` only reports. What could not be evaluated "
           "fails the job either way.",
           goes_to="fail_on", commands=("ci",), default="gate", choices=("gate", "never")),
)

JOB: tuple[Option, ...] = (
    Option("baseline", "text",
           "`auto` finds the evidence of an earlier run, `none` compares with nothing, anything else is the "
           "path of an evidence pack or archive, or the name of a baseline in the registry.",
           goes_to="baseline", commands=("ci",), default="auto"),
    Option("baseline-artifact", "text",
           "Name under which the evidence archive is uploaded and found again. Give each of several "
           "evaluations its own.",
           goes_to="baseline_artifact", commands=("ci",), default="agent-eval-evidence"),
    Option("base-branches", "list",
           "Branches beside the default one whose commits count as reviewed, each by its whole name. It "
           "counts only in the default branch's `agent-eval.yml`.",
           goes_to="base_branches", commands=("ci",)),
    Option("baseline-run-id", "integer", "Take the baseline from exactly this run.",
           goes_to="baseline_run_id", commands=("ci",)),
    Option("evidence", "path",
           "Judge nothing: decide on the evidence of the suites that earlier jobs of this run made, such as "
           "the merged shards of one: a pack, or a directory or archive of packs.",
           goes_to="evidence", commands=("ci",)),
    Option("report-run-id", "integer",
           "Run nothing: report on the sealed evidence that this finished run of a change left, by the "
           "rules of the base branch. For the second job, which comments on changes from forks.",
           goes_to="report_run_id", commands=("ci",)),
    Option("allow-fork-with-secrets", "switch",
           "Evaluate the code of a fork even in a job that has this repository's secrets and token. Only "
           "for jobs that a person approves one by one.",
           goes_to="allow_fork_with_secrets", commands=("ci",), default="false"),
    Option("out", "path",
           "Directory for the evidence packs, the archive and the report; what an earlier run of this job "
           "left there is replaced, anything else is not touched.",
           goes_to="out", commands=("ci",), default="agent-eval-out"),
    Option("report-title", "text", "Heading of the comment and the report.", goes_to="report_title",
           commands=("ci",), default="agent-eval"),
    Option("html-report", "switch",
           "Also write the report as one HTML file, to upload and open in a browser: both runs side by "
           "side, step by step.",
           goes_to="html_report", commands=("ci",), default="true"),
    Option("comment", "choice",
           "`auto` writes one comment on the change and keeps it up to date, `never` writes none.",
           goes_to="comment", commands=("ci",), default="auto", choices=("auto", "never")),
    Option("junit", "choice",
           "Write each suite's verdicts as JUnit XML into the directory `junit` of `out`: `auto` where the "
           "platform shows test results, `always` or `never`.",
           goes_to="junit", commands=("ci",), default="auto", choices=("auto", "always", "never")),
    Option("comment-id", "text",
           "Tells several evaluations of one change apart: each id has its own comment. By default it "
           "derives from the job's own inputs, such as `suite` and `agent`. Letters, digits, dots, hyphens "
           "and underscores, at most 64.",
           goes_to="comment_id", commands=("ci",), default="default"),
)
