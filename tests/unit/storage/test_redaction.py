"""Secrets do not reach what is written, in whatever form they travel."""

from __future__ import annotations

import base64
import html
import json
import pickle
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.storage.json import parse
from agent_eval.storage.redaction import Redactor
from agent_eval.storage.secret_names import is_secret_name

SECRET = 'pä"ss/wörd+<1>\\x'


def in_json(secret: str) -> bytes:
    return json.dumps({"said": secret}).encode()


@pytest.mark.parametrize(
    "form",
    [
        SECRET.encode(),
        quote(SECRET, safe="").encode(),
        quote_plus(SECRET).encode(),
        html.escape(SECRET).encode(),
        SECRET.encode().hex().encode(),
        json.dumps(SECRET).encode()[1:-1],
        json.dumps(SECRET, ensure_ascii=False).encode()[1:-1],
        json.dumps(json.dumps(SECRET)).encode()[3:-3],
        json.dumps(SECRET).replace("/", "\\/").encode()[1:-1],
    ],
)
def test_every_form_is_replaced(form: bytes) -> None:
    assert Redactor([SECRET]).redact(b"before " + form + b" after") == b"before [redacted] after"


@given(st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_replaced_wherever_the_secret_lies_in_what_was_encoded(before: bytes, after: bytes) -> None:
    secret = "hunter2-hunter2-hunter2"
    redactor = Redactor([secret])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        redacted = redactor.redact(encode(before + secret.encode() + after))
        assert b"[redacted]" in redacted
        # What is left of the secret are at most the characters it shares with its neighbours.
        assert len(redacted) - len(b"[redacted]") <= 4 * ((len(before) + len(after)) // 3 + 3)


def test_text_without_secrets_is_returned_as_it_is() -> None:
    data = b"nothing to see"
    assert Redactor([SECRET]).redact(data) is data
    assert Redactor([]).redact(data) is data
    assert Redactor([SECRET]).redact_json(b'{"a":  1}') == b'{"a":  1}'
    assert not Redactor([])
    assert Redactor([SECRET])


def test_short_values_are_too_likely_to_be_words() -> None:
    assert Redactor(["short", "   x    "]).redact(b"a short x") == b"a short x"


def test_the_longer_secret_wins() -> None:
    assert Redactor(["12345678", "12345678-abc"]).redact(b"12345678-abc") == b"[redacted]"


def test_private_keys_are_replaced_line_by_line_too() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END KEY-----\n"
    redactor = Redactor([key])
    assert (
        redactor.redact(b"> MIIEvQIBADANBgkqhkiG9w0\r\n> BAQEFAASCBKcwggSjAgEAAo")
        == b"> [redacted]\r\n> [redacted]"
    )
    assert redactor.redact(b"-----BEGIN KEY-----") == b"-----BEGIN KEY-----"


def test_json_stays_json_whatever_the_secret_looks_like() -> None:
    redactor = Redactor(["12345678", '","role":"', SECRET])
    data = json.dumps(
        {
            "n": 12345678,
            "f": 0.123456789,
            "g": 0.5,
            "12345678": [True, None, SECRET],
            "x12345678": '","role":"',
            "role": "x",
        }
    ).encode()
    redacted = parse(redactor.redact_json(data), source="x")
    assert redacted == {
        "n": "[redacted]",
        "f": "[redacted]",
        "g": 0.5,
        "[redacted]": [True, None, "[redacted]"],
        "x[redacted]": "[redacted]",
        "role": "x",
    }


def test_keys_that_become_equal_stay_apart() -> None:
    redactor = Redactor(["secret-one", "secret-two"])
    assert redactor.redact_value({"secret-one": 1, "secret-two": 2}) == {"[redacted]": 1, "[redacted] 2": 2}


def test_the_environment_gives_its_secrets() -> None:
    redactor = Redactor.from_environment(
        {
            "GITHUB_TOKEN": "ghs_0123456789",
            "HOME": "/home/somebody",
            "OPENAI_API_KEY": "sk-proj-abcdef",
            "MY_KEY": "ok",
        }
    )
    assert (
        redactor.redact(b"ghs_0123456789 sk-proj-abcdef /home/somebody ok")
        == b"[redacted] [redacted] /home/somebody ok"
    )
    assert "ghs" not in repr(redactor)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("GITHUB_TOKEN", True),
        ("INPUT_GITHUB-TOKEN", True),
        ("ANTHROPIC_API_KEY", True),
        ("aws_secret_access_key", True),
        ("PGPASSWORD", True),
        ("DB_PWD", True),
        ("AUTHTOKEN", True),
        ("PWD", False),
        ("OLDPWD", False),
        ("SSH_AUTH_SOCK", False),
        ("PATH", False),
        ("KEYBOARD", False),
        ("GITHUB_SHA", False),
    ],
)
def test_names_say_what_is_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_it_can_be_sent_to_another_process_and_does_not_show_what_it_knows() -> None:
    redactor = Redactor(["hunter2hunter2"])
    assert "hunter2" not in repr(redactor)
    assert redactor.redact(b"it is hunter2hunter2") == b"it is [redacted]"
    sent = pickle.loads(pickle.dumps(redactor))
    assert sent.redact(b"it is hunter2hunter2") == b"it is [redacted]"
    assert (bool(sent), bool(Redactor([]))) == (True, False)
