"""Rows of the decision: thresholds, policy, and whose waivers apply."""

from __future__ import annotations

from agent_eval.config.options import REGISTRY, Command, Option
from agent_eval.config.rules import RULES

_DECIDES: tuple[Command, ...] = ("gate", "ci")

THRESHOLDS: tuple[Option, ...] = tuple(
    Option(
        rule.option,
        "count" if rule.unit == "cases" else "share",
        rule.help,
        goes_to=f"thresholds.{rule.field}",
        commands=_DECIDES,
        loosens="compared",
    )
    for rule in RULES
)
"""An option for each rule of the gate."""

GATE: tuple[Option, ...] = (
    *THRESHOLDS,
    Option(
        "preset",
        "choice",
        "How much worse is too much, and what follows when the evidence does not decide: `pull-request` "
        "has a margin of 5 points and warns, `release` has 2 and blocks. Default: what `policy` says, else "
        "`pull-request`. Thresholds are added to it.",
        goes_to="preset",
        commands=_DECIDES,
        loosens="compared",
        choices=("pull-request", "release"),
    ),
    Option(
        "policy",
        "path",
        "YAML or JSON file with the gate's policy: preset, margin, zero-tolerance judges, quarantine, "
        "thresholds. For a change from a fork the base branch's version counts.",
        goes_to="policy",
        commands=_DECIDES,
        loosens="compared",
        metavar="FILE",
    ),
    Option(
        "max-baseline-error-rate",
        "share",
        "The share of cases that may end in an error in a run that is to be a baseline; a run with more is "
        "none. Default: what `policy` says, else 0.2.",
        goes_to="max_baseline_error_rate",
        commands=_DECIDES,
        loosens="compared",
    ),
    Option(
        "confirm-pairs",
        "count",
        "Where an agent runs on a change: how often a case that passed before and does not now is run again, "
        "in turn by the agent of the merge base and by the change's. Only these trials say whether it got "
        "worse by the change. At least 3, better 6; 0 for none.",
        goes_to="confirm_pairs",
        commands=("ci",),
        loosens="other",
        default="6",
        bounds=(0, 50),
        unit="pairs",
    ),
    Option(
        "max-confirm-cases",
        "count",
        "How many cases of a suite may be run again so; what is beyond is inconclusive.",
        goes_to="max_confirm_cases",
        commands=("ci",),
        loosens="lower",
        default="8",
        bounds=(0, 100),
        unit="cases",
    ),
    Option(
        "base-agent",
        "text",
        "The agent of the merge base, written as for `agent`, to run cases again. Needed where the agent "
        "is behind an address or a hosted model; a program is built from the merge base.",
        goes_to="base_agent",
        commands=("ci",),
        loosens="other",
        in_file=False,
    ),
    Option(
        "base-cache",
        "text",
        "A directory, outside of the checkout, that keeps trials which the merge base's program passed. A "
        "change that is pushed again within 24 hours then runs fewer of them. They never excuse a failure.",
        goes_to="base_cache",
        commands=("ci",),
        loosens="nothing",
        metavar="DIRECTORY",
    ),
    Option(
        "registry-path",
        "path",
        "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a change "
        "from a fork the base branch's version counts.",
        goes_to="registry_path",
        commands=("ci",),
        loosens="compared",
        default=REGISTRY,
        metavar="FILE",
    ),
    Option(
        "baseline-name",
        "text",
        "Whose waivers in the registry apply.",
        goes_to="baseline_name",
        commands=("ci",),
        loosens="compared",
        default="main",
    ),
    Option(
        "require-baseline",
        "switch",
        "Fail the job when there is no baseline to compare with.",
        goes_to="require_baseline",
        commands=("ci",),
        loosens="off",
        default="false",
    ),
    Option(
        "on-case-removed",
        "choice",
        "What happens when a case or a whole suite of the baseline is gone: `warn` says so at the top, "
        "`fail` fails the job.",
        goes_to="on_case_removed",
        commands=("ci",),
        loosens="earlier",
        default="warn",
        choices=("warn", "fail"),
    ),
    Option(
        "fail-on",
        "choice",
        "`gate` fails the job when the gate says no, `never` only reports. What could not be evaluated "
        "fails the job either way.",
        goes_to="fail_on",
        commands=("ci",),
        loosens="later",
        default="gate",
        choices=("gate", "never"),
    ),
)
