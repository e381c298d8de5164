"""Validators for each draft of JSON Schema whose patterns run on RE2.

jsonschema's own keywords pass patterns to Python's backtracking engine in four places; this module
replaces them. It also replaces `uniqueItems`, which compares each item with every other, the choice of
validator for an embedded `$schema`, which would bring the original keywords back, and counts references.
`to_re2` translates patterns from the dialect of JSON Schema (ECMA-262) to RE2's.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import attrs
import jsonschema_specifications  # type: ignore[import-untyped]
import referencing.jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError

from agent_eval.judges.base import listed, quoted
from agent_eval.judges.matching.re2 import compile_pattern

REGISTRY = jsonschema_specifications.REGISTRY.crawl()
"""The published meta-schemas, from the package; schemas can refer to nothing else."""

DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class TooManyReferences(Exception):
    """A schema followed more references than `limited_references` allows."""


class _ReferenceBudget(threading.local):
    remaining = 0


_budget = _ReferenceBudget()


@contextmanager
def limited_references(limit: int) -> Iterator[None]:
    """Let this thread follow `limit` references within the block; one more raises `TooManyReferences`."""
    _budget.remaining = limit
    yield


def _count_reference() -> None:
    _budget.remaining -= 1
    if _budget.remaining < 0:
        raise TooManyReferences


@lru_cache(maxsize=256)
def compile_schema_pattern(pattern: str) -> Any:
    """Compile a pattern from a schema, which is written in the dialect of ECMA-262."""
    return compile_pattern(to_re2(pattern))


def draft_id(dialect: Any) -> str:
    """Return a `$schema` without an empty fragment, the form of the keys of `DRAFTS`."""
    return dialect.removesuffix("#") if isinstance(dialect, str) else ""


def _matches_any(patterns: list[Any], name: str) -> bool:
    return any(pattern.search(name) is not None for pattern in patterns)


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


def _additional(schema: Any, instance: Any) -> list[str]:
    """Return the names that neither `properties` nor `patternProperties` of the same schema cover."""
    properties = schema.get("properties", {})
    patterns = [compile_schema_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    return [name for name in instance if name not in properties and not _matches_any(patterns, name)]


def _additional_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    extras = _additional(schema, instance)
    if value is False and extras:
        yield ValidationError(f"{_unexpected(extras)} not allowed here")
    elif value is not False:
        for name in extras:
            yield from validator.descend(instance[name], value, path=name)


def _unevaluated_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    known = _evaluated(validator, instance, {k: v for k, v in schema.items() if k != "unevaluatedProperties"})
    extras = [name for name in instance if name not in known]
    if value is False and extras:
        yield ValidationError(f"{_unexpected(extras)} not allowed here")
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


def _hashable(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON: 1 equals 1.0 but not true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("object", frozenset((name, _hashable(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_hashable(item) for item in value))
    return value


def _unexpected(names: list[str]) -> str:
    noun = "property" if len(names) == 1 else "properties"
    return f"{noun} {listed(quoted(name) for name in sorted(names))} {'is' if len(names) == 1 else 'are'}"


def _evaluated(validator: Any, instance: Any, schema: Any) -> set[str]:
    """Return the names of the properties that a schema, which the instance satisfies, has evaluated.

    These are the annotations of `properties`, `patternProperties`, `additionalProperties` and
    `unevaluatedProperties`, collected through in-place applicators as 2019-09 and 2020-12 define them.
    """
    if not isinstance(schema, dict):
        return set()
    names = set(schema.get("properties", {})) & set(instance)
    patterns = [compile_schema_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    names.update(name for name in instance if _matches_any(patterns, name))
    if "additionalProperties" in schema:
        names.update(_additional(schema, instance))
    if "unevaluatedProperties" in schema:
        names.update(instance)
    for inner, entered in _applied_in_place(validator, instance, schema):
        names |= _evaluated(entered, instance, inner)
    return names


def _applied_in_place(validator: Any, instance: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the subschemas that apply to the same instance and hold for it, each with a validator in it."""
    for resolved in _references(validator, schema):
        _count_reference()
        yield resolved.contents, validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
    candidates = [sub for keyword in ("allOf", "anyOf", "oneOf") for sub in schema.get(keyword, [])]
    dependent = schema.get("dependentSchemas", {})
    candidates += [sub for name, sub in dependent.items() if name in instance]
    if "if" in schema:
        condition = _enter(validator, schema["if"])
        holds = condition.is_valid(instance)
        if holds:
            yield schema["if"], condition
        candidates.append(schema.get("then" if holds else "else", True))
    for sub in candidates:
        entered = _enter(validator, sub)
        if entered.is_valid(instance):
            yield sub, entered


def _references(validator: Any, schema: Any) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield referencing.jsonschema.lookup_recursive_ref(validator._resolver)


def _enter(validator: Any, subschema: Any) -> Any:
    resolver = validator._resolver
    if isinstance(subschema, dict):
        resolver = resolver.in_subresource(specification_of(validator).create_resource(subschema))
    return validator.evolve(schema=subschema, _resolver=resolver)


def _counted(keyword: Any) -> Any:
    def count_and_follow(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _count_reference()
        return keyword(validator, value, instance, schema)

    return count_and_follow


def _evolve(self: Any, **changes: Any) -> Any:
    """Replace jsonschema's `evolve`, which would pick its own validator for an embedded `$schema`."""
    schema = changes.get("schema", self.schema)
    draft = type(self)
    if isinstance(schema, dict) and "$schema" in schema:
        draft = DRAFTS.get(draft_id(schema["$schema"]), draft)
    return draft(schema=schema, registry=self._registry, _resolver=changes.get("_resolver", self._resolver))


def _on_re2(original: Any) -> Any:
    keywords: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    if "unevaluatedProperties" in original.VALIDATORS:
        keywords["unevaluatedProperties"] = _unevaluated_properties
    for name in ("$ref", "$dynamicRef", "$recursiveRef"):
        if name in original.VALIDATORS:
            keywords[name] = _counted(original.VALIDATORS[name])
    extend: Any = validators.extend
    validator_class = extend(original, keywords)
    validator_class.evolve = _evolve
    return validator_class


DRAFTS: dict[str, Any] = {
    draft_id(original.META_SCHEMA["$schema"]): _on_re2(original)
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
    return _SPECIFICATIONS[draft_id(draft.META_SCHEMA["$schema"])]


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


_LAST_CODE_POINT = 0x10FFFF

# WhiteSpace and LineTerminator of ECMA-262, as inclusive ranges of code points.
_SPACE = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)


def _class_items(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _between(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST_CODE_POINT]
    return tuple(zip(starts, ends, strict=True))


_CLASS_OF = {"s": _class_items(_SPACE), "S": _class_items(_between(_SPACE))}
_REPLACED = {
    ".": r"[^\n\r\x{2028}\x{2029}]",
    "[^]": rf"[\x{{0}}-\x{{{_LAST_CODE_POINT:x}}}]",
    "[]": rf"[^\x{{0}}-\x{{{_LAST_CODE_POINT:x}}}]",
}

_CATEGORIES = (
    "Letter=L Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm "
    "Other_Letter=Lo Mark=M Combining_Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me "
    "Number=N Decimal_Number=Nd digit=Nd Letter_Number=Nl Other_Number=No Punctuation=P punct=P "
    "Connector_Punctuation=Pc Dash_Punctuation=Pd Open_Punctuation=Ps Close_Punctuation=Pe "
    "Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po Symbol=S Math_Symbol=Sm "
    "Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs "
    "Line_Separator=Zl Paragraph_Separator=Zp Other=C Control=Cc cntrl=Cc Format=Cf Surrogate=Cs "
    "Private_Use=Co"
)
"""General categories of Unicode by their long names: RE2 knows only the short ones."""
_LONG_NAMES = dict(pair.split("=") for pair in _CATEGORIES.split())

# Alternatives in order: escapes, from the longest on; the classes of every and of no character; a character.
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}"
    r"|\\c[A-Za-z]|\\0(?![0-9])"
    # Bounded: otherwise a pattern of nothing but opening braces would take quadratic time.
    r"|\\[pP]\{[^}]{0,100}\}"
    r"|\\.|\[\^\]|\[\]|.",
    re.DOTALL,
)


def to_re2(pattern: str) -> str:
    """Translate a pattern to RE2's dialect. Never raises: RE2 itself refuses what it cannot express.

    Example:
        >>> to_re2(r"^\\u00e9\\p{Letter}+$")
        '^\\\\x{e9}\\\\p{L}+$'
    """
    parts: list[str] = []
    in_class = False
    for piece in _PIECE.findall(pattern):
        if piece[0] == "\\" and len(piece) > 1:
            parts.append(_escape(piece, in_class))
        elif in_class:
            # RE2 reads "[:" within a class as the start of a POSIX name; to ECMA it is a bracket.
            parts.append(piece.replace("[", "\\["))
            in_class = not piece.endswith("]")
        else:
            parts.append(_REPLACED.get(piece, piece))
            in_class = piece == "["
    return "".join(parts)


def _escape(piece: str, in_class: bool) -> str:
    kind, rest = piece[1], piece[2:]
    if kind == "u" and rest:
        return f"\\x{{{_code_point(piece):x}}}"
    if kind == "c" and rest:
        return f"\\x{{{ord(rest) % 32:x}}}"
    if kind == "0":
        return "\\x{0}"
    if kind in "pP" and rest:
        name = rest[1:-1].rpartition("=")[2]
        return f"\\{kind}{{{_LONG_NAMES.get(name, name)}}}"
    if kind in _CLASS_OF:
        return _CLASS_OF[kind] if in_class else f"[{_CLASS_OF[kind]}]"
    if kind == "b" and in_class:
        return "\\x{8}"
    return piece


def _code_point(piece: str) -> int:
    digits = re.findall("[0-9a-fA-F]{1,6}", piece.replace("\\u", " "))
    if len(digits) == 2:
        high, low = (int(part, 16) for part in digits)
        return 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
    return int(digits[0], 16)
