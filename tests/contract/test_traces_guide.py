"""The guide to traces names every type and every field of an event, with an example that is valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agent_eval.contracts import ContentPart, Event, TokenUsage
from agent_eval.contracts.event import EVENT_TYPES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "traces.md").read_text("utf-8")
ROWS = re.findall(r"^\| (`.*`) \| .+ \| `(\{.*\})` \|$", GUIDE, re.MULTILINE)


def test_every_type_has_the_meaning_that_the_code_gives_it() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", GUIDE.split("## Fields")[0], re.MULTILINE))
    assert rows == dict(EVENT_TYPES), "docs/guides/traces.md: the table of types is EVENT_TYPES"


@pytest.mark.parametrize(("names", "example"), ROWS)
def test_an_example_sets_the_fields_of_its_row(names: str, example: str) -> None:
    fields = json.loads(example)
    assert list(fields) == re.findall(r"`(\w+)`", names)
    event = Event.model_validate({"idx": 0, "actor": "agent", "type": "message", **fields})
    assert not event.model_extra
    assert event.model_dump(include=set(fields), exclude_unset=True, mode="json") == fields


def test_every_field_has_a_row() -> None:
    documented = [name for names, _ in ROWS for name in re.findall(r"`(\w+)`", names)]
    assert sorted(documented) == sorted(Event.model_fields)
    examples = {next(iter(fields)): fields for fields in (json.loads(example) for _, example in ROWS)}
    assert set(examples["usage"]["usage"]) == set(TokenUsage.model_fields)
    assert set(examples["parts"]["parts"][0]) <= set(ContentPart.model_fields)
