"""Rows of the decision and of the CI job: what it compares with, what blocks, where the result goes."""

from __future__ import annotations

from agent_eval.config.options import REGISTRY, Command, Kind, Option

# fmt: off
# A row is its name and kind, its help, its commands, and what is not usual: two lines, and not fifteen.

_DECIDES: tuple[Command, ...] = ("gate", "ci")
_OF_THE_JOB: tuple[Command, ...] = ("ci",)

_LIMITS: tuple[tuple[str, Kind, str, tuple[Command, ...], tuple[Command, ...]], ...] = (
    ("min-pass-rate", "share", "Share of cases that must pass, from 0 to 1.", _DECIDES, ()),
    ("max-hard-fail-rate", "share", "Share of cases that may fail hard, from 0 to 1.", (), _DECIDES),
    ("max-hard-fail-increase", "share", "How far the hard-fail rate may rise, 0 to 1.", ("gate",),
     _OF_THE_JOB),
    ("max-regressed-cases", "count", "How many cases may get worse than in the baseline.", _DECIDES, ()),
    ("max-new-hard-fail-cases", "count", "How many cases may newly fail hard.", ("gate",), _OF_THE_JOB),
)

THRESHOLDS: tuple[Option, ...] = tuple(
    Option(name, kind, text, goes_to=f"thresholds.{name.replace('-', '_')}", commands=commands,
           of_file=of_file)
    for name, kind, text, commands, of_file in _LIMITS
)
"""An option for each limit of the gate, in the order of `contracts.Thresholds`."""

ROWS: tuple[Option, ...] = (
    # the decision
    *THRESHOLDS,
    Option("preset", "choice", "`release` also holds a margin, and blocks safety judges at once.", _DECIDES,
           choices=("pull-request", "release"), detail="`pull-request` blocks what breaks or is not settled; "
           "`release` also holds a margin of 2 points against the release before. Default: what the policy "
           "says, else `pull-request`. Thresholds are added to it."),
    Option("policy", "path", "File with the gate's policy: preset, limits, safety judges, quarantine.",
           of_file=(*_DECIDES, "history show"), detail="For a change the base branch's version counts."),
    Option("base-agent", "text", "The base's agent, where it is no program of the repository.", ("ci",),
           detail="Written as for `agent`, to run cases again: an address, a hosted model, or `docker run … "
           "IMAGE@sha256:…`. A program of the repository is built from the base commit."),
    Option("registry-path", "path", "The registry of waivers and baselines; need not exist.", of_file=("ci",),
           default=REGISTRY, detail="For a change the base branch's version counts."),
    Option("baseline-name", "text", "Whose waivers in the registry apply.", of_file=("ci",), default="main"),
    Option("require-baseline", "switch", "Fail the job when there is no baseline to compare with.",
           of_file=("ci",)),
    Option("fail-on", "choice", "`never` reports only; what could not be evaluated fails.", ("ci",),
           default="gate", choices=("gate", "never")),
    # the job
    Option("baseline", "text", "Pack, registered name, `auto` for an earlier run, `run:ID`, or `none`.",
           ("ci",), default="auto", detail="`run:ID` is exactly that run, build or pipeline, and no other."),
    Option("base-branches", "list", "Further branches whose commits count as reviewed, by whole name.",
           of_file=("ci",), detail="Counts only in the default branch's file."),
    Option("evidence", "path", "Judge nothing: decide on these packs.", ("ci",), metavar="PATH",
           detail="Earlier jobs of this run made them, such as the merged shards of one: a pack, or a "
           "directory or archive of packs."),
    Option("report-run-id", "integer", "Run nothing: report on this finished run of a change.", ("ci",),
           detail="By the rules of the base branch. For the second job, which comments on changes from "
           "forks."),
    Option("allow-fork-with-secrets", "switch", "Run a fork's code beside secrets; approve each.", ("ci",)),
    Option("out", "path", "Directory for evidence, archive and report; replaces an earlier run's.", ("ci",),
           metavar="DIRECTORY", default="agent-eval-out"),
    Option("title", "text", "Heading of the comment and the report.", ("ci",), goes_to="report_title",
           default="agent-eval"),
    Option("comment", "choice", "`auto` keeps one comment on the change, `never` writes none.", ("ci",),
           default="auto", choices=("auto", "never")),
    Option("comment-id", "text", "Name of one of several evaluations of a change.", ("ci",),
           default="default", detail="Each has its own comment; by default it derives from the job's own "
           "inputs, such as `suite` and `agent`. Letters, digits, dots, hyphens and underscores, at most "
           "64. Evidence is uploaded and found again as `agent-eval-evidence`, with a stated name as "
           "`agent-eval-evidence-NAME`."),
)
