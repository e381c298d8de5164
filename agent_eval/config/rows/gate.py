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
        choices=("pull-request", "release"),
    ),
    Option(
        "policy",
        "path",
        "YAML or JSON file with the gate's policy: preset, margin, zero-tolerance judges, quarantine, "
        "thresholds. For a change from a fork the base branch's version counts.",
        goes_to="policy",
        commands=_DECIDES,
        metavar="FILE",
    ),
    Option(
        "base-agent",
        "text",
        "The agent of the merge base, written as for `agent`, to run cases again. Needed where the agent "
        "is behind an address or a hosted model; a program is built from the merge base.",
        goes_to="base_agent",
        commands=("ci",),
        in_file=False,
    ),
    Option(
        "registry-path",
        "path",
        "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a change "
        "from a fork the base branch's version counts.",
        goes_to="registry_path",
        commands=("ci",),
        default=REGISTRY,
        metavar="FILE",
    ),
    Option(
        "baseline-name",
        "text",
        "Whose waivers in the registry apply.",
        goes_to="baseline_name",
        commands=("ci",),
        default="main",
    ),
    Option(
        "require-baseline",
        "switch",
        "Fail the job when there is no baseline to compare with.",
        goes_to="require_baseline",
        commands=("ci",),
        default="false",
    ),
    Option(
        "fail-on",
        "choice",
        "`gate` fails the job when the gate says no, `never` only reports. What could not be evaluated "
        "fails the job either way.",
        goes_to="fail_on",
        commands=("ci",),
        default="gate",
        choices=("gate", "never"),
    ),
)
