"""Base model of every contract, version of the schema, canonical JSON and its digest, points in time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, cast

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

SCHEMA_VERSION = "1.2.0"
"""Version of every file this program writes. A superset of 1.0 and 1.1."""

READABLE_SCHEMA_VERSIONS = ("0.1.0", "1.0.0", "1.1.0", "1.2.0")
"""Versions this program reads; older ones are migrated on the way in."""


class Contract(BaseModel):
    """Base of every value that crosses a boundary: a file, a process, a package of this program.

    Unknown fields are kept, because a later version may know them. `unknown_fields` lists them, and strict
    validation of suites refuses them.
    """

    # Validators are built when first used: a command needs few of the models that it imports.
    model_config = ConfigDict(
        extra="allow", protected_namespaces=(), ser_json_inf_nan="strings", defer_build=True
    )

    def to_json(self) -> dict[str, Any]:
        """Return plain data that JSON can hold, unknown fields included."""
        return self.model_dump(mode="json")


EARLIER = {"schema_version": "1.1.0"}
"""Context of a validation of what may be older than 1.2, when names of new fields were the author's own."""


def valid_or_unknown(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Validate a field that is new in 1.2: under `EARLIER`, a value of another type is the author's own."""
    try:
        return validate(value)
    except ValidationError:
        if info.context is not EARLIER:
            raise
        return None


class SparseContract(Contract, frozen=True):
    """A contract that is written without the fields that were never set, and without those that are None."""

    _writes_none: ClassVar[bool] = False

    @model_serializer(mode="wrap")
    def _without_absent_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields, is_set = type(self).model_fields, self.model_fields_set
        return {
            name: value
            for name, value in serialize(self).items()
            if name in is_set and (value is not None or self._writes_none or name not in fields)
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # The serializer leaves fields out; what it writes has the schema of the fields.
        fields: dict[str, Any] = {key: value for key, value in core_schema.items() if key != "serialization"}
        return handler(cast(CoreSchema, fields))


def unknown_fields(value: object, place: str = "$") -> Iterator[str]:
    """Yield the JSON path of every field that a contract at `place`, or one within it, does not define."""
    if isinstance(value, BaseModel):
        yield from (f"{place}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from unknown_fields(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from unknown_fields(item, f"{place}[{position}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, BaseModel):
                yield from unknown_fields(item, f"{place}.{key}")


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes: keys sorted, no white space, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: Any) -> str:
    """Return the lower-case hexadecimal sha256 of `canonical_json(value)`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def instant(text: str) -> datetime:
    """Read a point in time, written as ISO 8601 with its offset.

    Raises:
        ValueError: It cannot be read, or has no offset and so names no point in time; says how to write it.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write a time of ISO 8601, such as 2027-01-31T00:00:00+00:00") from None
    if moment.tzinfo is None:
        raise ValueError(f"it has no offset; write {moment.isoformat()}+00:00, or another offset")
    return moment


def is_over(expires_at: str | None, now: datetime) -> bool:
    """Tell whether an expiry has passed. None never expires; one that cannot be read has expired."""
    if expires_at is None:
        return False
    try:
        return instant(expires_at) <= now
    except ValueError:
        return True
