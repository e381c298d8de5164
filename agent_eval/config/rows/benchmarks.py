"""Rows of the command that generates suites."""

from __future__ import annotations

from agent_eval.config.options import Command, Option

_GENERATE: tuple[Command, ...] = ("benchmark-generate",)

BENCHMARKS: tuple[Option, ...] = (
    Option(
        "archetype",
        "choice",
        "What kind of agent the suite is for.",
        goes_to="archetype",
        commands=_GENERATE,
        choices=("support_agent", "research_agent", "ops_agent", "coding_agent"),
        required=True,
    ),
    Option(
        "cases",
        "integer",
        "Number of cases.",
        goes_to="cases",
        commands=_GENERATE,
        default="50",
        bounds=(1, 10_000),
    ),
    Option(
        "seed",
        "seed",
        "Another seed gives other cases; the same one gives the same bytes.",
        goes_to="seed",
        commands=_GENERATE,
        default="0",
    ),
    Option(
        "out",
        "path",
        "The .json or .jsonl suite to write.",
        goes_to="out",
        commands=_GENERATE,
        metavar="FILE",
        required=True,
    ),
    Option(
        "with-traces",
        "switch",
        "Give each case the trace of an agent that does everything right.",
        goes_to="with_traces",
        commands=_GENERATE,
        default="false",
    ),
)
