"""Rows of the limits: what an attempt, all attempts at a case, and a whole run may use.

A new limit is one row here, a field of the same name in `contracts.limits`, and its use in the engine.
"""

from __future__ import annotations

from agent_eval.config.options import RUNS_AN_AGENT, SECONDS_BOUNDS, Option

LIMITS: tuple[Option, ...] = (
    Option(
        "command-timeout-seconds",
        "amount",
        "Time of each attempt.",
        goes_to="limits.attempt.seconds",
        commands=RUNS_AN_AGENT,
        default="30",
        unit="seconds",
        bounds=SECONDS_BOUNDS,
        recorded="attempt_limits.seconds",
    ),
    Option(
        "max-output-bytes",
        "integer",
        "What an attempt may write or answer.",
        goes_to="limits.attempt.output_bytes",
        commands=RUNS_AN_AGENT,
        unit="bytes",
        recorded="attempt_limits.output_bytes",
    ),
    Option(
        "max-steps",
        "integer",
        "Answers of a model in an attempt.",
        goes_to="limits.attempt.steps",
        commands=RUNS_AN_AGENT,
        unit="steps",
        recorded="attempt_limits.steps",
    ),
    Option(
        "max-tool-calls",
        "integer",
        "Tool calls in an attempt.",
        goes_to="limits.attempt.tool_calls",
        commands=RUNS_AN_AGENT,
        unit="calls",
        recorded="attempt_limits.tool_calls",
    ),
    Option(
        "max-attempt-tokens",
        "integer",
        "Tokens of an attempt, as reported.",
        goes_to="limits.attempt.tokens",
        commands=RUNS_AN_AGENT,
        unit="tokens",
        recorded="attempt_limits.tokens",
    ),
    Option(
        "max-case-seconds",
        "amount",
        "Time of all attempts at a case.",
        goes_to="limits.trial.seconds",
        commands=RUNS_AN_AGENT,
        unit="seconds",
        bounds=SECONDS_BOUNDS,
        recorded="case_limits.seconds",
    ),
    Option(
        "max-case-steps",
        "integer",
        "Messages and tool calls of the agent in all attempts at a case.",
        goes_to="limits.trial.steps",
        commands=RUNS_AN_AGENT,
        unit="steps",
        recorded="case_limits.steps",
    ),
    Option(
        "max-case-tool-calls",
        "integer",
        "Tool calls in all attempts at a case.",
        goes_to="limits.trial.tool_calls",
        commands=RUNS_AN_AGENT,
        unit="calls",
        recorded="case_limits.tool_calls",
    ),
    Option(
        "max-case-tokens",
        "integer",
        "Tokens of all attempts at a case.",
        goes_to="limits.trial.tokens",
        commands=RUNS_AN_AGENT,
        unit="tokens",
        recorded="case_limits.tokens",
    ),
    Option(
        "max-case-cost",
        "amount",
        "US dollars for all attempts at a case.",
        goes_to="limits.trial.cost_usd",
        commands=RUNS_AN_AGENT,
        unit="USD",
        recorded="case_limits.cost_usd",
    ),
    Option(
        "max-run-seconds",
        "amount",
        "Time of a whole run, which stops cleanly when it reaches that and can be resumed. In the CI job, "
        "the first run has half of it, and what is run again the other half; a first run that is cut short "
        "is not evaluated.",
        goes_to="limits.run.seconds",
        commands=RUNS_AN_AGENT,
        unit="seconds",
        bounds=SECONDS_BOUNDS,
    ),
    Option(
        "max-run-cost",
        "amount",
        "US dollars for a whole run, which stops cleanly when it reaches that and can be resumed. In the CI "
        "job, the first run has half of it, and what is run again the other half; a first run that is cut "
        "short is not evaluated.",
        goes_to="limits.run.cost_usd",
        commands=RUNS_AN_AGENT,
        unit="USD",
    ),
)
