"""Rows of the decision: thresholds, policy, and whose waivers apply."""

from __future__ import annotations

from agent_eval.config.options import CI, Option

GATE: tuple[Option, ...] = (
    Option(
        "min-pass-rate",
        "share",
        "The share of cases that must pass, from 0 to 1. Needs no baseline.",
        goes_to="thresholds.min_pass_rate",
        commands=(CI,),
    ),
    Option(
        "max-hard-fail-rate",
        "share",
        "The share of cases that may fail hard, from 0 to 1. Needs no baseline.",
        goes_to="thresholds.max_hard_fail_rate",
        commands=(CI,),
    ),
    Option(
        "max-pass-rate-drop",
        "share",
        "How far the pass rate may fall below the baseline's, 0 to 1.",
        goes_to="thresholds.max_pass_rate_drop",
        commands=(CI,),
    ),
    Option(
        "max-hard-fail-increase",
        "share",
        "How far the hard fail rate may rise above the baseline's, 0 to 1.",
        goes_to="thresholds.max_hard_fail_increase",
        commands=(CI,),
    ),
    Option(
        "max-regressed-cases",
        "count",
        "How many cases may get worse than in the baseline.",
        goes_to="thresholds.max_regressed_cases",
        commands=(CI,),
    ),
    Option(
        "max-new-hard-fail-cases",
        "count",
        "How many cases may fail hard that did not in the baseline.",
        goes_to="thresholds.max_new_hard_fail_cases",
        commands=(CI,),
    ),
    Option(
        "preset",
        "choice",
        "How much worse is too much, and what follows when nobody can tell: `pull-request` has a margin "
        "of 5 points and warns, `release` has 2 and blocks. Default: what `policy` says, else "
        "`pull-request`. Thresholds are added to it.",
        goes_to="preset",
        commands=(CI,),
        choices=("pull-request", "release"),
    ),
    Option(
        "policy",
        "path",
        "YAML or JSON file with the gate's policy: preset, margin, zero-tolerance judges, quarantine, "
        "thresholds. For a change from a fork the base branch's version counts.",
        goes_to="policy",
        commands=(CI,),
    ),
    Option(
        "registry-path",
        "path",
        "The registry: accepted regressions (waivers) and baselines by name; need not exist. For a change "
        "from a fork the base branch's version counts.",
        goes_to="registry_path",
        commands=(CI,),
        default=".agent_eval/registry.json",
    ),
    Option(
        "baseline-name",
        "text",
        "Whose waivers in the registry apply.",
        goes_to="baseline_name",
        commands=(CI,),
        default="main",
    ),
    Option(
        "require-baseline",
        "switch",
        "`true` fails the job when there is no baseline to compare with.",
        goes_to="require_baseline",
        commands=(CI,),
        default="false",
    ),
    Option(
        "on-case-removed",
        "choice",
        "What happens when a case or a whole suite of the baseline is gone: `warn` says so at the top, "
        "`fail` fails the job.",
        goes_to="on_case_removed",
        commands=(CI,),
        default="warn",
        choices=("warn", "fail"),
    ),
    Option(
        "fail-on",
        "choice",
        "`gate` fails the job when the gate says no, `never` only reports. What could not be evaluated "
        "fails the job either way.",
        goes_to="fail_on",
        commands=(CI,),
        default="gate",
        choices=("gate", "never"),
    ),
)
