"""Answers of a service that are not what it documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from agent_eval.ci.rest import RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.client import Answer, Session


class Row(BaseModel):
    id: int


def answers(body: bytes) -> Callable[..., Answer]:
    return lambda *_, **__: Answer(200, {}, body, "ci.example.org")


@pytest.fixture
def api() -> RestApi:
    return RestApi(Session("https://ci.example.org"), name="The service", remedy="Check the address.")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "did not answer /row with JSON"),
        (b'{"id": "x"}', r"not what The service documents \(id\)"),
        (b"[]", r"not what The service documents \(it is no object\)"),
    ],
)
def test_an_answer_that_is_no_such_object_is_an_error_with_a_remedy(
    api: RestApi, monkeypatch: pytest.MonkeyPatch, body: bytes, why: str
) -> None:
    monkeypatch.setattr(api.session, "request", answers(body))
    for call in (lambda: api.get(Row, "/row"), lambda: api.send(Row, "PUT", "/row", {"id": 1})):
        with pytest.raises(RemoteError, match=why) as caught:
            call()
        assert caught.value.remedy == "Check the address."


def test_a_listing_is_read_row_by_row(api: RestApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.session, "request", answers(b'[{"id": 1}, {"id": 2}]'))
    assert [row.id for row in api.rows(Row, "/rows", max_pages=1)] == [1, 2]


@pytest.mark.parametrize(
    ("body", "why"), [(b"{}", "it is no list"), (b'[{"id": 1}, {}]', r"/rows row 1 .*\(id\)")]
)
def test_a_listing_with_something_else_in_it_is_an_error(
    api: RestApi, monkeypatch: pytest.MonkeyPatch, body: bytes, why: str
) -> None:
    monkeypatch.setattr(api.session, "request", answers(body))
    with pytest.raises(RemoteError, match=why):
        list(api.rows(Row, "/rows", max_pages=1))
