"""The official JSON-Schema-Test-Suite, on every draft that is read, with patterns on RE2.

`make json-schema-suite` fetches it; AGENT_EVAL_JSON_SCHEMA_SUITE names another copy. Without one these tests
skip, and fail on CI.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from referencing import Resource

from agent_eval.judges.matching.json_schema import DRAFTS as VALIDATORS
from agent_eval.judges.matching.json_schema import (
    REGISTRY,
    UnusableSchema,
    apply,
    inspect,
    make_validator,
    specification_of,
)
from tests.extent import unavailable

FETCHED = Path(__file__).parents[2] / ".cache" / "json-schema-suite"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema",
    "draft6": "http://json-schema.org/draft-06/schema",
    "draft4": "http://json-schema.org/draft-04/schema",
}


def suite() -> Path:
    named = os.environ.get("AGENT_EVAL_JSON_SCHEMA_SUITE")
    path = Path(named) if named else FETCHED
    if not (path / "tests").is_dir():
        unavailable("without the JSON-Schema-Test-Suite (make json-schema-suite fetches it)")
    return path


def registry_with_remotes(root: Path, draft: str) -> Any:
    """What the tests refer to: what lies in a draft's folder is read as that draft, the rest as `draft`."""
    remotes = root / "remotes"
    documents = {}
    for path in sorted(remotes.rglob("*.json")):
        place = path.relative_to(remotes)
        stated = DRAFTS.get(place.parts[0], DRAFTS[draft])
        documents[f"http://localhost:1234/{place.as_posix()}"] = Resource.from_contents(
            json.loads(path.read_text("utf-8")), default_specification=specification_of(VALIDATORS[stated])
        )
    return REGISTRY.with_resources(documents.items())


def every_test(root: Path, draft: str) -> Iterator[tuple[str, Any, Any, bool]]:
    """File, schema, value and whether the value is valid, for every test of a draft, formats left out."""
    folder = root / "tests" / draft
    for path in [*sorted(folder.glob("*.json")), *sorted((folder / "optional").glob("*.json"))]:
        for group in json.loads(path.read_text("utf-8")):
            for test in group["tests"]:
                yield str(path.relative_to(folder)), group["schema"], test["data"], test["valid"]


def answer(schema: Any, value: Any, *, draft: str, registry: Any) -> bool | str:
    """Whether the value is valid; why not, for a schema that is refused."""
    try:
        inspect(schema, draft=DRAFTS[draft], registry=registry)
        return not apply(make_validator(schema, draft=DRAFTS[draft], registry=registry), value)
    except UnusableSchema as problem:
        return f"refused: {problem}"


# What differs, by file, and why:
# unevaluated: these keywords are refused; some tests of not, ref and dynamicRef have them.
# vocabulary, format-assertion: `$schema` names a meta-schema of one's own, which is refused.
# dependencies-compatibility: `dependencies`, which these drafts replaced, is ignored, as they have it.
# content: `contentEncoding` and `contentMediaType` are annotations, as later drafts have them.
# ecmascript-regex: patterns are RE2's: `\s` is of ASCII, categories have short names (`\p{L}`), no `\cC`.
PATTERNS = {"optional/ecmascript-regex.json": 28}
LATER = {**PATTERNS, "vocabulary.json": 5, "optional/dependencies-compatibility.json": 14, "not.json": 2}
DIFFERENCES = {
    "draft2020-12": {
        **LATER, "unevaluatedItems.json": 66, "unevaluatedProperties.json": 124, "dynamicRef.json": 2,
        "ref.json": 1, "optional/format-assertion.json": 4,
    },
    "draft2019-09": {**LATER, "unevaluatedItems.json": 55, "unevaluatedProperties.json": 122, "ref.json": 3},
    "draft7": {**PATTERNS, "optional/content.json": 4},
    "draft6": PATTERNS,
    "draft4": PATTERNS,
}  # fmt: skip


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_test_of_the_draft_but_the_documented_ones(draft: str) -> None:
    root = suite()
    registry = registry_with_remotes(root, draft)
    different: Counter[str] = Counter()
    total = 0
    for file, schema, value, valid in every_test(root, draft):
        total += 1
        different[file] += answer(schema, value, draft=draft, registry=registry) != valid
    assert total > 500
    assert dict(+different) == DIFFERENCES[draft]
