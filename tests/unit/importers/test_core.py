"""What every import does: reading, recognising, linking, ids, expectations, diagnostics."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidInput, NothingMeasured, UsageError
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.format import Match
from agent_eval.importers.recognise import Recogniser
from agent_eval.importers.records import Record
from agent_eval.operations.import_traces import Imported, ImportRequest, import_traces
from agent_eval.suites.paths import suite_paths
from agent_eval.suites.reader import load_suite
from tests.unit.importers.importing import of_value


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def chat(messages: list[dict[str, Any]], answer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """One request of Chat Completions with its answer."""
    choice = {"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": "stop"}
    response = {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 5}, **fields}
    return {"request": {"messages": messages, "model": "m"}, "response": response, "status": 200}


def imported(tmp_path: Path, *records: Any, **options: Any) -> tuple[list[Any], Imported]:
    """Import records as JSON Lines, and return the suite's cases."""
    source = tmp_path / "dump.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    return imported_from(source, tmp_path, **options)


def imported_from(source: Path, tmp_path: Path, **options: Any) -> tuple[list[Any], Imported]:
    out = tmp_path / "suite.jsonl"
    result = import_traces(ImportRequest((source,), out, "provider", **options))
    return load_suite(out).cases, result


TWO_TURNS = (
    chat([user("Hello")], {"content": "Hi!"}),
    chat([user("Hello"), assistant("Hi!"), user("Bye")], {"content": "Goodbye."}),
)


WHOLE = ["Hello", "Hi!", "Bye", "Goodbye."]
OTHER = chat([user("Hello"), assistant("Hi!"), user("Stay")], {"content": "All right."})


def said_in(case: Any) -> list[Any]:
    return [event.content for event in case.trace]


def test_a_repeated_history_is_in_the_trace_once(tmp_path):
    (case,), _ = imported(tmp_path, *TWO_TURNS)
    assert said_in(case) == WHOLE
    assert [turn.input for turn in case.turns] == ["Hello", "Bye"]
    assert sum(event.usage.input_tokens for event in case.trace if event.usage) == 10


@pytest.mark.parametrize(
    ("records", "dialogues"),
    [
        (TWO_TURNS[::-1], [WHOLE]),
        ([*TWO_TURNS, *TWO_TURNS], [WHOLE, WHOLE]),
        ([*TWO_TURNS, OTHER], [WHOLE, ["Hello", "Hi!", "Stay", "All right."]]),
    ],
    ids=["in any order", "that begin alike", "continued a second time"],
)
def test_dialogues_are_told_apart(tmp_path, records, dialogues):
    cases, _ = imported(tmp_path, *records)
    assert [said_in(case) for case in cases] == dialogues
    assert len({case.case_id for case in cases}) == len(cases)


def test_a_failed_request_and_its_repetition_are_one_conversation(tmp_path):
    error = {"response": {"error": {"message": "overloaded"}}, "status": 529}
    refused = {"request": {"messages": [user("Hello")]}, **error}
    answered = chat([user("Hello")], {"content": "Hi!"})
    (case,), _ = imported(tmp_path, refused, answered, format="openai")
    assert [event.type for event in case.trace] == ["message", "error", "message"]


def test_records_are_grouped_by_a_field_where_asked(tmp_path):
    records = [
        {**chat([user(text)], {"content": text.upper()}), "metadata": {"session": session}}
        for text, session in (("a", "s1"), ("b", "s2"), ("c", "s1"))
    ]
    cases, _ = imported(tmp_path, *records, group_by="metadata.session")
    groups = [("s1", ["a", "A", "c", "C"]), ("s2", ["b", "B"])]
    assert [(case.case_id, said_in(case)) for case in cases] == groups


def test_a_record_without_the_field_to_group_by_is_a_conversation_of_its_own(tmp_path):
    cases, result = imported(tmp_path, *TWO_TURNS, group_by="session")
    assert len(cases) == 2
    assert result.diagnostics.counts == {"note": 2}


@pytest.mark.parametrize(
    ("options", "ids", "notes"),
    [
        ({"id_from": "metadata.ticket"}, ["7", "s2"], {}),
        ({"id_from": "metadata.ticket", "group_by": "metadata.session"}, ["7", "s2"], {}),
        ({"id_from": "metadata.ticket", "case_prefix": "prod-"}, ["prod-7", "prod-s2"], {}),
        ({"id_from": "metadata.nothing"}, ["run-1", "run-3"], {"note": 2}),
    ],
)
def test_the_id_of_a_case_is_that_of_a_field_where_asked(tmp_path, options, ids, notes):
    (tmp_path / "labels.json").write_text('[{"id": "run-1", "expected_output": "A"}]')
    records = [
        {
            **chat([user(text)], {"content": text.upper()}),
            "metadata": {"session_id": run, "session": run, "ticket": ticket},
        }
        for text, run, ticket in (("a", "run-1", None), ("b", "run-3", "s2"), ("c", "run-1", 7))
    ]
    cases, result = imported(tmp_path, *records, expect=tmp_path / "labels.json", **options)
    assert [case.case_id for case in cases] == ids
    assert cases[0].expected_output == "A"  # found by the source's id as well
    assert result.diagnostics.counts == notes


def test_what_the_user_says_in_a_row_is_one_turn(tmp_path):
    messages = [user("Hello"), user("Anyone?"), assistant("Hi!"), user("Bye")]
    (case,), _ = imported(tmp_path, chat(messages, {"content": "Goodbye."}))
    assert [turn.input for turn in case.turns] == ["Hello\n\nAnyone?", "Bye"]


def test_derived_ids_are_marked_and_results_hang_below_their_calls(tmp_path):
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 7}'}}
    history = [user("Where?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    result = {"role": "tool", "tool_call_id": "c1", "content": "shipped"}
    (case,), _ = imported(tmp_path, chat([*history, result], {"content": "Shipped."}))
    _, made, answered, _ = case.trace
    assert answered.parent_span_id == made.span_id
    assert answered.tool == "lookup"
    assert made.attributes == {
        "agent_eval.ids_derived": True, "gen_ai.operation.name": "execute_tool",
        "gen_ai.provider.name": "openai", "gen_ai.tool.call.id": "c1", "gen_ai.tool.name": "lookup",
    }  # fmt: skip
    assert len({event.span_id for event in case.trace}) == 4


def test_arguments_that_are_no_json_are_kept_as_text_and_marked(tmp_path):
    call = {"id": "", "type": "function", "function": {"name": "lookup", "arguments": '{"id": '}}
    (case,), _ = imported(tmp_path, chat([user("Where?")], {"content": None, "tool_calls": [call]}))
    made = case.trace[-1]
    assert (made.input, made.call_id) == ('{"id": ', None)
    assert made.attributes["agent_eval.malformed_arguments"] is True


def pack(source: Path, kind: str, tmp_path: Path) -> Path:
    """Put a file into a container."""
    target = tmp_path / f"packed.{kind}"
    if kind == "gz":
        target.write_bytes(gzip.compress(source.read_bytes()))
    elif kind == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            archive.write(source, "logs/dump.jsonl")
            archive.writestr("logs/readme.md", "not an export")
    else:
        target.mkdir()
        (target / "a.jsonl").write_bytes(source.read_bytes())
    return target


@pytest.mark.parametrize("kind", ["gz", "zip", "directory"])
def test_containers_hold_what_a_file_holds(tmp_path, kind):
    cases, _ = imported(tmp_path, *TWO_TURNS)
    packed, _ = imported_from(pack(tmp_path / "dump.jsonl", kind, tmp_path), tmp_path)
    assert [said_in(case) for case in packed] == [said_in(case) for case in cases]


@pytest.mark.parametrize(
    ("text", "cases"),
    [
        ("\n\n" + json.dumps(TWO_TURNS[0]) + "\n\n" + json.dumps(TWO_TURNS[0]), 2),
        ("\ufeff" + json.dumps(TWO_TURNS[0]) + "\n", 1),
        (json.dumps(list(TWO_TURNS)) + "\n", 1),
        (json.dumps(TWO_TURNS[1], indent=2), 1),
        (json.dumps({"object": "list", "data": [TWO_TURNS[0]]}), 1),
    ],
)
def test_json_and_json_lines_are_told_apart_by_content(tmp_path, text, cases):
    source = tmp_path / "dump.json"
    source.write_text(text, encoding="utf-8")
    assert len(imported_from(source, tmp_path)[0]) == cases


def test_a_line_that_cannot_be_read_is_reported_and_the_others_are_imported(tmp_path):
    source = tmp_path / "dump.jsonl"
    source.write_text(json.dumps(TWO_TURNS[0]) + '\n{"cut\n' + json.dumps(TWO_TURNS[1]) + "\n")
    (case,), result = imported_from(source, tmp_path)
    assert len(case.trace) == 4
    (entry,) = result.diagnostics.entries
    assert (entry.severity, entry.record) == ("lost", "dump.jsonl:2")


def test_diagnostics_are_in_the_order_of_the_inputs(tmp_path):
    inputs = tmp_path / "in"
    inputs.mkdir()
    records = [chat([user(f"{number}"), {"role": "narrator"}], {"content": "Yes."}) for number in range(30)]
    (inputs / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    (inputs / "b.jsonl").write_bytes(b"")
    (inputs / "c.bin").write_bytes(b"")
    (inputs / "d.json").write_bytes(b"{")
    _, result = imported_from(inputs, tmp_path)
    lines = [f"a.jsonl:{number}" for number in range(1, 31)]
    assert [found.record for found in result.diagnostics.entries] == [*lines, "b.jsonl", "c.bin", "d.json"]
    with pytest.raises(InvalidInput, match=r"^a\.jsonl:1: "):
        imported_from(inputs, tmp_path, strict=True)


def test_a_gzip_that_ends_early_is_reported_and_what_came_before_is_imported(tmp_path):
    lines = "".join(json.dumps(chat([user(f"Hello {n}" * 50)], {"content": "Hi"})) + "\n" for n in range(500))
    source = tmp_path / "dump.jsonl.gz"
    packed = gzip.compress(lines.encode(), compresslevel=1)
    source.write_bytes(packed[: len(packed) // 2])
    cases, result = imported_from(source, tmp_path)
    assert 0 < len(cases) < 500
    assert "cannot be unpacked" in result.diagnostics.entries[-1].reason


def test_a_strict_import_refuses_a_loss_writes_no_suite_and_says_what(tmp_path):
    with pytest.raises(InvalidInput, match=r"dump\.jsonl:1"):
        imported(tmp_path, {"what": "is this"}, strict=True)
    assert not (tmp_path / "suite.jsonl").exists()
    (entry,) = map(json.loads, (tmp_path / "suite.losses.jsonl").read_text().splitlines())
    assert (entry["record"], entry["severity"]) == ("dump.jsonl:1", "lost")


def test_an_import_of_nothing_is_an_error(tmp_path):
    with pytest.raises(NothingMeasured, match="is not of"):
        imported(tmp_path, {"what": "is this"})
    assert not (tmp_path / "suite.jsonl").exists()


def test_a_suite_must_have_a_name_that_says_its_format(tmp_path):
    with pytest.raises(UsageError, match=r"suite\.txt"):
        import_traces(ImportRequest((tmp_path,), tmp_path / "suite.txt", "provider"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.json", '{"s1": {"expected_output": "A", "team": "x", "regex_patterns": ["a"]}, "s9": "B"}'),
        ("e.csv", "id,expected_output,team\ns1,A,x\ns9,B,\n"),
        ("e.csv", "\ufeffid;expected_output;team\r\ns1;A;x\r\ns9;B;\r\n"),
        ("e.csv", "id,expected_output,team,owner\ns1,A,x\ns9\n"),
        ("e.json", '{"s1": {"expected_output": "A", "labels": {"team": "x"}}, "s9": "B"}'),
        ("e.json", '[{"case_id": "s1", "ground_truth": "A", "team": "x"}, {"id": "s9", "expected": 1}]'),
    ],
)
def test_expectations_are_joined_by_id_and_the_others_reported(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    record = {**TWO_TURNS[0], "session": "s1"}
    (case,), result = imported(
        tmp_path, record, group_by="session", expect=tmp_path / name, case_prefix="prod-"
    )
    assert (case.case_id, case.expected_output) == ("prod-s1", "A")
    assert case.metadata["labels"] == {"team": "x"}
    assert [(entry.field, entry.severity) for entry in result.diagnostics.entries] == [("s9", "lost")]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("e.json", b"7", "is neither an object nor an array"),
        ("e.json", b'[{"id": "a"}, {"team": "x"}]', "entry 2 has none of case_id, id"),
        ("e.json", b'{"cases": [{"id": "a"}, {"case_id": "a"}]}', "entry 2 repeats the id 'a'"),
        ("e.csv", b"id,expected_output\na,\xff\n", "is not CSV in UTF-8"),
        ("e.csv", b'id,expected_output\na,"b\n', "is not CSV in UTF-8: unexpected end of data"),
    ],
)
def test_a_file_of_expectations_that_cannot_be_joined_is_refused(tmp_path, name, data, problem):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=f"{name}: {problem}") as caught:
        imported(tmp_path, TWO_TURNS[0], expect=tmp_path / name)
    assert caught.value.remedy.startswith('Write {"ID": EXPECTED} as JSON')


def test_integers_that_do_not_fit_64_bits_are_kept_as_text(tmp_path):
    message = {"role": "user", "content": {"id": 2**70}}
    (case,), _ = imported(tmp_path, {"messages": [message]})
    assert case.input == {"id": str(2**70)}


def test_a_damaged_archive_is_reported_and_the_other_files_are_imported(tmp_path):
    home = tmp_path / "logs"
    home.mkdir()
    (home / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    (home / "b.gz").write_bytes(b"\x1f\x8b and no more")
    (home / "c.jsonl").write_text(json.dumps(TWO_TURNS[0]))
    whole = pack(home / "c.jsonl", "zip", tmp_path).read_bytes()
    (home / "d.zip").write_bytes(whole[:4] + whole[40:])
    version = whole.rindex(b"PK\x01\x02") + 6
    (home / "e.zip").write_bytes(whole[:version] + b"\xff" + whole[version + 1 :])
    with zipfile.ZipFile(home / "f.zip", "w") as archive:
        archive.writestr("é.jsonl", "{}")
    named = (home / "f.zip").read_bytes()
    for name, times in (("f.zip", 1), ("g.zip", 2)):
        (home / name).write_bytes(named.replace("é".encode(), b"\xff\xff", times))
    cases, result = imported_from(home, tmp_path)
    assert len(cases) == 1
    lost = [entry.record for entry in result.diagnostics.entries if entry.severity == "lost"]
    assert lost == ["a.zip", "b", "d.zip!logs/dump.jsonl", "e.zip", "f.zip!é.jsonl", "g.zip"]


def test_what_is_packed_over_and_over_is_reported(tmp_path):
    data = json.dumps(TWO_TURNS[0]).encode()
    for _ in range(6):
        data = gzip.compress(data)
    (tmp_path / "dump.gz").write_bytes(data)
    with pytest.raises(NothingMeasured, match="more than 4 times"):
        imported_from(tmp_path / "dump.gz", tmp_path)


@pytest.mark.parametrize("kind", ["gz", "eval"])
def test_what_unpacks_to_far_more_than_it_is_is_refused_early(tmp_path, kind):
    text, source = b'{"a": "%s"}' % (b"x" * (80 << 20)), tmp_path / f"log.{kind}"
    if kind == "gz":
        source.write_bytes(gzip.compress(text, 1))
    else:
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("samples/1.json", text)
    with pytest.raises(InvalidInput, match="unpacks to more than 200 times its packed size"):
        imported_from(source, tmp_path)


def test_the_file_of_diagnostics_says_how_many_it_leaves_out(tmp_path):
    source = tmp_path / "dump.jsonl"
    source.write_text(json.dumps(TWO_TURNS[0]) + "\n" + "{}\n" * 10_002)
    _, result = imported_from(source, tmp_path)
    lines = (tmp_path / "suite.losses.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["reason"] == "and 2 more"
    assert suite_paths([f"{tmp_path}/suite*.jsonl"]) == [result.out]


def test_an_import_that_loses_nothing_removes_the_losses_of_the_one_before(tmp_path):
    (tmp_path / "suite.losses.jsonl").touch()
    _, result = imported(tmp_path, TWO_TURNS[0])
    assert result.losses is None
    assert not (tmp_path / "suite.losses.jsonl").exists()


def test_nothing_is_written_where_what_is_lost_cannot_be_listed(tmp_path):
    (tmp_path / "suite.losses.jsonl").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        imported(tmp_path, TWO_TURNS[0])
    assert not (tmp_path / "suite.jsonl").exists()


@pytest.mark.parametrize(("source", "out"), [("dump.jsonl", "./dump.jsonl"), ("a.losses.jsonl", "a.jsonl")])
def test_an_input_is_never_replaced(tmp_path, source, out):
    source = tmp_path / source
    source.write_text(json.dumps(TWO_TURNS[0]))
    with pytest.raises(UsageError, match="is an input as well"):
        import_traces(ImportRequest((source,), tmp_path / out, family="provider"))
    assert json.loads(source.read_text()) == TWO_TURNS[0]


def test_a_named_format_reads_what_it_would_not_recognise(tmp_path):
    record = {"messages": [{"role": "customer", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]}
    with pytest.raises(NothingMeasured, match="is not of"):
        of_value("provider", record, tmp_path)
    result = of_value("provider", record, tmp_path, name="openai")
    assert [event["output"] for event in result.of("message")] == ["Yes?"]
    assert [entry["field"] for entry in result.diagnostics] == ["messages[0]"]


def test_records_without_a_message_make_no_suite(tmp_path):
    with pytest.raises(NothingMeasured, match="the inputs hold no message, call or result"):
        of_value("transcript", {"spans": []}, tmp_path, name="otel")


class Alike:
    """A format that is as sure of every record as another."""

    def __init__(self, name: str, confidence: float) -> None:
        self.name, self.confidence = name, confidence

    def detect(self, _value: Any) -> Match:
        return Match(self.confidence, "any")


@pytest.mark.parametrize(("second", "refused"), [(0.7, True), (0.66, True), (0.3, False)])
def test_a_record_that_two_formats_claim_is_not_guessed(second: float, refused: bool) -> None:
    recogniser = Recogniser([Alike("openai", 0.7), Alike("vertex", second)], "provider")  # type: ignore[list-item]
    record = Record({"anything": 1}, "dump.jsonl", 3, is_line=True)
    if not refused:
        assert recogniser.recognise(record, Diagnostics()) == (0, Match(0.7, "any"))
        return
    with pytest.raises(InvalidInput, match=r"dump\.jsonl:3: could be openai or vertex") as caught:
        recogniser.recognise(record, Diagnostics())
    assert "--from openai or --from vertex" in caught.value.remedy
