"""Rows of suites of conversations: which tests are run, and what of them is shown."""

from __future__ import annotations

from agent_eval.config.options import RUNS_AN_AGENT, Option
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS

CONVERSATIONS: tuple[Option, ...] = (
    Option(
        "test",
        "list",
        "Only tests, or cases, whose name has one of these texts, in any letter case. Separated by commas.",
        goes_to="tests",
        commands=("run", "run-loop", "plan"),
        metavar="TEXT",
    ),
    Option(
        "tag",
        "list",
        "Only tests, or cases, with one of these tags. Separated by commas.",
        goes_to="tags",
        commands=("run", "run-loop", "plan"),
        metavar="TAG",
    ),
    Option(
        "pass-threshold",
        "amount",
        "Percent of the weights of a case's strict and LLM evaluations, together, that suffice to pass.",
        goes_to="judging.pass_threshold",
        commands=("run", "run-loop", "rejudge", "stability-check", "ci"),
        default="100",
        unit="percent",
        bounds=(0.001, 100),
    ),
    Option(
        "debug",
        "switch",
        "Show the agent's raw responses in the reports on conversations.",
        goes_to="output.debug",
        commands=("run", "run-loop"),
        default="false",
    ),
    Option(
        "suite-key-env",
        "variables",
        "Environment variables that a suite of conversations may name for its API key, as `${NAME}`. "
        "Default: `AUI_API_KEY`.",
        goes_to="agent.key_variables",
        commands=RUNS_AN_AGENT,
        metavar="NAME",
        in_file=False,
    ),
    Option(
        "loops",
        "integer",
        "How often each test would be run.",
        goes_to="loops",
        commands=("plan",),
        default="1",
        bounds=(1, 1000),
        metavar="N",
    ),
    Option(
        "provider",
        "choice",
        "Provider of the model that would judge and play users.",
        goes_to="provider",
        commands=("plan",),
        default=DEFAULT_PROVIDER,
        choices=tuple(MODELS),
    ),
    Option(
        "llm-model",
        "text",
        "Name of that model. Default: the suite's `judgeModel`, else the provider's default.",
        goes_to="llm_model",
        commands=("plan",),
        metavar="NAME",
    ),
    Option(
        "port",
        "count",
        "Port of this machine; 0 for a free one.",
        goes_to="port",
        commands=("demo-agent",),
        default="8600",
        bounds=(0, 65_535),
        metavar="N",
    ),
    Option(
        "defect",
        "list",
        "Make the agents worse in this way; may be given several times. `--list-defects` lists the names.",
        goes_to="defects",
        commands=("demo-agent",),
        metavar="NAME",
    ),
    Option(
        "list-defects",
        "switch",
        "List the defects, and serve nothing.",
        goes_to="list_defects",
        commands=("demo-agent",),
        default="false",
    ),
    Option(
        "conversations",
        "switch",
        "Show a suite of conversations instead of recorded traces.",
        goes_to="conversations",
        commands=("demo",),
        default="false",
    ),
)
