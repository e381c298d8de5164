"""Rows of what an attempt, a case and a run may use."""

from __future__ import annotations

from agent_eval.config.options import RUNS_AN_AGENT, Option

LIMITS: tuple[Option, ...] = (
    Option(
        "command-timeout-seconds",
        "amount",
        "Time of each attempt.",
        goes_to="limits.attempt.seconds",
        commands=RUNS_AN_AGENT,
        default="30",
        unit="seconds",
    ),
    Option(
        "max-output-bytes",
        "integer",
        "What an attempt may write or answer.",
        goes_to="limits.attempt.output_bytes",
        commands=RUNS_AN_AGENT,
        unit="bytes",
    ),
    Option(
        "max-steps",
        "integer",
        "Answers of a model in an attempt.",
        goes_to="limits.attempt.steps",
        commands=RUNS_AN_AGENT,
        unit="steps",
    ),
    Option(
        "max-tool-calls",
        "integer",
        "Tool calls in an attempt.",
        goes_to="limits.attempt.tool_calls",
        commands=RUNS_AN_AGENT,
        unit="calls",
    ),
    Option(
        "max-case-seconds",
        "amount",
        "Time of all attempts at a case.",
        goes_to="limits.trial.seconds",
        commands=RUNS_AN_AGENT,
        unit="seconds",
    ),
    Option(
        "max-case-tokens",
        "integer",
        "Tokens of all attempts at a case.",
        goes_to="limits.trial.tokens",
        commands=RUNS_AN_AGENT,
        unit="tokens",
    ),
    Option(
        "max-case-cost",
        "amount",
        "US dollars for all attempts at a case.",
        goes_to="limits.trial.cost_usd",
        commands=RUNS_AN_AGENT,
        unit="US dollars",
    ),
    Option(
        "max-run-seconds",
        "amount",
        "Time of a whole suite; a suite that reaches it is not evaluated.",
        goes_to="limits.run.seconds",
        commands=RUNS_AN_AGENT,
        unit="seconds",
    ),
    Option(
        "max-run-cost",
        "amount",
        "US dollars for a whole suite; a suite that reaches it is not evaluated.",
        goes_to="limits.run.cost_usd",
        commands=RUNS_AN_AGENT,
        unit="US dollars",
    ),
)
