"""An import in several processes writes what an import in one does: suite, diagnostics, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_eval.engine import in_order
from agent_eval.errors import AgentEvalError
from agent_eval.importers import assembly, records
from agent_eval.importers.catalog import FORMATS, Family
from agent_eval.operations import import_traces as operation
from agent_eval.operations.import_traces import ImportRequest, import_traces
from tests.extent import examples

ADAPTERS = Path(__file__).parents[2] / "fixtures" / "adapters"
FAMILIES: tuple[Family, ...] = ("provider", "framework", "transcript")
SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


SMALL, LARGE = 200, 1 << 18
"""Bytes of a batch: of a line or two; of every fixture, so that documents are parsed by workers."""


def outcome(
    path: Path, home: Path, family: Family, *, processes: int, batch: int = SMALL, **options: Any
) -> list[Any]:
    """All that an import leaves: the suite, the diagnostics, what the command prints, the error."""
    out, diagnostics = home / "out.jsonl", home / "diagnostics.jsonl"
    for written in (out, diagnostics):
        written.unlink(missing_ok=True)
    request = ImportRequest((path,), out, family, diagnostics_out=diagnostics, **options)
    error = printed = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_order, "_BEFORE_FORKING", 0)
        patch.setattr(operation, "usable_processors", lambda: processes)
        for module in (records, assembly):
            patch.setattr(module, "BATCH_BYTES", batch)
        try:
            printed = import_traces(request, {}).to_json()
        except AgentEvalError as refused:
            error = refused.to_json()
    left = [written.read_bytes() if written.exists() else None for written in (out, diagnostics)]
    return [printed, error, *left]


def assert_the_same(path: Path, home: Path, family: Family, **options: Any) -> None:
    alone = outcome(path, home, family, processes=1, **options)
    for batch in (SMALL, LARGE):
        assert outcome(path, home, family, processes=3, batch=batch, **options) == alone


@pytest.mark.parametrize("entry", FORMATS, ids=lambda entry: entry.name)
def test_every_format_is_the_same(entry, tmp_path):
    for fixture in sorted((ADAPTERS / entry.name).iterdir()):
        if not fixture.name.endswith(".expected.json"):
            assert_the_same(fixture, tmp_path, entry.family)


def chat(messages: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}
    return {
        "request": {"messages": list(messages)},
        "response": {"object": "chat.completion", "choices": [answer]},
        **more,
    }


QUESTIONS = st.sampled_from(["Where is it?", "Again?", f"My token is {SECRET}.", "\u00e9\u4e2d"])
USER = QUESTIONS.map(lambda text: {"role": "user", "content": text})
SAID = {"role": "assistant", "content": "Yes."}
LINES = st.one_of(
    # Equal dialogues, dialogues that go on, ids in common, and ids that others have already.
    st.builds(lambda first: chat([first]), USER),
    st.builds(lambda first, then: chat([first, SAID, then]), USER, USER),
    st.builds(lambda first, of: chat([first], session_id=of), USER, st.sampled_from(["s", SECRET])),
    st.builds(lambda first: chat([first], unheard_of={"a": 1}), USER),
    st.builds(lambda first: chat([{"role": "narrator"}, first]), USER),
    st.sampled_from([{"query": "Where?", "response": "Here."}, {"id": 7}, {"messages": []}]),
).map(lambda value: json.dumps(value).encode())
BROKEN = st.sampled_from([b"{", b'{"a":1,"a":2}', b'{"n":123456789012345678901}', b'"\\ud800"', b"", b"\xff"])


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.one_of(LINES, LINES, LINES, BROKEN), min_size=1, max_size=30),
    options=st.fixed_dictionaries(
        {"strict": st.booleans()},
        optional={"case_prefix": st.just("prod-"), "group_by": st.just("session_id")},
    ),
)
def test_every_mixture_of_lines_is_the_same(lines, options, tmp_path):
    path = tmp_path / "dump.jsonl"
    path.write_bytes(b"\n".join(lines))
    assert_the_same(path, tmp_path, "provider", **options)


def test_what_cannot_be_read_is_reported_after_what_was_read_before_it(tmp_path):
    lines = [json.dumps(chat([{"role": "user", "content": f"{n}"}, {"role": "narrator"}])) for n in range(30)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "in" / "b.jsonl").write_bytes(b"")
    (tmp_path / "in" / "c.bin").write_bytes(b"")
    assert_the_same(tmp_path / "in", tmp_path, "provider")
    reported = (tmp_path / "diagnostics.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in reported] == [
        *(f"a.jsonl:{number}" for number in range(1, 31)),
        "b.jsonl",
        "c.bin",
    ]
    assert_the_same(tmp_path / "in", tmp_path, "provider", strict=True)


@pytest.mark.parametrize("answers", [{"dialogue": "shipped"}, {"dialogue-2": "lost"}])
def test_expectations_join_the_final_ids(answers, tmp_path):
    lines = [json.dumps(chat([{"role": "user", "content": "Hi"}], custom_id="dialogue")) for _ in range(3)]
    (tmp_path / "dump.jsonl").write_text("\n".join(lines))
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps(answers))
    assert_the_same(tmp_path / "dump.jsonl", tmp_path, "provider", expect=expected)
