"""List what is wrong with a suite in the format of the AUI evaluator, all of it at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts.aui import (
    AUTO,
    EVALUATION_MODELS,
    PADDED_TURNS,
    STRICT_KINDS,
    AuiSuite,
    AuiTest,
    AuiTurn,
    LlmEvaluation,
    own_fields,
)
from agent_eval.suites.problems import Problem, json_path, problems_of_details, short_json
from agent_eval.text.spelling import nearest

KEY_VARIABLE = "AUI_API_KEY"
"""Environment variable that a suite may name for the API key unless the operator allows others."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_FIELDS = {
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
    listed: list[tuple[int, Problem]] = []
    for problem in (*_refused(payload), *_misspelt(payload), *_of_tests(payload)):
        match = re.match(r"tests\[(\d+)\]", problem.field)
        test = payload["tests"][int(match[1])] if match else None
        name = test.get("name") if isinstance(test, dict) else None
        is_named = isinstance(name, str) and name  # for readers who do not count
        named = replace(problem, case_id=name) if is_named else problem
        listed.append((int(match[1]) if match else -1, named))
    return [problem for _, problem in sorted(listed, key=lambda numbered: numbered[0])]


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
            f"Name {' or '.join(sorted(allowed))}, or allow it with --set agent.key_env=NAME.",
            "apiKey",
        )


def warnings(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is odd about a suite without faults."""
    for level, place, value in _levels(payload):
        for key in [key for key in value if key not in _FIELDS[level]]:
            yield Problem(
                f"{short_json(key)} is not a field of a {level}, and is ignored",
                "Remove it, if it was meant to do something.",
                _below(place, key),
            )
        text = value.get("user", "") if level == "turn" else AUTO
        if text != AUTO and text.strip().casefold() == AUTO:
            yield Problem(
                f"user is {short_json(text)}, which is sent as it is",
                'Write "auto" to have the user simulated.',
                f"{place}.user",
            )
    for place, value, what in (
        ("model", payload, "a model"),
        *(
            (f"tests[{number}].systemPrompt", test, "a system prompt")
            for number, test in enumerate(payload["tests"])
        ),
    ):
        if value.get(place.rpartition(".")[2]):
            yield Problem(
                f"the AUI API has no field for {what}, so an AUI agent, which is the default, refuses it",
                "Leave it out, or name another agent with --agent.",
                place,
            )
    for place, test, evaluation in _evaluations(payload):
        before, turns = evaluation.get("beforeTurn"), max(len(test["turns"]), PADDED_TURNS)
        if before == 1:
            yield Problem(
                "beforeTurn 1 is before every turn, so this always passes",
                "Leave it out.",
                f"{place}.beforeTurn",
            )
        elif before is not None and before > turns:
            yield Problem(
                f"beforeTurn {before:g} is after the last of {turns} turns",
                "Leave it out to mean them all.",
                f"{place}.beforeTurn",
            )


def _refused(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the contract finds: missing fields, wrong types, unknown kinds, fields of other kinds."""
    try:
        AuiSuite.model_validate(payload)
    except ValidationError as error:
        details: list[dict[str, Any]] = []
        for each in error.errors(include_url=False, include_context=False):
            at = each["loc"]
            # After the number of an evaluation pydantic puts a step that no file has.
            at = at[:4] + at[5:] if at[2:3] == ("evaluations",) else at
            details.append({**each, "loc": at})
        ours = [detail for detail in details if detail["type"] not in ("extra_forbidden", "unknown_kind")]
        for place, message, remedy in problems_of_details(ours, payload):
            yield Problem(message, remedy, place)
        for detail in details:
            if detail["type"] == "unknown_kind":
                kind = detail["input"].get("strict")
                text = kind if isinstance(kind, str) else ""
                alike = get_close_matches(text, STRICT_KINDS, n=1, cutoff=0.5)
                hint = f"Did you mean {alike[0]}? " if alike else ""
                yield Problem(
                    f"there is no strict evaluation {short_json(kind)}",
                    f"{hint}Known kinds: {', '.join(STRICT_KINDS)}. Leave strict out to have a model judge.",
                    f"{json_path(detail['loc'])}.strict",
                )
        for detail in details:
            if detail["type"] == "extra_forbidden":
                *above, key = detail["loc"]
                kind = payload["tests"][above[1]]["evaluations"][above[3]].get("strict")
                model = LlmEvaluation if kind is None else EVALUATION_MODELS[kind]
                known = sorted({*model.model_fields, "strict"})
                near = nearest(key, known, 0.7)
                hint = f"Did you mean {near}? " if near else ""
                remedy = f"{hint}Its fields are {', '.join(known)}."
                what = f"{short_json(key)} is not a field of"
                if any(key in own_fields(other) for other in STRICT_KINDS):
                    what, remedy = f"{key} does not belong to", "Remove it, or name the strict kind."
                subject = kind or "an evaluation by a model"
                yield Problem(f"{what} {subject}", remedy, _below(json_path(above), key))


def _misspelt(payload: Mapping[str, Any]) -> Iterator[Problem]:
    for level, place, value in _levels(payload):
        for key in value:
            near = None if key in _FIELDS[level] else nearest(key, _FIELDS[level], 0.8)
            if near is not None:
                yield Problem(
                    f"{short_json(key)} is not a field of a {level}",
                    f"Did you mean {near}? Otherwise give it a name of its own.",
                    _below(place, key),
                )


def _of_tests(payload: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the tests whose evaluations all weigh nothing, then those with a name that another has."""
    tests = list(enumerate(_objects(payload.get("tests"))))
    for number, test in tests:
        weights = [evaluation.get("weight", 1) for evaluation in _objects(test.get("evaluations"))]
        if weights and all(type(weight) in (int, float) and weight == 0 for weight in weights):
            yield Problem(
                "every weight is 0, so the test has no score",
                "Give one of the evaluations a weight.",
                f"tests[{number}].evaluations",
            )
    first: dict[str, int] = {}
    for number, test in tests:
        name = test.get("name")
        if isinstance(name, str) and name and first.setdefault(name, number) != number:
            yield Problem(
                f"the name {short_json(name)} occurs twice: tests[{first[name]}] and tests[{number}]",
                "Give every test a name of its own.",
                f"tests[{number}].name",
            )


def _levels(payload: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the suite, its tests and their turns: the kind of each, its place and its fields."""
    yield "suite", "", payload
    for number, test in enumerate(_objects(payload.get("tests"))):
        yield "test", f"tests[{number}]", test
        for turn, message in enumerate(_objects(test.get("turns"))):
            yield "turn", f"tests[{number}].turns[{turn}]", message


def _evaluations(payload: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the place of each evaluation, its test, and the evaluation."""
    for number, test in enumerate(_objects(payload.get("tests"))):
        for position, evaluation in enumerate(_objects(test.get("evaluations"))):
            yield f"tests[{number}].evaluations[{position}]", test, evaluation


def _below(place: str, key: str) -> str:
    if not key.isidentifier():
        return place
    return f"{place}.{key}" if place else key


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    """Return the entries of a list as objects; one that is no object counts as an empty one."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []
