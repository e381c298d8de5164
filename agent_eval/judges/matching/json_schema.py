"""Validate values against JSON Schema: drafts 2020-12, 2019-09, 7, 6 and 4, without files or network.

A schema comes from the suite and the value from an agent; both are hostile. References reach the schema
itself and the published meta-schemas, never a file or an address. Patterns run on RE2 (`schema_keywords`).
`format` is an annotation, as the drafts define it by default, and is not asserted. A schema that refers to
itself endlessly, or that follows more than `REFERENCE_LIMIT` references on one value, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson
from jsonschema import exceptions as jsonschema_exceptions

from agent_eval.contracts import canonical_json
from agent_eval.judges.base import EVIDENCE_LIMIT, clipped, quoted
from agent_eval.judges.matching.re2 import InvalidPattern
from agent_eval.judges.matching.schema_keywords import (
    DEFAULT_DRAFT,
    DRAFTS,
    REGISTRY,
    TooManyReferences,
    compile_schema_pattern,
    draft_id,
    limited_references,
    specification_of,
)
from agent_eval.judges.reading import refusal

REFERENCE_LIMIT = 200_000
"""Maximum number of references followed while one value is checked; a few seconds' work."""

_MESSAGE_LIMIT = 160


class UnusableSchema(ValueError):
    """A schema that cannot be applied. `place` is a JSON pointer into it; `remedy` says what to do."""

    def __init__(self, message: str, *, place: str = "", remedy: str = "Correct the schema.") -> None:
        super().__init__(message)
        self.place = place
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a value breaks its schema, such as `$.items[0].price`, and how, in bounded words."""

    path: str
    message: str


def check_schema(schema: Any, *, case_id: str, field: str) -> None:
    """Refuse a schema that cannot be applied.

    Raises:
        InvalidInput: The schema is invalid, has an unusable pattern, or refers to something outside of it.
    """
    try:
        _inspect_once(canonical_json(schema))
    except UnusableSchema as problem:
        place = f" at {problem.place}" if problem.place else ""
        words = f"{field} is not a usable JSON Schema{place}: {problem}"
        raise refusal(case_id, field, words, problem.remedy) from None


def violations(schema: Any, value: Any, *, limit: int = EVIDENCE_LIMIT) -> list[Violation]:
    """Return at most `limit` places where the value breaks the schema; none if the value is valid."""
    return apply(_validator_for(canonical_json(schema)), value, limit=limit)


def apply(validator: Any, value: Any, *, limit: int = EVIDENCE_LIMIT) -> list[Violation]:
    """Do what `violations` does, with a validator from `make_validator`."""
    try:
        with limited_references(REFERENCE_LIMIT):
            if validator.is_valid(value):
                return []
        with limited_references(REFERENCE_LIMIT):
            return [_violation(error) for error in islice(validator.iter_errors(value), limit)]
    except RecursionError:
        raise UnusableSchema(
            "the schema refers to itself without end",
            remedy="Let every self-reference go through a property or an item.",
        ) from None
    except TooManyReferences:
        raise UnusableSchema(
            f"the schema takes more than {REFERENCE_LIMIT} references on this value",
            remedy="Use fewer alternatives that refer to alternatives.",
        ) from None
    # A reference may lead to something that is not a schema or was never inspected; the library may then
    # raise anything.
    except Exception as problem:
        words = clipped(f"{type(problem).__name__}: {problem}", _MESSAGE_LIMIT)
        raise UnusableSchema(f"applying it raised {words}") from None


def make_validator(schema: Any, *, draft: str = DEFAULT_DRAFT, registry: Any = REGISTRY) -> Any:
    """Build a validator for `apply`.

    The schema is not checked, see `inspect`; one that names no draft has `draft`, a key of `DRAFTS`. It may
    refer to itself and to the resources of `registry`.
    """
    validator_class = _validator_class_of(schema, draft)
    resolver = _resolver(_resource(schema, validator_class), registry)
    return validator_class(schema, registry=registry, _resolver=resolver)


def inspect(schema: Any, *, draft: str = DEFAULT_DRAFT, registry: Any = REGISTRY) -> None:
    """Refuse a schema that cannot be applied. Arguments are those of `make_validator`.

    Raises:
        UnusableSchema: It is invalid, has an unusable pattern, or refers to something neither in it nor in
            the registry.
    """
    validator_class = _validator_class_of(schema, draft)
    try:
        with limited_references(REFERENCE_LIMIT):
            error = next(_meta_validator(validator_class).iter_errors(schema), None)
        if error is not None:
            place = clipped("".join(f"/{part}" for part in error.absolute_path), 200)
            raise UnusableSchema(_message(error), place=place)
        _check_subschemas(_resource(schema, validator_class), registry)
    except (RecursionError, TooManyReferences):
        raise UnusableSchema("it is nested too deeply or too large") from None


@lru_cache(maxsize=256)
def _validator_for(schema_json: bytes) -> Any:
    return make_validator(orjson.loads(schema_json))


@lru_cache(maxsize=256)
def _inspect_once(schema_json: bytes) -> None:
    inspect(orjson.loads(schema_json))


def _validator_class_of(schema: Any, default: str) -> Any:
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    if dialect is None:
        return DRAFTS[default]
    validator_class = DRAFTS.get(draft_id(dialect))
    if validator_class is None:
        raise UnusableSchema(
            f"$schema {quoted(dialect)} is not a supported draft",
            place="/$schema",
            remedy=f"Use one of {', '.join(DRAFTS)}, or leave it out for {DEFAULT_DRAFT}.",
        )
    return validator_class


def _resolver(root: Any, registry: Any) -> Any:
    # Crawling finds anchors and embedded ids once, instead of at every reference.
    base = (root.id() or "") if isinstance(root.contents, dict) else ""
    return registry.with_resource(base, root).crawl().resolver(base)


@lru_cache(maxsize=len(DRAFTS))
def _meta_validator(validator_class: Any) -> Any:
    return validator_class(validator_class.META_SCHEMA, registry=REGISTRY)


def _resource(schema: Any, validator_class: Any) -> Any:
    return specification_of(validator_class).create_resource(schema)


def _check_subschemas(root: Any, registry: Any) -> None:
    """Compile every pattern and resolve every reference of a schema and of the schemas it refers to."""
    pending = [(root, _resolver(root, registry))]
    checked_ids: set[int] = set()
    while pending:
        resource, resolver = pending.pop()
        contents = resource.contents
        if not isinstance(contents, dict) or id(contents) in checked_ids:
            continue
        checked_ids.add(id(contents))
        _check_patterns(contents)
        references = [key for key in ("$ref", "$dynamicRef") if key in contents]
        pending += [_target(contents[key], key, resource, resolver) for key in references]
        pending += [(sub, resolver.in_subresource(sub)) for sub in resource.subresources()]


def _check_patterns(schema: dict[str, Any]) -> None:
    for pattern, keyword in _patterns(schema):
        try:
            compile_schema_pattern(pattern)
        except InvalidPattern as problem:
            raise UnusableSchema(
                f"{keyword} {quoted(pattern)} is not a usable pattern, {problem}", remedy=problem.remedy
            ) from None


def _patterns(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"], "pattern"
    if isinstance(schema.get("patternProperties"), dict):
        for pattern in schema["patternProperties"]:
            yield pattern, "patternProperties"


def _target(reference: Any, keyword: str, resource: Any, resolver: Any) -> tuple[Any, Any]:
    try:
        resolved = resolver.lookup(reference)
    # The library raises different errors for a malformed reference and for a pointer into a string.
    except Exception:
        raise UnusableSchema(
            f"{keyword} {quoted(reference)} leads to nothing in the schema",
            remedy="Put the schema it refers to under $defs; files and addresses are never read.",
        ) from None
    if not isinstance(resolved.contents, (dict, bool)):
        raise UnusableSchema(f"{keyword} {quoted(reference)} leads to something that is not a schema")
    target = type(resource)(contents=resolved.contents, specification=resource._specification)
    return target, resolved.resolver


def _violation(error: jsonschema_exceptions.ValidationError) -> Violation:
    path = "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{clipped(part, 60)}" for part in error.absolute_path
    )
    return Violation(clipped(path, 200), _message(error))


def _message(error: jsonschema_exceptions.ValidationError) -> str:
    if len(error.message) <= _MESSAGE_LIMIT:
        return error.message
    # The library's sentences begin with the whole value; clipping would remove what is wrong with it.
    return f"{quoted(error.instance)} breaks {quoted(error.validator)}: {quoted(error.validator_value)}"
