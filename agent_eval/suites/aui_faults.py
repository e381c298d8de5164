"""List what is wrong with a suite in the format of the AUI evaluator, all of it at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts.aui import (
    AUTO,
    EVALUATION_MODELS,
    STRICT_KINDS,
    TAGS,
    AuiSuite,
    AuiTest,
    AuiTurn,
    LlmEvaluation,
    own_fields,
)
from agent_eval.suites.problems import Problem, json_path, problems_of_details, short_json
from agent_eval.text.numbers import count, verb
from agent_eval.text.spelling import nearest

KEY_VARIABLE = "AUI_API_KEY"
"""Environment variable that a suite may name for the API key unless the operator allows others."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_LEVELS = {
    "suite": frozenset(AuiSuite.model_fields),
    "test": frozenset(AuiTest.model_fields),
    "turn": frozenset(AuiTurn.model_fields),
}


def key_reference(text: str) -> str | None:
    """Return the variable that an `apiKey` names; None if it is the key itself.

    Example:
        >>> key_reference("${AUI_API_KEY}"), key_reference("API_KEY_1f")
        ('AUI_API_KEY', None)
    """
    match = _REFERENCE.fullmatch(text.strip())
    return match[1] if match else None


def faults(payload: Mapping[str, Any]) -> list[Problem]:
    """List the faults of a suite, in the order of its format."""
    listed = [*_faults_of_values(payload), *_misspelt(payload)]
    for number, test in enumerate(_objects(payload.get("tests"))):
        listed += _faults_of_test(test, f"tests[{number}]")
    listed += _duplicates(payload)
    listed.sort(key=_number_of_test)
    return [_with_name(problem, payload) for problem in listed]


def faults_of_key(key: Any, allowed: Collection[str]) -> Iterator[Problem]:
    """Yield what is wrong with an `apiKey` that names an environment variable.

    `allowed` are the environment variables that the operator lets suites name.
    """
    if not isinstance(key, str) or "${" not in key:
        return
    name = key_reference(key)
    if name is None:
        yield Problem(
            "apiKey is neither a key nor the name of a variable", "Write ${NAME} and nothing else.", "apiKey"
        )
    elif name not in allowed:
        yield Problem(
            f"apiKey names the environment variable {name}, which suites may not read here",
            f"Name {' or '.join(sorted(allowed))}, or have the operator allow it with --suite-key-env.",
            "apiKey",
        )


def warnings(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is odd about a suite without faults."""
    yield from _unknown(payload, "suite", "")
    for number, test in enumerate(_objects(payload.get("tests"))):
        place = f"tests[{number}]"
        yield from _unknown(test, "test", f"{place}.")
        for turn, message in enumerate(_objects(test.get("turns"))):
            yield from _unknown(message, "turn", f"{place}.turns[{turn}].")
            text = message.get("user", "")
            if text != AUTO and text.strip().casefold() == AUTO:
                yield Problem(
                    f"user is {short_json(text)}, which is sent as it is",
                    'Write "auto" to have the user simulated.',
                    f"{place}.turns[{turn}].user",
                )
        for position, evaluation in enumerate(_objects(test.get("evaluations"))):
            yield from _odd_turn(evaluation, test, f"{place}.evaluations[{position}].beforeTurn")
    yield from _of_first_api(payload)


_OF_FIRST_API = {
    **dict.fromkeys(("tool_used", "tool_not_used", "escalated", "not_escalated"), "workflows"),
    **dict.fromkeys(("param_equals", "param_exists", "param_not_exists"), "parameters"),
    "integration_called": "integrations",
}
"""Strict evaluations of what the later AUI API (v3) does not record."""


def _of_first_api(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield one warning on all evaluations that cannot be decided by the later API."""
    places: list[str] = []
    parts: set[str] = set()
    for number, test in enumerate(_objects(payload.get("tests"))):
        for position, evaluation in enumerate(_objects(test.get("evaluations"))):
            part = _OF_FIRST_API.get(str(evaluation.get("strict")))
            if part is not None:
                places.append(f"tests[{number}].evaluations[{position}]")
                parts.add(part)
    if places:
        words = f"{count(len(places), 'evaluation')} from here on {verb(len(places), 'rests', 'rest')} on"
        yield Problem(
            f"{words} {', '.join(sorted(parts))}, which the later AUI API does not record: with "
            "--agent aui-v3:ID they are errors",
            "Keep to the first API, which is the default, or have a model judge them.",
            places[0],
        )


def _odd_turn(evaluation: Mapping[str, Any], test: Mapping[str, Any], place: str) -> Iterator[Problem]:
    before = evaluation.get("beforeTurn")
    turns = max(len(test["turns"]), 7)
    if before == 1:
        yield Problem("beforeTurn 1 is before every turn, so this always passes", "Leave it out.", place)
    elif before is not None and before > turns:
        yield Problem(
            f"beforeTurn {before:g} is after the last of {turns} turns",
            "Leave it out to mean them all.",
            place,
        )


def _faults_of_values(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the contract finds: missing fields, wrong types, unknown kinds."""
    try:
        AuiSuite.model_validate(payload)
    except ValidationError as error:
        details: list[dict[str, Any]] = [
            {**detail, "loc": tuple(step for step in detail["loc"] if step not in TAGS)}
            for detail in error.errors(include_url=False, include_context=False)
        ]
        ours = [detail for detail in details if detail["type"] not in ("extra_forbidden", "unknown_kind")]
        for place, message, remedy in problems_of_details(ours, payload):
            yield Problem(message, remedy, place)
        for detail in details:
            if detail["type"] == "unknown_kind":
                yield _unknown_kind(detail["input"], json_path(detail["loc"]))


def _unknown_kind(evaluation: Any, place: str) -> Problem:
    kind = evaluation.get("strict")
    near = get_close_matches(kind, STRICT_KINDS, n=1, cutoff=0.5) if isinstance(kind, str) else []
    hint = f"Did you mean {near[0]}? " if near else ""
    return Problem(
        f"there is no strict evaluation {short_json(kind)}",
        f"{hint}Known kinds: {', '.join(STRICT_KINDS)}. Leave strict out to have a model judge.",
        f"{place}.strict",
    )


def _faults_of_test(test: Mapping[str, Any], place: str) -> Iterator[Problem]:
    evaluations = list(_objects(test.get("evaluations")))
    for position, evaluation in enumerate(evaluations):
        yield from _stray_keys(evaluation, f"{place}.evaluations[{position}]")
    if evaluations and all(
        type(weight := each.get("weight", 1)) in (int, float) and weight == 0 for each in evaluations
    ):
        yield Problem(
            "every weight is 0, so the test has no score",
            "Give one of the evaluations a weight.",
            f"{place}.evaluations",
        )


def _stray_keys(evaluation: Mapping[str, Any], place: str) -> Iterator[Problem]:
    """Yield keys that an evaluation must not have: misspelt ones, and those of other kinds."""
    kind = evaluation.get("strict")
    if "strict" in evaluation and (not isinstance(kind, str) or kind not in EVALUATION_MODELS):
        return
    model = EVALUATION_MODELS[kind] if isinstance(kind, str) else LlmEvaluation
    of_others = frozenset[str]().union(*map(own_fields, STRICT_KINDS)) - frozenset(model.model_fields)
    for key in evaluation:
        if key in model.model_fields or key == "strict":
            continue
        where = f"{place}.{key}" if key.isidentifier() else place
        subject = kind or "an evaluation by a model"
        if key in of_others:
            yield Problem(f"{key} does not belong to {subject}", "Remove it, or name the strict kind.", where)
            continue
        known = sorted({*model.model_fields, "strict"})
        near = nearest(key, set(known), 0.7)
        hint = f"Did you mean {near}? " if near else ""
        yield Problem(
            f"{short_json(key)} is not a field of {subject}",
            f"{hint}Its fields are {', '.join(known)}.",
            where,
        )


def _misspelt(payload: Mapping[str, Any]) -> Iterator[Problem]:
    for level, place, value in _levels(payload):
        for key in value:
            near = None if key in _LEVELS[level] else nearest(key, _LEVELS[level], 0.8)
            if near is not None:
                yield Problem(
                    f"{short_json(key)} is not a field of a {level}",
                    f"Did you mean {near}? Otherwise give it a name of its own.",
                    f"{place}{key}" if key.isidentifier() else place.rstrip("."),
                )


def _levels(payload: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    yield "suite", "", payload
    for number, test in enumerate(_objects(payload.get("tests"))):
        yield "test", f"tests[{number}].", test
        for turn, message in enumerate(_objects(test.get("turns"))):
            yield "turn", f"tests[{number}].turns[{turn}].", message


def _unknown(value: Mapping[str, Any], level: str, place: str) -> Iterator[Problem]:
    for key in value:
        if key not in _LEVELS[level]:
            yield Problem(
                f"{short_json(key)} is not a field of a {level}, and is ignored",
                "Remove it, if it was meant to do something.",
                f"{place}{key}" if key.isidentifier() else place.rstrip("."),
            )


def _duplicates(payload: Mapping[str, Any]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    tests = payload.get("tests")
    for number, test in enumerate(tests if isinstance(tests, list) else ()):
        name = test.get("name") if isinstance(test, dict) else None
        if isinstance(name, str) and name and first.setdefault(name, number) != number:
            yield Problem(
                f"the name {short_json(name)} occurs twice: tests[{first[name]}] and tests[{number}]",
                "Give every test a name of its own.",
                f"tests[{number}].name",
            )


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    """Return the entries of a list as objects; one that is no object counts as an empty one."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


_TEST = re.compile(r"tests\[(\d+)\]")


def _number_of_test(problem: Problem) -> int:
    """Return the position of a problem's test; -1 for one of the suite itself."""
    match = _TEST.match(problem.field)
    return int(match[1]) if match else -1


def _with_name(problem: Problem, payload: Mapping[str, Any]) -> Problem:
    """Name the test of a problem, for readers who do not count."""
    match = _TEST.match(problem.field)
    test = payload["tests"][int(match[1])] if match else None
    name = test.get("name") if isinstance(test, dict) else None
    if not isinstance(name, str) or not name:
        return problem
    return Problem(problem.message, problem.remedy, problem.field, case_id=name)
