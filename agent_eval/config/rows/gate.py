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
        "`pull-request` blocks what breaks or is not settled. `release` also holds a margin of 2 points "
        "against the release before, and blocks every new violation of a safety judge at once. Default: what "
        "`policy` says, else `pull-request`. Thresholds are added to it.",
        goes_to="preset",
        commands=_DECIDES,
        choices=("pull-request", "release"),
    ),
    Option(
        "policy",
        "path",
        "YAML or JSON file with the gate's policy: preset, limits, safety judges, quarantine. For a change "
        "the base branch's version counts.",
        goes_to="policy",
        commands=_DECIDES,
        metavar="FILE",
    ),
    Option(
        "base-agent",
        "text",
        "The agent of the base, written as for `agent`, to run cases again: an address, a hosted model, or "
        "`docker run … IMAGE@sha256:…`. Leave it out for a program of the repository, which is built from "
        "the base commit.",
        goes_to="base_agent",
        commands=("ci",),
        in_file=False,
    ),
    Option(
        "registry-path",
        "path",
        "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a change "
        "the base branch's version counts.",
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
