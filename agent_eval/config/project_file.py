"""Read `agent-eval.yml`: one file that says how a project is evaluated, and `--set KEY=VALUE` in its place.

The file is a tree; each of its leaves is a key, such as `limits.case.seconds`, that states one option of
`config.rows.file.KEYS`. Some keys have a short form. Values become the texts that the option's flag would
have, so that one parser checks both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.config.gone import POLICY_KEYS, gone_option
from agent_eval.config.options import LISTED, Option
from agent_eval.config.rows.file import KEYS
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.catalog import MODELS
from agent_eval.storage.yaml import parse_yaml
from agent_eval.text.spelling import nearest

CONFIG_FILE = "agent-eval.yml"
"""Read from the working directory when it is there."""

PRESETS = ("pull-request", "release")

LABELS = "labels"

OF_THE_MODEL = ("provider", "llm-model", "llm-base-url", "llm-script")
"""Options that say which model judges: one that is named anew is not asked at the earlier one's endpoint."""

_FILE = re.compile(r"\S*/\S*|\S+\.(?:ya?ml|json)")


def _judges(value: Any) -> Any:
    if isinstance(value, str) and _FILE.fullmatch(value) and ":" not in value:
        return {"judge_config": value}
    if not isinstance(value, Mapping):
        return {"judges": value}
    configs = {name: config for name, config in value.items() if name != "pass_threshold"}
    read: dict[str, Any] = {"judges": list(configs), "judges.configuration": configs}
    return read | {f"judges.{name}": value[name] for name in ("pass_threshold",) if name in value}


SHORT = frozenset({"agent", "setup", "judge_model", "policy", "baseline"})
"""Keys with a short form."""


def _long_form(key: str, value: Any) -> Any:
    """Write out the short form of a key's value; a value without one stays as it is."""
    if key == "judge_model":
        stated = value if isinstance(value, Mapping) else {"model": value}
        text = stated.get("model")
        # A provider's name alone stands for its default model.
        is_provider = text in MODELS and "provider" not in stated
        if not isinstance(text, str) or not (":" in text or is_provider):
            return stated
        # `PROVIDER:MODEL[@ENDPOINT]`, whose endpoint begins at the last `@http`.
        name, at, endpoint = text.rpartition("@http")
        provider, _, model = (name if at else text).partition(":")
        parts = {"provider": provider, "model": model, "base_url": f"http{endpoint}" if at else ""}
        if provider in MODELS and not MODELS[provider].asks_a_service:
            parts = {"provider": provider, "script": model}
        own = {part: value for part, value in stated.items() if part != "model"}
        return own | {part: value for part, value in parts.items() if value}
    if key not in SHORT or not isinstance(value, str):
        return value
    if key == "agent":
        is_program = re.match(r"\S+[ /]", value.partition(":")[0]) is not None
        is_address = value.lower().startswith(("http://", "https://"))
        return {"url" if is_address else "run" if is_program else "model": value}
    if key == "policy":
        return {"preset" if value in PRESETS else "file": value}
    return {"run" if key == "setup" else "from": value}


@dataclass
class ProjectFile:
    """What a file, or `--set`, states.

    Attributes:
        texts: By the name of an option: its value as the flag would have it; several are on lines.
        unknown: Keys that no option of the reader has.
    """

    texts: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes, source: str, rows: Iterable[Option], *, lenient: bool = False) -> ProjectFile:
        """Read the file's bytes for a reader that has these `rows`; keys of other options are passed over.

        `lenient` reads keys by earlier names too, and collects those that this version does not know, in
        place of refusing them: another version of the program wrote the file, whose rules must hold.

        Raises:
            InvalidInput: It is no mapping, has an unknown key (the nearest is named), or one that is gone.
        """
        content = parse_yaml(data, source=source)
        if content is not None and not isinstance(content, dict):
            raise InvalidInput(
                f"{source} is not a mapping of keys to values.",
                remedy="Write one `key: value` a line, such as `suites: suites/*.json`.",
                file=source,
            )
        if lenient and content:
            content = converted(content)
        return cls._of(content or {}, source, rows, data.decode("utf-8", "replace"), lenient=lenient)

    @classmethod
    def stated(
        cls, settings: Iterable[str], labels: Iterable[str], model: str | None, rows: Iterable[Option]
    ) -> dict[str, str]:
        """Read `--set`, `--label` and `--judge-model`, each of which states keys, as texts by option.

        Values of `--set` are in YAML; a later one wins.

        Raises:
            UsageError: One has no `=`, or an unknown key.
        """
        stated: list[tuple[str, Any]] = []
        for option, example, texts in (
            ("set", "limits.case.seconds=60", settings),
            ("label", "model=small-1", labels),
        ):
            for text in texts:
                key, equals, value = text.partition("=")
                if not (equals and key.strip()):
                    raise UsageError(
                        f"--{option} {text[:80]!r} is not KEY=VALUE.",
                        remedy=f"Write it as --{option} {example}.",
                        field=option,
                    )
                if option == "label":
                    stated.append((f"{LABELS}.{key.strip()}", value))
                else:
                    content = parse_yaml(value.encode(), source=f"--set {key}") if value.strip() else None
                    stated.append((key.strip(), content))
        if model:
            stated.append(("judge_model", model))
        read: dict[str, str] = {}
        for key, value in stated:
            content = value
            for part in reversed(key.split(".")):
                content = {part: content}
            read |= cls._of(content, "--set", rows, "", lenient=False).texts
        return read

    @classmethod
    def _of(
        cls, content: Mapping[str, Any], source: str, rows: Iterable[Option], text: str, *, lenient: bool
    ) -> ProjectFile:
        by_key: dict[str, list[Option]] = {}
        for row in rows:
            if row.name in KEYS:
                by_key.setdefault(KEYS[row.name], []).append(row)
        read = cls()
        for key, value in _leaves(content):
            known = key in _EVERY_KEY
            if not known and lenient:
                read.unknown.append(key)
            elif not known:
                raise _unknown(key, value, source, text)
            for row in by_key.get(key, ()):
                if written := text_of(row, key, value, source):
                    read.texts[row.name] = written
        return read


_EVERY_KEY = frozenset(KEYS.values())
_GROUPS = frozenset(key[: match.start()] for key in _EVERY_KEY for match in re.finditer(r"\.", key))


def _leaves(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key with its value, short forms written out."""
    for name, value in content.items():
        key = above + str(name)
        if key == "judges":
            spread = _judges(value)
            yield from spread.items()
            continue
        spread = _long_form(key, value)
        if key in _GROUPS and isinstance(spread, Mapping):
            yield from _leaves(spread, f"{key}.")
        elif not (key in _GROUPS and spread is None):
            yield key, spread


def _unknown(key: str, value: Any, source: str, text: str) -> InvalidInput | UsageError:
    """The error for a key that does not exist: how an old name is written today, else the nearest key."""
    name = key.rpartition(".")[2]
    place = re.search(rf"^[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*:", text, re.MULTILINE)
    line = text.count("\n", 0, place.start()) + 1 if place is not None else None
    where = f"{source}: line {line}" if line is not None else source
    details = {"file": source, "field": key[:80]}
    for old in (name, name.replace("_", "-"), re.sub(r"[._]", "-", key)):
        if (gone := gone_option(old, f"{where}: `{key[:80]}`")) is not None:
            return gone
    if key.startswith("policy.") and (instead := POLICY_KEYS.get(name)) is not None:
        return InvalidInput(f"{where}: `{key[:80]}` is gone.", remedy=instead, **details)
    if (new := key_of_old_name(key)) is not None:
        remedy = f"Write `{written_anew(new, value)}`. `agent-eval validate {CONFIG_FILE}` prints it all."
        return InvalidInput(f"{where}: `{key}` is now `{new}`.", remedy=remedy, **details)
    near = nearest(key, _EVERY_KEY | _GROUPS, 0.6)
    hint = f"Did you mean `{near}`?" if near else "`agent-eval schema show config` lists the keys."
    made = UsageError if source == "--set" else InvalidInput
    return made(f"{where}: there is no key `{key[:80]}`.", remedy=hint, **details)


def key_of_old_name(name: str) -> str | None:
    """The key of what an option's own name stated in a file of earlier versions; None for another name."""
    return KEYS.get(_EARLIER_NAMES.get(name, name))


_EARLIER_NAMES = {
    "judges": "judge",
    "agent-model": "model",
    "replay": "cassette",
    "report-title": "title",
    "agent-openai-base-url": "base-url",
}


def written_anew(key: str, value: Any) -> str:
    """Write a key and its value on one line, as they stand in the file."""
    for part in reversed(key.split(".")):
        value = {part: value}
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r'"([A-Za-z_][\w./-]*)"', r"\1", text)[1:-1]


def text_of(row: Option, key: str, value: Any, source: str) -> str:
    """Write the value of a key as the text that the row's flag would have; empty for nothing stated.

    Raises:
        InvalidInput: It has another shape than the option.
    """
    if row.kind == "object":
        return json.dumps(value) if value is not None else ""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if row.kind in LISTED and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    pairs = row.metavar.startswith("NAME=") and isinstance(value, Mapping)
    if pairs and all(isinstance(item, str) for item in value.values()):
        return "\n".join(f"{name}={item}" for name, item in value.items())
    shapes = " nor a list of texts" * (row.kind in LISTED)
    raise InvalidInput(
        f"{source}: `{key}` is neither text nor a number{shapes}.",
        remedy="`agent-eval schema show config` says what a key may be.",
        file=source,
        field=key,
    )


def converted(content: Mapping[str, Any]) -> dict[str, Any]:
    """Write the content of a file of earlier versions the new way; keys that are not old stay as they are.

    Example:
        >>> converted({"suite": "s.json", "agent-command": "python agent.py", "max-case-cost": 0.1})
        {'suites': 's.json', 'agent': 'python agent.py', 'limits': {'case': {'cost_usd': 0.1}}}
    """
    new: dict[str, Any] = {}
    for name, value in content.items():
        if name in _TOPS:
            long = _long_form(name, value)
            new[name] = {**new[name], **long} if isinstance(long, dict) and name in new else long
            continue
        *groups, last = (key_of_old_name(name) or name).split(".")
        place = new
        for group in groups:
            inner = place.get(group)
            place[group] = inner if isinstance(inner, dict) else {}
            place = place[group]
        place[last] = value
    short = (("agent", "run"), ("agent", "model"), ("setup", "run"), ("policy", "file"), ("baseline", "from"))
    for group, only in short:
        if isinstance(new.get(group), dict) and list(new[group]) == [only]:
            new[group] = new[group][only]
    return new


def is_policy(data: bytes, source: str) -> bool:
    """Whether a file is a policy alone, or thresholds, as `policy: FILE` names one."""
    content = parse_yaml(data, source=source)
    return isinstance(content, dict) and bool(content) and not _TOPS.intersection(content)


_TOPS = {key.partition(".")[0] for key in _EVERY_KEY}


def is_project(content: Mapping[str, Any]) -> bool:
    """Whether a mapping has keys of `agent-eval.yml`, of this version or an earlier one."""
    return any(name in _TOPS or key_of_old_name(name) is not None for name in content)
