"""Rows of the model that judges criteria in words and plays the users of conversations."""

from __future__ import annotations

from agent_eval.config.options import Command, Option
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS

_ON_THE_COMMAND_LINE: tuple[Command, ...] = ("run", "run-loop", "rejudge", "stability-check")
"""Of these, the commands that may use a file of kept replies: one that a change brings along never gates."""

_ASKS: tuple[Command, ...] = ("run", "run-loop", "rejudge", "replay-exec", "stability-check", "ci")
"""Commands that may ask a model."""

LLM: tuple[Option, ...] = (
    Option(
        "llm-key",
        "secret",
        "API key of the model that judges and plays users. Default: `LLM_API_KEY`, else the provider's own "
        "variable.",
        goes_to="judging.llm.key",
        commands=_ASKS,
        metavar="KEY",
        in_file=False,
    ),
    Option(
        "provider",
        "choice",
        "Provider of the model that judges and plays users. `scripted` replies from a file, without network.",
        goes_to="judging.llm.provider",
        commands=_ASKS,
        default=DEFAULT_PROVIDER,
        choices=tuple(MODELS),
        in_file=False,
    ),
    Option(
        "llm-model",
        "text",
        "Name of that model. Default: the suite's `judgeModel`, else the provider's default.",
        goes_to="judging.llm.model",
        commands=_ASKS,
        metavar="NAME",
    ),
    Option(
        "llm-base-url",
        "url",
        "Endpoint of that model, where it is not the provider's own.",
        goes_to="judging.llm.base_url",
        commands=_ASKS,
        in_file=False,
    ),
    Option(
        "llm-script",
        "path",
        "File with the replies of a `scripted` model.",
        goes_to="judging.llm.script",
        commands=_ASKS,
        metavar="FILE",
        in_file=False,
    ),
    Option(
        "judge-votes",
        "integer",
        "Votes of the `llm` judge on each criterion, at most 9. 2 asks twice, and a third time where the two "
        "differ.",
        goes_to="judging.llm.votes",
        commands=_ASKS,
        default="1",
        bounds=(1, 9),
        metavar="N",
    ),
    Option(
        "judge-agreement",
        "path",
        "Record of `agent-eval judge-agreement`; advisory criteria that have earned it there count.",
        goes_to="judging.llm.agreement",
        commands=_ASKS,
        metavar="FILE",
    ),
    Option(
        "reuse-rulings",
        "path",
        "Evidence pack whose rulings of LLM judges are used again, where the same judge is asked the same. "
        "`rejudge` uses those of its own pack, and `ci` those of the baseline.",
        goes_to="judging.llm.reuse",
        commands=("run", "run-loop", "rejudge"),
        metavar="PACK",
    ),
    Option(
        "llm-cassette",
        "path",
        "File of kept replies of that model: what it has is not asked again, and new replies are added.",
        goes_to="judging.llm.cassette",
        commands=_ON_THE_COMMAND_LINE,
        metavar="FILE",
    ),
    Option(
        "llm-cassette-mode",
        "choice",
        "auto asks the model what the file does not have, record asks it everything, replay nothing.",
        goes_to="judging.llm.cassette_mode",
        commands=_ON_THE_COMMAND_LINE,
        default="auto",
        choices=("auto", "record", "replay"),
    ),
    Option(
        "run",
        "lines",
        "Evidence pack, or archive of one, with the judge's rulings. Repeatable.",
        goes_to="runs",
        commands=("judge-agreement",),
        metavar="PACK",
        required=True,
    ),
    Option(
        "labels",
        "path",
        "File of labels: what people found, and how the labelled conversations were drawn.",
        goes_to="labels",
        commands=("judge-agreement",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "out",
        "path",
        "Write the record to this file, for `--judge-agreement` of later runs; `-` for stdout.",
        goes_to="out",
        commands=("judge-agreement",),
        metavar="FILE",
    ),
)
