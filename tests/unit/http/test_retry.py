from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.http.client import Answer
from agent_eval.http.retry import Patience, asked_wait, backoff, end_of_limit, is_rate_limit


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (429, {}, b"", True),
        (403, {"retry-after": "1"}, b"", True),
        (403, {"x-ratelimit-remaining": "0"}, b"", True),
        (403, {"x-ratelimit-remaining": "12"}, b"Resource not accessible", False),
        (403, {}, b"You have exceeded a Secondary Rate Limit", True),
        (403, {}, b'{"message": "API rate limit exceeded for 10.0.0.1."}', True),
        (401, {"retry-after": "1"}, b"", False),
    ],
)
def test_is_rate_limit(status: int, headers: dict[str, str], body: bytes, expected: bool) -> None:
    assert is_rate_limit(status, headers, body) is expected


OF_ANTHROPIC = {
    "anthropic-ratelimit-requests-remaining": "0",
    "anthropic-ratelimit-requests-reset": "1970-01-01T00:02:00Z",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "1970-01-01T00:01:50Z",
}
USED_UP = {"x-ratelimit-remaining": "0"}
NONSENSE = ["soon", "-5", "1e3", "Mon, 99 Foo 2026 00:00:00 GMT", "٣"]


@pytest.mark.parametrize(
    ("status", "fields", "seconds"),
    [
        *((429, {"retry-after": stated}, None) for stated in NONSENSE),
        (503, {"retry-after": "Thu, 01 Jan 1970 00:00:00 -0000"}, 0),  # in the past
        (429, {**USED_UP, "x-ratelimit-reset": "later"}, None),
        (403, {**USED_UP, "x-ratelimit-reset": "later"}, 60),
        (429, USED_UP, None),
        (429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}, 62.5),
        (429, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "17ms"}, 0.017),
        (429, {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "17ms"}, None),
        (429, OF_ANTHROPIC, 20.0),
        (429, {**OF_ANTHROPIC, "anthropic-ratelimit-requests-reset": "soon"}, 10.0),
        (429, {"ratelimit-remaining": "0", "ratelimit-reset": "30"}, 30.0),
    ],
)
def test_asked_wait__is_what_the_service_states_and_no_nonsense(
    status: int, fields: dict[str, str], seconds: float | None
) -> None:
    assert asked_wait(status, fields, now=100) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "until 1970-01-01 00:00 UTC, for 1 minute"),
        (61.0, "until 1970-01-01 00:02 UTC, for 2 minutes"),
        (7_200.0, "until 1970-01-01 02:00 UTC, for 120 minutes"),
        (1e12, "and does not say until when"),
        (None, "and does not say until when"),
    ],
)
def test_end_of_limit__names_the_minute_after_which_it_is_over(seconds: float | None, words: str) -> None:
    assert end_of_limit(seconds, now=0) == words


@given(attempt=st.integers(1, 60), chance=st.floats(0, 1))
def test_backoff__stays_between_half_and_all_of_the_doubled_wait(attempt: int, chance: float) -> None:
    patience = Patience(first_wait=1, longest_wait=90)
    full = min(90.0, 2.0 ** (attempt - 1))
    assert full / 2 <= backoff(attempt, patience, chance) <= full


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"message": "Not\\n Found.", "status": "404"}', "Not Found"),
        (b'{"message": 7}', '{"message": 7}'),
        (b"[" * 9_000, "[" * 200),
        (b"<html>", "<html>"),
        (b'{"error": {"message": "No.", "details": [{"field": "n", "message": "low"}]}}', "No.; n: low"),
        (b'{"error": ' * 500 + b'"deep"' + b"}" * 500, '{"error": ' * 20),
    ],
)
def test_explanation__is_the_message_of_a_json_body_else_the_excerpt(body: bytes, said: str) -> None:
    assert Answer(404, {}, body).explanation == said


def test_excerpt__is_one_printable_line() -> None:
    excerpt = Answer(500, {}, b"a\n\x1b[31mb\x00" + b"c" * 1000).excerpt
    assert excerpt.isprintable()
    assert excerpt.startswith("a [31mb")
    assert len(excerpt) == 200
