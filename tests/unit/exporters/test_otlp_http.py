"""Sending to a collector: everything arrives once, limits are waited for, a refused part is an error."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from agent_eval.errors import ExitCode, UsageError
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.exporters import otlp
from agent_eval.exporters.otel import exported_trials
from agent_eval.exporters.otlp import PartialSuccess, Sent, collector, send
from agent_eval.http.errors import HttpError
from tests.factories import make_pack, make_result
from tests.unit.exporters.receiver import receiver


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return open_pack(make_pack(tmp_path / "pack", [make_result(name) for name in ("a", "b", "c")]))


def sent_to(address: str, pack: Pack) -> Sent:
    with closing(collector(address, secret_headers={"X-Key": "secret"})) as session:
        return send(pack, session)


def test_every_span_and_verdict_arrives_in_batches(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "BATCH", 4)
    with receiver() as received:
        sent = sent_to(received.address, pack)
    expected = [span.span_id for trial in exported_trials(pack) for span in trial.spans]
    arrived = [
        span["spanId"]
        for request in received.of("/v1/traces")
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    records = [
        record
        for request in received.of("/v1/logs")
        for record in request["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    ]
    assert arrived == expected
    assert (sent.spans, sent.evaluations) == (len(expected), len(records)) == (12, 18)
    assert len(received.of("/v1/traces")) == 3
    assert {headers["X-Key"] for _, headers, _ in received.requests} == {"secret"}
    assert {headers["Content-Type"] for _, headers, _ in received.requests} == {"application/json"}


@pytest.mark.parametrize("status", [429, 503])
def test_a_limit_is_waited_for_and_nothing_is_lost(pack: Pack, status: int) -> None:
    busy = (status, {"Retry-After": "0"}, b"{}")
    with receiver(busy, (200, {}, b"{}"), busy) as received:
        sent = sent_to(received.address, pack)
    assert [path for path, _, _ in received.requests] == ["/v1/traces", "/v1/logs"]
    assert sent.rejected == 0


def test_a_refused_part_is_an_error_with_the_collectors_words_and_is_not_sent_again(pack: Pack) -> None:
    partial = {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "span too large"}}
    with (
        receiver((200, {}, json.dumps(partial).encode())) as received,
        pytest.raises(PartialSuccess, match="2 of 12 spans and 18 verdicts: span too large") as caught,
    ):
        sent_to(received.address, pack)
    assert caught.value.exit_code is ExitCode.NOT_EVALUABLE
    assert [path for path, _, _ in received.requests] == ["/v1/traces", "/v1/logs"]


def test_a_warning_without_a_refusal_is_passed_on(pack: Pack) -> None:
    partial = {"partialSuccess": {"errorMessage": "use a newer protocol"}}
    with receiver((200, {}, json.dumps(partial).encode())) as received:
        assert sent_to(received.address, pack).warning == "use a newer protocol"


@pytest.mark.parametrize("answer", [b"", b"OK", b'{"partialSuccess": null}', b'{"partialSuccess": {}}'])
def test_an_empty_or_other_answer_is_a_success(pack: Pack, answer: bytes) -> None:
    with receiver((200, {}, answer)) as received:
        assert sent_to(received.address, pack).rejected == 0


def test_a_batch_that_is_refused_as_a_whole_is_an_error(pack: Pack) -> None:
    with receiver((400, {}, b'{"message": "bad"}')) as received, pytest.raises(HttpError, match="HTTP 400"):
        sent_to(received.address, pack)


def test_an_address_without_encryption_is_refused_with_the_flag_that_allows_it():
    with pytest.raises(UsageError, match=r"otel\.example would be reached without") as refused:
        collector("http://otel.example:4318", secret_headers={})
    assert "--plain-http" in refused.value.remedy
    collector("http://otel.example:4318", secret_headers={}, plain_http=True).close()
    collector("http://localhost:4318", secret_headers={}).close()
