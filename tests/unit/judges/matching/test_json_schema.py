"""Whatever stands where a schema should: it is refused, or applied, or found unusable; nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.judges.matching.json_schema import DRAFTS, UnusableSchema, apply, inspect, make_validator
from tests.extent import examples

KEYWORDS = (
    "$anchor $defs $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref additionalItems "
    "additionalProperties allOf anyOf const contains definitions dependencies dependentRequired "
    "dependentSchemas enum exclusiveMaximum format id if items maximum maxItems minContains minLength "
    "multipleOf not oneOf pattern patternProperties prefixItems properties propertyNames required "
    "then type unevaluatedItems unevaluatedProperties uniqueItems"
)
REFERENCES = "# #/$defs/a #a a.json #/properties/a http://x.example/y #/% // \\ #/a~2b"

names = st.sampled_from(["a", "b", "^a", "(", "(a+)+$", "$ref"])
texts = st.sampled_from([*REFERENCES.split(), "string", "object", "array", "a", "(?=x)"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-2, 2, allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=2)
        | st.dictionaries(st.sampled_from(KEYWORDS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)
schemas = st.dictionaries(st.sampled_from(KEYWORDS.split()), values, max_size=5) | st.booleans()
instances = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "", "aa!"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@settings(max_examples=examples(300))
@given(schemas, instances, st.sampled_from(sorted(DRAFTS)))
def test_no_schema_crashes(schema: Any, value: Any, draft: str) -> None:
    with suppress(UnusableSchema):
        inspect(schema, draft=draft)
        apply(make_validator(schema, draft=draft), value)
