"""Validate values against JSON Schema: drafts 2020-12, 2019-09, 7, 6 and 4, without files or network.

A schema comes from the suite and the value from an agent; both are hostile. References reach the schema
itself and the published meta-schemas, never a file or an address. Patterns run on RE2: jsonschema's own
keywords pass them to Python's backtracking engine in four places. Three are replaced here; the fourth,
`unevaluatedProperties`, is refused, as is `unevaluatedItems`: both take quadratic time. It also
replaces `uniqueItems`, which compares each item with every other, `multipleOf`, which counts in binary, and
the choice of validator for an embedded `$schema`, which would bring the original keywords back. `format` is
an annotation, as the drafts define it by default, and is not asserted. A schema that refers to itself
endlessly, or that follows more than `REFERENCE_LIMIT` references on one value, is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NoReturn

import attrs
import jsonschema_specifications  # type: ignore[import-untyped]
import orjson
import referencing.jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError

from agent_eval.contracts import canonical_json
from agent_eval.judges.base import EVIDENCE_LIMIT, clipped, listed, quoted
from agent_eval.judges.matching.re2 import InvalidPattern, compile_schema_pattern
from agent_eval.judges.reading import refusal

REGISTRY = jsonschema_specifications.REGISTRY.crawl()
"""The published meta-schemas, from the package; schemas can refer to nothing else."""

DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"

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
    """Refuse a schema that is invalid, has an unusable pattern, or refers to something outside of it."""
    try:
        inner, wrapper = unwrapped(schema)
        _inspect_once(canonical_json(inner))
        _refuse_without_effect(inner, f"/{wrapper}" if wrapper else "")
    except UnusableSchema as problem:
        place = f" at {problem.place}" if problem.place else ""
        words = f"{field} is not a usable JSON Schema{place}: {problem}"
        raise refusal(case_id, field, words, problem.remedy) from None


_APPLIED_TO_MANY = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_APPLIED_IN_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_APPLIED = (
    *("items", "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then"),
    *("else", "contentSchema"),
)
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_LIMITS = (
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength "
    "pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required "
    "dependentRequired dependencies $ref $dynamicRef $recursiveRef"
)
_CHECKS = frozenset({*_LIMITS.split(), *_APPLIED_TO_MANY, *_APPLIED_IN_LISTS, *_APPLIED})
"""Keywords that can refuse a value, or apply schemas that can."""
_NOTES = (
    "title description default examples deprecated readOnly writeOnly format $schema $id id $comment $anchor "
    "$dynamicAnchor $recursiveAnchor $vocabulary contentEncoding contentMediaType nullable example name "
    "strict discriminator"
)
_ANNOTATIONS = frozenset(_NOTES.split())
_WRAPPERS = ("parameters", "input_schema", "inputSchema", "schema", "json_schema", "function")
"""Fields in which APIs put the schema of a tool's arguments or of an answer."""
_BESIDE = frozenset({"name", "description", "strict", "type"})
"""Fields that APIs put beside it."""


def unwrapped(schema: Any) -> tuple[Any, str]:
    """Take the schema out of the definition of a tool or of an answer's format, where nothing else is meant.

    Returns also the field it stands under, such as `function/parameters`; empty where it is not wrapped.
    """
    if not isinstance(schema, dict) or schema.get("type", "function") not in ("function", "json_schema"):
        return schema, ""
    wrappers = [name for name in _WRAPPERS if isinstance(schema.get(name), dict)]
    if len(wrappers) != 1 or not schema.keys() <= {*_BESIDE, *wrappers}:
        return schema, ""
    inner, below = unwrapped(schema[wrappers[0]])
    if not isinstance(inner, dict) or _CHECKS.isdisjoint(inner):
        return schema, ""
    return inner, "/".join(filter(None, (wrappers[0], below)))


def _refuse_without_effect(schema: Any, place: str) -> None:
    """Refuse a schema that checks nothing: its keywords are misspelt, or are those of something else."""
    if not isinstance(schema, dict) or not schema:
        return
    for name in schema:
        near = () if name in _CHECKS or name in _ANNOTATIONS else get_close_matches(name, _CHECKS, 1, 0.8)
        if near:
            raise UnusableSchema(
                f"{quoted(name)} is no keyword, and checks nothing",
                place=place,
                remedy=f"Did you mean {near[0]}? A key of your own may begin with x-.",
            )
    if _CHECKS.isdisjoint(schema):
        wrapper = next((name for name in _WRAPPERS if isinstance(schema.get(name), dict)), None)
        raise UnusableSchema(
            "it has no keyword of JSON Schema, and checks nothing",
            place=place,
            remedy=f"Write what stands under {wrapper} in its place."
            if wrapper is not None
            else "Write what a value must be, such as type, properties or required.",
        )
    inner = [(name, schema[name]) for name in _APPLIED if name in schema]
    for name in (*_APPLIED_TO_MANY, *_APPLIED_IN_LISTS):
        members = schema.get(name)
        if isinstance(members, dict) and name in _APPLIED_TO_MANY:
            inner += [(f"{name}/{key}", each) for key, each in members.items()]
        elif isinstance(members, list) and name in _APPLIED_IN_LISTS:
            inner += [(f"{name}/{position}", each) for position, each in enumerate(members)]
    for name, each in inner:
        if isinstance(each, dict) and not (set(each) <= _ANNOTATIONS):
            _refuse_without_effect(each, f"{place}/{name}")


def violations(schema: Any, value: Any) -> list[Violation]:
    """Return at most `EVIDENCE_LIMIT` places where the value breaks the schema; none if it is valid."""
    return apply(_validator_for(canonical_json(unwrapped(schema)[0])), value)


def apply(validator: Any, value: Any) -> list[Violation]:
    """Do what `violations` does, with a validator from `make_validator`."""
    try:
        _budget.references = REFERENCE_LIMIT
        if validator.is_valid(value):
            return []
        _budget.references = REFERENCE_LIMIT
        broken = []
        for error in islice(validator.iter_errors(value), EVIDENCE_LIMIT):
            steps = (
                f"[{part}]" if isinstance(part, int) else f".{clipped(part, 60)}"
                for part in error.absolute_path
            )
            broken.append(Violation(clipped("$" + "".join(steps), 200), _message(error)))
        return broken
    except RecursionError:
        raise UnusableSchema(
            f"the schema refers to itself without end, or takes more than {REFERENCE_LIMIT} references",
            remedy="Let every self-reference go through a property or an item; use fewer alternatives.",
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
    resolver = _resolver(specification_of(validator_class).create_resource(schema), registry)
    return validator_class(schema, registry=registry, _resolver=resolver)


def inspect(schema: Any, *, draft: str = DEFAULT_DRAFT, registry: Any = REGISTRY) -> None:
    """Refuse a schema that cannot be applied. Arguments are those of `make_validator`.

    Raises:
        UnusableSchema: It is invalid, has an unusable pattern, or refers to something neither in it nor in
            the registry.
    """
    validator_class = _validator_class_of(schema, draft)
    try:
        _budget.references = REFERENCE_LIMIT
        error = next(_meta_validator(validator_class).iter_errors(schema), None)
        if error is not None:
            place = clipped("".join(f"/{part}" for part in error.absolute_path), 200)
            raise UnusableSchema(_message(error), place=place)
        _check_subschemas(specification_of(validator_class).create_resource(schema), registry)
    except RecursionError:
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
    validator_class = DRAFTS.get(_draft_id(dialect))
    if validator_class is None:
        raise UnusableSchema(
            f"$schema {quoted(dialect)} is not a supported draft",
            place="/$schema",
            remedy=f"Use one of {', '.join(DRAFTS)}, or leave it out for {DEFAULT_DRAFT}.",
        )
    return validator_class


def _draft_id(dialect: Any) -> str:
    """Return a `$schema` without an empty fragment, the form of the keys of `DRAFTS`."""
    return dialect.removesuffix("#") if isinstance(dialect, str) else ""


def _resolver(root: Any, registry: Any) -> Any:
    # Crawling finds anchors and embedded ids once, instead of at every reference.
    base = (root.id() or "") if isinstance(root.contents, dict) else ""
    return registry.with_resource(base, root).crawl().resolver(base)


@cache
def _meta_validator(validator_class: Any) -> Any:
    return validator_class(validator_class.META_SCHEMA, registry=REGISTRY)


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
        for keyword in _UNEVALUATED & contents.keys():
            _refuse_unevaluated(keyword)
        pattern, properties = contents.get("pattern"), contents.get("patternProperties")
        patterns = [("pattern", pattern)] if isinstance(pattern, str) else []
        patterns += [("patternProperties", name) for name in properties or () if isinstance(properties, dict)]
        for keyword, text in patterns:
            try:
                compile_schema_pattern(text)
            except InvalidPattern as problem:
                words = f"{keyword} {quoted(text)} is not a usable pattern, {problem}"
                raise UnusableSchema(words, remedy=problem.remedy) from None
        references = [key for key in ("$ref", "$dynamicRef") if key in contents]
        pending += [_target(contents[key], key, resource, resolver) for key in references]
        pending += [(sub, resolver.in_subresource(sub)) for sub in resource.subresources()]


def _refuse_unevaluated(keyword: str) -> NoReturn:
    raise UnusableSchema(
        f"{keyword} is not supported",
        remedy="List all properties or items in one place, and close it with additionalProperties or items.",
    )


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


def _message(error: ValidationError) -> str:
    if len(error.message) <= _MESSAGE_LIMIT:
        return error.message
    # The library's sentences begin with the whole value; clipping would remove what is wrong with it.
    return f"{quoted(error.instance)} breaks {quoted(error.validator)}: {quoted(error.validator_value)}"


_budget = threading.local()
"""`references`: how many this thread may still follow on the value that it checks."""


def _counted(keyword: Any) -> Any:
    def count_and_follow(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _budget.references -= 1
        if _budget.references < 0:
            raise RecursionError
        return keyword(validator, value, instance, schema)

    return count_and_follow


def _pattern(validator: Any, pattern: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and compile_schema_pattern(pattern).search(instance) is None:
        yield ValidationError(f"{quoted(instance)} does not match {quoted(pattern)}")


def _pattern_properties(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in value.items():
            compiled = compile_schema_pattern(pattern)
            for name, item in instance.items():
                if compiled.search(name) is not None:
                    yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    patterns = [compile_schema_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    extras = [
        name
        for name in instance
        if name not in known and not any(each.search(name) is not None for each in patterns)
    ]
    if value is False and extras:
        words = "property {} is" if len(extras) == 1 else "properties {} are"
        named = listed(quoted(name) for name in sorted(extras))
        yield ValidationError(f"{words.format(named)} not allowed here")
    elif value is not False:
        for name in extras:
            yield from validator.descend(instance[name], value, path=name)


def _unique_items(validator: Any, unique: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if unique and validator.is_type(instance, "array"):
        seen: set[Any] = set()
        for item in instance:
            key = _hashable(item)
            if key in seen:
                yield ValidationError(f"{quoted(item)} occurs twice among items that must be unique")
                return
            seen.add(key)


def _multiple_of(validator: Any, step: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Compare as the decimals that are written: 19.99 is a multiple of 0.01, though not as binary numbers."""
    if (
        validator.is_type(instance, "number")
        and (Fraction(repr(instance)) / Fraction(repr(step))).denominator != 1
    ):
        yield ValidationError(f"{instance!r} is not a multiple of {step!r}")


def _hashable(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON: 1 equals 1.0 but not true."""
    if isinstance(value, dict):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return isinstance(value, bool), value


def _evolve(self: Any, **changes: Any) -> Any:
    """Replace jsonschema's `evolve`, which would pick its own validator for an embedded `$schema`."""
    schema = changes.get("schema", self.schema)
    draft = type(self)
    if isinstance(schema, dict) and "$schema" in schema:
        draft = DRAFTS.get(_draft_id(schema["$schema"]), draft)
    return draft(schema=schema, registry=self._registry, _resolver=changes.get("_resolver", self._resolver))


def _on_re2(original: Any) -> Any:
    keywords: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
    }
    keywords |= {name: lambda *_, name=name: _refuse_unevaluated(name) for name in _UNEVALUATED}
    for name in ("$ref", "$dynamicRef", "$recursiveRef"):
        if name in original.VALIDATORS:
            keywords[name] = _counted(original.VALIDATORS[name])
    extend: Any = validators.extend
    validator_class = extend(original, keywords)
    validator_class.evolve = _evolve
    return validator_class


DRAFTS: dict[str, Any] = {
    _draft_id(original.META_SCHEMA["$schema"]): _on_re2(original)
    for original in (
        validators.Draft202012Validator,
        validators.Draft201909Validator,
        validators.Draft7Validator,
        validators.Draft6Validator,
        validators.Draft4Validator,
    )
}
"""Validator classes by `$schema`, without an empty fragment."""


def specification_of(draft: Any) -> Any:
    """Return the specification of a draft for `referencing`, which says how its references work."""
    return _SPECIFICATIONS[_draft_id(draft.META_SCHEMA["$schema"])]


def _only_objects(specification: Any) -> Any:
    """Leave out subschemas that are just true or false.

    They have neither ids nor references, and `referencing` cannot ask one for its id in draft 4, whose
    `additionalProperties` may be false.
    """
    return attrs.evolve(
        specification,
        subresources_of=lambda contents: (
            subschema for subschema in specification.subresources_of(contents) if isinstance(subschema, dict)
        ),
    )


_SPECIFICATIONS = {name: _only_objects(referencing.jsonschema.specification_with(name)) for name in DRAFTS}
