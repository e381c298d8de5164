"""Workers: how shards are shared out, and that no process outlives the run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from agent_eval.engine.workers import Claims, Inbox, Outbox, can_fork, claim


@pytest.fixture
def claims() -> Iterator[Claims]:
    claims = Claims(range(50_000))
    yield claims
    claims.close()


@pytest.fixture
def mail() -> Iterator[tuple[Inbox, Outbox]]:
    reader, writer = os.pipe()
    inbox, outbox = Inbox(reader), Outbox(writer)
    yield inbox, outbox
    for end in (reader, writer):
        with suppress(OSError):
            os.close(end)


def test_numbers_are_claimed_once_in_order() -> None:
    claims = Claims([0, 1, 2, 30, 4])
    assert claims.refill() == [0, 1, 2, 30, 4]
    assert claims.waiting() == 5
    assert [claim(claims.reader) for _ in range(7)] == [0, 1, 2, 30, 4, None, None]
    claims.close()


def test_more_numbers_than_the_pipe_holds_follow_as_it_empties(claims: Claims) -> None:
    put, seen = [], []
    while True:
        put += claims.refill()
        number = claim(claims.reader)
        if number is None:
            break
        seen.append(number)
    assert seen == put == list(range(50_000))


def test_no_more_numbers_are_handed_out_than_asked_for(claims: Claims) -> None:
    assert claims.refill(2) == [0, 1]
    assert claims.waiting() == 2
    assert claim(claims.reader) == 0
    assert claims.refill(1) == [2]
    assert claims.refill(0) == []
    assert claims.waiting() == 2


def test_withdrawn_numbers_cannot_be_claimed(claims: Claims) -> None:
    claims.refill(4)
    assert claim(claims.reader) == 0
    assert claims.withdraw() == [1, 2, 3]
    assert claims.refill() == []
    assert claim(claims.reader) is None
    assert claims.withdraw() == []


def test_messages_arrive_whole_and_in_order_however_they_are_cut(mail: tuple[Inbox, Outbox]) -> None:
    inbox, outbox = mail
    sent = [{"number": number, "text": "x" * (number * 5000)} for number in range(100)]

    def send() -> None:
        for message in sent:
            outbox.send(message)
        outbox.close()

    sender = threading.Thread(target=send)
    sender.start()
    received: list[object] = []
    while len(received) < len(sent):
        received += inbox.receive()
    sender.join()
    assert received == sent
    with pytest.raises(EOFError):
        inbox.receive()


def test_process_with_several_threads_is_not_forked() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        done.set()
        thread.join()


def test_fork_is_not_used_where_threads_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork()
