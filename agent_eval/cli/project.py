"""What `agent-eval.yml` and `--set` say to a command, in place of what no flag gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.errors import AgentEvalError, UsageError

if TYPE_CHECKING:
    from agent_eval.config.options import Command, Option

RULES_OF_FILE = "agent_eval.rules_of_file"
"""Key of the context's `meta`: whether the policy of a configuration file decides."""

_LOOKED_AT = 20
"""Cases of a suite among which a trace is looked for."""

_OF_THE_JOB = ("baseline-public-key",)
"""Options whose key says what the job compares with; a command is told on its own line."""

_READ_NO_FILE = ("replay", "validate")
"""Commands that know `--set` alone: a pack says how it was made, and a file is what is checked."""

_NAMES_AN_AGENT = ("agent.command", "agent.url", "agent.name", "agent.base_url")


def fill_in(path: Command, context: click.Context, parameter: Callable[[Option], str]) -> list[Option]:
    """Give the parameters of a command the values of the file, where the command line gives none.

    The file's agent runs the file's suites, and those that the command line names and that have no traces.
    `parameter` names the parameter of an option. Returns the options that `--set` and its like state, which
    count as given by the user.

    Raises:
        AgentEvalError: The file cannot be read, or has an unknown key, or a wrong value.
    """
    from agent_eval.config.assembly import assemble
    from agent_eval.config.project_file import OF_THE_MODEL, ProjectFile
    from agent_eval.config.rows.file import KEYS
    from agent_eval.config.table import options_of, settings_of

    params, title = context.params, ("title",) if path.startswith("report ") else ()
    rows = [
        row
        for row in (*options_of(path), *settings_of(path))
        if row.name in title
        or (row.name in KEYS and not KEYS[row.name].startswith("ci.") and row.name != "baseline")
    ]
    named = params.get("config") if path == "gate" else params.pop("config", None)
    settings, labels = params.pop("set_values", ()), params.pop("label_values", ())
    model = params.pop("judge_model", None)
    stated = ProjectFile.stated(settings, labels, model, rows)
    of_file = [row for row in rows if row.name not in _OF_THE_JOB]
    texts = {} if path in _READ_NO_FILE else _texts(named, of_file, context)
    if model is not None:
        texts = {name: text for name, text in texts.items() if name not in OF_THE_MODEL}
    if "agent.name" in {row.goes_to for row in rows}:
        _drop_endpoint_of_another(texts, stated, params.get("agent__name"))
    texts |= stated
    redaction = [row for row in rows if row.part == "redaction" and row.name in texts]
    if redaction:  # a wrong rule is refused before a suite is read to see whether it has traces
        from agent_eval.storage.redaction import Redactor  # importing it takes as long as all the rest

        parts = assemble({row.goes_to: _parsed(row, texts[row.name]) for row in redaction})
        Redactor(rules=parts["redaction"])
    typed = click.core.ParameterSource.COMMANDLINE
    on_command_line = {row.goes_to for row in rows if context.get_parameter_source(parameter(row)) is typed}
    on_command_line |= {"config"} if named is not None else set()
    passed_over = _passed_over(context, rows, on_command_line, path, has_values=bool(texts))
    for row in rows:
        if row.name in stated or (row.name in texts and row.goes_to not in passed_over):
            params[parameter(row)] = _parsed(row, texts[row.name])
        elif row.default or not row.part:  # a part of a specification keeps its own default
            unset = () if row.is_listed else None
            params.setdefault(parameter(row), _parsed(row, row.default) if row.default else unset)
    if path in ("run", "stability-check"):
        _share_cassette(params)
    if "judging.judges" in on_command_line and (configs := params.get("judging__configs")):
        judges = params["judging__judges"]
        params["judging__configs"] = {name: configs[name] for name in judges if name in configs}
    return [row for row in rows if row.name in stated]


def _passed_over(
    context: click.Context, rows: list[Option], on_command_line: set[str], path: Command, *, has_values: bool
) -> set[str]:
    """Find what the file says in vain, by `goes_to`: beside what is given, what that makes meaningless."""
    from agent_eval.config.assembly import is_for_an_agent

    over, params = set(on_command_line), context.params
    names_an_agent = bool(on_command_line.intersection(_NAMES_AN_AGENT))
    if path == "gate":
        over |= set() if params.get("apply_waivers") else {"baseline_name"}
        is_literal = any(name.startswith("thresholds.") for name in on_command_line)
        # Thresholds of the command line decide alone, unless a policy is named there as well.
        if is_literal and not on_command_line & {"policy", "preset", "config"}:
            context.meta.pop(RULES_OF_FILE, None)
            of_rules, named = ("thresholds", "own_policy"), ("policy", "preset")
            over.update(row.goes_to for row in rows if row.part in of_rules or row.goes_to in named)
    if has_values and (params.get("suites") or "suite" in on_command_line):
        from agent_eval.suites.paths import is_of_conversations, suite_paths
        from agent_eval.suites.reader import open_suite

        over.add("suite")
        suite = params.get("suite") or ()
        named = (*((str(suite),) if isinstance(suite, Path) else suite), *(params.get("suites") or ()))
        # One that the command line names may have recorded traces, or an agent of its own.
        if not names_an_agent and any(
            is_of_conversations(path)
            or any(case.trace for _, case in islice(open_suite(path).cases(), _LOOKED_AT))
            for path in suite_paths(named)
        ):
            over.update(row.goes_to for row in rows if is_for_an_agent(row))
    if names_an_agent:
        over.update((*_NAMES_AN_AGENT, "agent.repair_command"))
        if "agent.name" in on_command_line:
            over.discard("agent.base_url")
    if "judging.judge_config" in on_command_line:
        over.add("judging.configs")
    return over


def _drop_endpoint_of_another(texts: dict[str, str], stated: Mapping[str, str], named: str | None) -> None:
    """Drop the file's `agent.base_url` where the command line names an agent of another provider.

    `texts` are the file's, `stated` those of `--set`, `named` is what `--agent` says. It is said where the
    agent would have an endpoint: its own one gets what is sent to it.
    """
    from agent_eval.agents.catalog import kind_of
    from agent_eval.cli.output import print_error
    from agent_eval.models.catalog import DEFAULT_PROVIDER

    agent = named or stated.get("agent")
    if agent is None or "base-url" not in texts or "base-url" in stated:
        return
    # Alone it is the endpoint of `labels.model`, or else of the agent that a suite of conversations names.
    without_agent = DEFAULT_PROVIDER if "model" in texts else "a suite's agent"
    of_file = texts.get("agent", without_agent).partition(":")[0]
    kind = kind_of(agent)
    if kind is None or kind.name == of_file:
        return
    del texts["base-url"]
    if kind.has_endpoint:
        print_error(
            f"agent.base_url of the file is not used: it is that of {of_file}, and {kind.name} is asked at "
            "its own address. Name another with --set agent.base_url=URL."
        )


def _share_cassette(params: dict[str, Any]) -> None:
    """Let the tools use the file of kept replies as well: one file has both.

    Live tools are called and their answers kept; without them, answers come from the file that has some.
    The tools' mode does not depend on whether the file exists: a stopped run has written it, and must resume.
    """
    from agent_eval.storage.json import read_json

    file, mode = params["judging__llm__cassette"], params["judging__llm__cassette_mode"]
    if file is None:
        return
    content = read_json(file) if file.is_file() else None
    if mode == "record" and content is None:  # the first part that is written must not stop the other
        params["judging__llm__cassette_mode"] = "auto"
    content = content if isinstance(content, dict) else {}
    if params["agent__tools"] and mode != "replay":
        params["agent__cassette_mode"] = "record" if mode == "record" else "update"
    elif not content.get("calls"):
        return
    params["agent__cassette"] = file
    if content.get("kind") == "tool_cassette":
        params["judging__llm__cassette"] = None


def _texts(named: Path | None, rows: list[Option], context: click.Context) -> dict[str, str]:
    """Read what the file states, by option; nothing where there is none, or it is a policy alone.

    Values that other commands read are checked too: a wrong one is noticed before the job ends with it.
    """
    from agent_eval.config.options import CI
    from agent_eval.config.project_file import CONFIG_FILE, ProjectFile, is_policy
    from agent_eval.config.table import options_of, settings_of
    from agent_eval.storage.files import read_bytes
    from agent_eval.storage.json import DEFAULT_LIMITS

    file = named or Path(CONFIG_FILE)
    if named is None and not file.is_file():
        return {}
    data = read_bytes(file, max_bytes=DEFAULT_LIMITS.max_bytes)
    if is_policy(data, str(file)):
        return {} if "config" in context.params else {"policy": str(file)}
    if "config" in context.params:
        context.params["config"] = None
    context.meta[RULES_OF_FILE] = True
    own = {row.name for row in rows}
    others = [row for row in (*options_of(CI), *settings_of(CI)) if row.name not in own]
    texts = ProjectFile.parse(data, str(file), (*rows, *others)).texts
    values = {row.goes_to: _parsed(row, texts.pop(row.name)) for row in others if row.name in texts}
    keys = {
        place.partition(".")[2]: value for place, value in values.items() if place.startswith("own_policy.")
    }
    if keys:
        from agent_eval.gate.policy_file import parse_policy

        parse_policy(keys, source=str(file))
    return texts


def _parsed(row: Option, text: str) -> Any:
    from agent_eval.config.rows.file import KEYS
    from agent_eval.config.values import WrongValue, parse

    try:
        return parse(row, text)
    except WrongValue as wrong:
        wrong_text = repr(text[:80]) if wrong.may_be_shown else "the value"
        key = KEYS.get(row.name, row.name)
        raise UsageError(
            f"{key}: {wrong_text} is not {wrong.wanted}.", remedy=f"Correct `{key}`.", field=key
        ) from None


def validate_project(path: Path) -> tuple[bool, dict[str, Any], list[str]] | None:
    """Check a configuration file, or a policy; None for a file that is neither.

    Returns whether it is valid, that as JSON, and for people. A file with keys of earlier versions is not
    valid, and comes written the new way.
    """
    import yaml

    from agent_eval.ci.config import gather, settings_from
    from agent_eval.config.project_file import converted, is_policy, is_project
    from agent_eval.operations.gate import parse_policy_file
    from agent_eval.storage.files import read_bytes
    from agent_eval.storage.json import DEFAULT_LIMITS
    from agent_eval.storage.yaml import parse_yaml

    if path.suffix.lower() not in (".yml", ".yaml"):
        return None
    data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
    content = parse_yaml(data, source=str(path))
    if not isinstance(content, dict) or "cases" in content or "tests" in content:
        return None
    try:
        if is_project(content):
            values = gather({}, {}, path, content=data)
            settings_from({**values}, complete=False)
        elif is_policy(data, str(path)):
            parse_policy_file(data, str(path))
        else:
            return None
    except AgentEvalError as error:
        new = converted(content)
        written = None
        if is_project(content) and new != content:
            written = yaml.safe_dump(new, sort_keys=False, allow_unicode=True, width=110)
        lines = [error.message, f"  {error.remedy}"] if error.remedy else [error.message]
        payload = {"path": str(path), "passed": False, "error": error.message, "written_anew": written}
        return False, payload, [*lines, *(["", *written.splitlines()] if written else [])]
    return True, {"path": str(path), "passed": True}, [f"{path} is valid."]
