"""Rows of the model that judges criteria in words and plays the users of conversations."""

from __future__ import annotations

from agent_eval.config.options import Command, Option

_ASKS: tuple[Command, ...] = ("run", "run-loop", "rejudge", "stability-check", "ci")
"""Commands that may ask a model."""

LLM: tuple[Option, ...] = (
    Option(
        "llm-key",
        "secret",
        "API key of the model that judges and plays users. Default: `LLM_API_KEY`, else the provider's own "
        "variable.",
        goes_to="judging.llm.key",
        commands=_ASKS,
        loosens="nothing",
        metavar="KEY",
        in_file=False,
    ),
    Option(
        "provider",
        "choice",
        "Provider of the model that judges and plays users. `scripted` replies from a file, without network.",
        goes_to="judging.llm.provider",
        commands=_ASKS,
        loosens="compared",
        default="openai",
        choices=("openai", "anthropic", "claude-code", "scripted"),
        in_file=False,
    ),
    Option(
        "llm-model",
        "text",
        "Name of that model. Default: the suite's `judgeModel`, else the provider's default.",
        goes_to="judging.llm.model",
        commands=_ASKS,
        loosens="compared",
        metavar="NAME",
    ),
    Option(
        "llm-base-url",
        "url",
        "Endpoint of that model, where it is not the provider's own.",
        goes_to="judging.llm.base_url",
        commands=_ASKS,
        loosens="compared",
        in_file=False,
    ),
    Option(
        "llm-script",
        "path",
        "File with the replies of a `scripted` model.",
        goes_to="judging.llm.script",
        commands=_ASKS,
        loosens="compared",
        metavar="FILE",
        in_file=False,
    ),
)
