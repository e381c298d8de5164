"""Every row of the table reaches every place that it names, and nothing is declared outside the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from agent_eval.ci.config import INPUTS, OF_THE_FILE, SETTINGS, Settings, Setup, gather, settings_from
from agent_eval.cli.main import COMMANDS, agent_eval
from agent_eval.cli.options import Flag, TableCommand, parameter, specified
from agent_eval.config.assembly import PARTS, assemble, recorded_fields, values_from_record
from agent_eval.config.options import Command, Option
from agent_eval.config.project_file import written_anew
from agent_eval.config.rows.file import KEYS
from agent_eval.config.spec import AgentSpec, Output, RunSpec
from agent_eval.config.table import ROWS, options_of, settings_of
from agent_eval.config.values import parse
from agent_eval.contracts import ExecutionConfig, Thresholds
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.operations.rejudge import RejudgeRequest
from agent_eval.operations.replay import ReplayExecRequest
from agent_eval.operations.stability import StabilityRequest
from tests.unit.config.samples import at, default_of, sample

SPECIFICATIONS: dict[Command, type] = {
    "run": RunSpec,
    "stability-check": StabilityRequest,
    "replay": ReplayExecRequest,
    "rejudge": RejudgeRequest,
}
"""What the commands build of their options; every other one has them as parameters of its function."""

NOT_OF_THE_SPECIFICATION = {
    *("output_format", "execution_mode", "verbose", "quiet", "config", "set_values", "label_values"),
    *("judge_model", "summary_json"),
    *("run_agent", "public_key", "trust_pack", "allowed_drift"),
}

JOB_PARTS = {**PARTS, "setup": Setup, "thresholds": Thresholds}

Row = tuple[Command, Option]


def rows(*commands: Command) -> list[Any]:
    return [
        pytest.param(command, option, id=f"{command} {option.flag}")
        for command in commands
        for option in options_of(command)
    ]


def click_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that can be called, with its path."""
    root = click.Context(agent_eval, info_name="agent-eval")
    for name in COMMANDS:
        command = agent_eval.get_command(root, name)
        assert command is not None
        yield name, command


def test_the_table_knows_every_command_and_no_other() -> None:
    assert {path for path, _ in click_commands()} == set(get_args(Command))


def test_what_the_file_can_say_has_its_key() -> None:
    without = {row.name for row in ROWS if row.of_file} - KEYS.keys()
    assert without == set(), "write their keys into KEYS of agent_eval/config/rows/file.py"


@pytest.mark.parametrize("command", get_args(Command))
def test_a_name_means_one_option_of_a_command(command: Command) -> None:
    known = INPUTS if command == "ci" else options_of(command)
    names = [name for option in known for name in option.names]
    assert len(set(names)) == len(names)
    places = [option.goes_to for option in known]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(("path", "command"), [pytest.param(*one, id=one[0]) for one in click_commands()])
def test_the_flags_of_a_command_are_its_rows(path: Command, command: click.Command) -> None:
    options = [param for param in command.get_params(click.Context(command)) if isinstance(param, Flag)]
    known = INPUTS if path == "ci" else options_of(path)
    spelt = [[f"--{name}" if len(name) > 1 else f"-{name}" for name in row.names] for row in known]
    assert [option.opts for option in options] == spelt
    assert [option.multiple for option in options] == [row.is_listed for row in known]


def test_help_has_at_most_twelve_words() -> None:
    known = {row.flag: row.help for row in (*ROWS, *INPUTS) if row.commands}
    assert {flag: text for flag, text in known.items() if len(text.split()) > 12} == {}


@pytest.mark.parametrize("option", [pytest.param(row, id=row.flag) for row in ROWS if row.default])
def test_a_default_is_a_value_of_its_option(option: Option) -> None:
    assert parse(option, option.default) == default_of(option)


def test_the_same_option_has_the_same_name_kind_and_default_everywhere() -> None:
    by_place: dict[str, list[Option]] = {}
    for option in ROWS:
        if "." in option.goes_to:
            by_place.setdefault(option.goes_to, []).append(option)
    for place, options in by_place.items():
        alike = {(option.name, option.kind, option.aliases, option.recorded) for option in options}
        assert len(alike) == 1, place


def fields_of(part: Any) -> set[str]:
    if isinstance(part, type) and issubclass(part, BaseModel):
        return set(part.model_fields)
    return {field.name for field in dataclasses.fields(part)}


SET_BY_THE_JOB = {"judging": {"directory", "advisory", "case_policy"}, "agent": {"cassette_mode"}}
"""Fields that no option goes to: a job knows which files are trusted, and which judges a change adds; a pack
that is run again says when a case passes. What is done with a cassette follows from the tools."""


@pytest.mark.parametrize("part", JOB_PARTS)
def test_every_field_of_the_specification_is_one_that_an_option_goes_to(part: str) -> None:
    inner = {name.rpartition(".")[2] for name in JOB_PARTS if name.rpartition(".")[0] == part}
    reached = {row.goes_to.rpartition(".")[2] for row in (*ROWS, *SETTINGS) if row.part == part}
    assert reached | inner | SET_BY_THE_JOB.get(part, set()) == fields_of(JOB_PARTS[part])


@pytest.mark.parametrize("command", SPECIFICATIONS)
def test_every_field_of_a_request_is_a_part_or_one_that_an_option_goes_to(command: Command) -> None:
    known = (*options_of(command), *settings_of(command))
    reached = {row.goes_to.partition(".")[0] for row in known} - NOT_OF_THE_SPECIFICATION
    fields = fields_of(SPECIFICATIONS[command]) - {"trusted_digest", "ignore_environment"}
    assert reached <= fields
    # What no option of the command goes to has a default, and is a part that other commands fill.
    assert fields - reached <= set(PARTS)


def test_every_field_of_the_settings_is_one_that_an_input_goes_to() -> None:
    rows_of_settings = [row for row in SETTINGS if row.name not in OF_THE_FILE]
    derived = {"evidence_name"}
    assert {row.goes_to.partition(".")[0] for row in rows_of_settings} == fields_of(Settings) - derived


REQUIRED = {
    "run": ["--suite", "s", "--out", "o"],
    "stability-check": ["--suite", "s"],
    "replay": ["--run", "p"],
    "rejudge": ["--run", "p", "--out", "o", "--judge", "j"],
}


def words_for(command: Command, option: Option, name: str) -> list[str]:
    """A command line that gives the option and whatever it cannot go without."""
    text, _ = sample(option)
    words = [f"--{name}"] if option.kind == "switch" else [f"--{name}", text]
    required = dict(zip(REQUIRED[command][::2], REQUIRED[command][1::2], strict=True))
    required.pop(option.flag, None)
    for flag, value in required.items():
        words += [flag, value]
    if option.part.partition(".")[0] in ("agent", "limits"):
        words += ["--agent-command", "x"] * (option.name == "repair-command")
        words += ["--agent", "recorded"] * (
            option.name not in ("agent", "agent-command", "agent-url", "repair-command")
        )
    return words


def specification(command: Command, words: list[str]) -> Any:
    """What the real flags and the real assembly make of a command line."""
    made: dict[str, Any] = {}

    @click.command(cls=TableCommand, path=command)
    def probe(**values: Any) -> None:
        kept = {name: value for name, value in values.items() if name not in NOT_OF_THE_SPECIFICATION}
        made.update(specified(kept, agent_is_known=command == "replay"))

    done = CliRunner().invoke(probe, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return SPECIFICATIONS[command](**made)


@pytest.mark.parametrize(("command", "option"), rows(*SPECIFICATIONS))
def test_a_flag_reaches_its_field(command: Command, option: Option) -> None:
    if option.name in OF_THE_FILE:
        return
    if option.goes_to in NOT_OF_THE_SPECIFICATION:
        assert parameter(option) == option.goes_to
        return
    _, value = sample(option)
    for name in option.names:
        assert at(specification(command, words_for(command, option, name)), option.goes_to) == value


def job(given: dict[str, str], environ: dict[str, str] | None = None, file: str = "") -> Settings:
    content = file.encode() if file else None
    values = gather({"suite": "s.json", **given}, environ or {}, Path("agent-eval.yml"), content=content)
    return settings_from(values)


def value_at(settings: Settings, place: str) -> Any:
    """The value of a platform's row is in a mapping, as no other room knows the platform."""
    part, _, name = place.rpartition(".")
    return settings.platform[name] if part == "platform" else at(settings, place)


def with_agent(option: Option) -> dict[str, str]:
    needs_one = option.part.partition(".")[0] in ("agent", "limits", "setup")
    names_one = option.name in ("agent", "agent-command", "agent-url")
    return {"agent": "recorded"} if needs_one and not names_one else {}


@pytest.mark.parametrize("option", [pytest.param(row, id=row.name) for row in INPUTS])
def test_an_input_reaches_its_field_from_every_place(option: Option) -> None:
    text, value = sample(option)
    if option.name in OF_THE_FILE:
        return
    if option.name == "suite":
        assert job({"suite": text}).suite == value
        return
    more = with_agent(option)
    for name in option.names:
        found = [
            job({**more, name: text}),
            job(more, {f"INPUT_{name.upper()}": text}),
            job(more, {f"AGENT_EVAL_{name.upper().replace('-', '_')}": text}),
        ]
        if option.name in KEYS:
            found.append(job(more, file=written_anew(KEYS[option.name], text)))
        else:
            with pytest.raises(InvalidInput, match="there is no key"):
                job(more, file=f"{name}: {text}\n")
        assert [value_at(settings, option.goes_to) for settings in found] == [value] * len(found)


@pytest.mark.parametrize(
    ("row", "alias"), [pytest.param(row, alias, id=alias) for row in INPUTS for alias in row.aliases]
)
def test_an_input_under_two_names_is_refused(row: Option, alias: str) -> None:
    text, _ = sample(row)
    with pytest.raises(UsageError, match=f"{row.name} is given twice"):
        job({}, {f"INPUT_{row.name.upper()}": text, f"INPUT_{alias.upper()}": text})


@pytest.mark.parametrize(
    "option", [pytest.param(row, id=row.name) for row in INPUTS if row.default and row.name != "comment-id"]
)
def test_what_no_input_says_is_the_default(option: Option) -> None:
    settings = job({"agent": "recorded"})
    assert value_at(settings, option.goes_to) == default_of(option)


RUN = RunSpec(suite=Path("s.json"), output=Output(pack=Path("o")), agent=AgentSpec(name="recorded"))


@pytest.mark.parametrize(
    "option", [pytest.param(row, id=row.goes_to) for row in ROWS if row.recorded and row.name != "judge"]
)
def test_what_is_recorded_of_a_run_is_read_back(option: Option) -> None:
    _, value = sample(option)
    fields = assemble({"suite": RUN.suite, "output.pack": RUN.output.pack, option.goes_to: value})
    fields.setdefault("agent", RUN.agent)
    written = ExecutionConfig(**recorded_fields(RunSpec(**fields))).to_json()
    inside: Any = written
    for step in option.recorded.split("."):
        inside = inside[step]
    assert inside == value
    assert values_from_record(ExecutionConfig.model_validate(written))[option.goes_to] == value


def test_every_limit_that_changes_verdicts_is_recorded() -> None:
    limits = {row.goes_to: row.recorded for row in ROWS if row.part.startswith("limits.")}
    assert all(recorded for place, recorded in limits.items() if not place.startswith("limits.run."))
    assert not any(recorded for place, recorded in limits.items() if place.startswith("limits.run."))


@pytest.mark.parametrize("option", [pytest.param(row, id=row.goes_to) for row in ROWS if row.part in PARTS])
def test_the_default_of_a_row_is_that_of_its_field(option: Option) -> None:
    if not option.default or option.name == "max-repairs":
        return
    made = at(RUN, option.goes_to)
    assert made == default_of(option)
