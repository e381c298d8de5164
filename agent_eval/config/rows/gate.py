"""Rows of the decision: thresholds, policy, and whose waivers apply."""

from __future__ import annotations

from agent_eval.config.options import REGISTRY, Command, Kind, Option

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
