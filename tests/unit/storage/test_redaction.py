"""Secrets do not reach what is written, in whatever form they travel."""

import base64
import html
import json
import pickle
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import UsageError
from agent_eval.storage.json import parse
from agent_eval.storage.redaction import Redactor, count_markers
from agent_eval.storage.redaction_rules import TOKEN_SHAPES, RedactionRules, is_secret_name

SECRET = 'pä"ss/wörd+<1>\\x'


@pytest.mark.parametrize(
    "form",
    [
        SECRET.encode(),
        quote(SECRET, safe="").encode(),
        quote_plus(SECRET).encode(),
        html.escape(SECRET).encode(),
        html.escape(SECRET).replace("&quot;", "&#34;").replace("&#x27;", "&#39;").encode(),
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


def test_short_values_are_too_likely_to_be_words_and_the_longer_secret_wins() -> None:
    assert Redactor(["short", "   x    "]).redact(b"a short x") == b"a short x"
    assert Redactor(["12345678", "12345678-abc"]).redact(b"12345678-abc") == b"[redacted]"


def test_private_keys_are_replaced_line_by_line_too() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END KEY-----\n"
    redactor = Redactor([key])
    quoted = b"> MIIEvQIBADANBgkqhkiG9w0\r\n> BAQEFAASCBKcwggSjAgEAAo"
    assert redactor.redact(quoted) == b"> [redacted]\r\n> [redacted]"
    assert redactor.redact(b"-----BEGIN KEY-----") == b"-----BEGIN KEY-----"


def test_json_stays_json_whatever_the_secret_looks_like() -> None:
    redactor = Redactor(["12345678", '","role":"', SECRET])
    data = json.dumps(
        {
            "n": 12345678, "f": 0.123456789, "g": 0.5, "12345678": [True, None, SECRET],
            "x12345678": '","role":"', "role": "x",
        }
    ).encode()  # fmt: skip
    redacted = parse(redactor.redact_json(data), source="x")
    assert redacted == {
        "n": "[redacted]", "f": "[redacted]", "g": 0.5, "[redacted]": [True, None, "[redacted]"],
        "x[redacted]": "[redacted]", "role": "x",
    }  # fmt: skip


def test_keys_that_become_equal_stay_apart() -> None:
    redactor = Redactor(["secret-one", "secret-two"])
    assert redactor.redact_value({"secret-one": 1, "secret-two": 2}) == {"[redacted]": 1, "[redacted] 2": 2}


NAMES = {
    True: "GITHUB_TOKEN INPUT_GITHUB-TOKEN ANTHROPIC_API_KEY aws_secret_access_key PGPASSWORD DB_PWD "
    "AUTHTOKEN",
    False: "PWD OLDPWD SSH_AUTH_SOCK PATH KEYBOARD GITHUB_SHA",
}


@pytest.mark.parametrize(
    ("name", "secret"), [(name, secret) for secret, names in NAMES.items() for name in names.split()]
)
def test_names_say_what_is_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_the_environment_gives_its_secrets_and_what_is_replaced_says_its_name() -> None:
    environ = {
        "B_TOKEN": "same-value", "A_TOKEN": "same-value", "ODD]\n|_KEY": "another-value",
        "HOME": "/root-of-all", "OPENAI_API_KEY": "sk-proj-abcdef", "MY_KEY": "ok",
    }  # fmt: skip
    redactor = Redactor.from_environment(environ, "given-as-a-flag")
    data = b"same-value another-value given-as-a-flag /root-of-all sk-proj-abcdef ok"
    redacted = b"[redacted:A_TOKEN] [redacted:ODD-_KEY] [redacted] /root-of-all [redacted:OPENAI_API_KEY] ok"
    assert redactor.redact(data) == redactor.redact(redacted) == redacted
    assert "same-value" not in repr(redactor)


TOKENS = {
    "github-token": "ghp_" + "a1B2" * 9,
    "gitlab-token": "glpat-" + "x_-4" * 5,
    "anthropic-key": "sk-ant-api03-" + "Ab_-" * 8,
    "openai-key": "sk-proj-" + "Ab_-" * 8,
    "aws-key-id": "AKIA" + "ABCD1234" * 2,
    "google-key": "AIza" + "Ab_-9" * 7,
    "google-token": "ya29." + "Ab_-9" * 7,
    "slack-token": "xoxb-" + "123456789012-abcdef",
    "slack-webhook": "hooks.slack.com/services/T00000000/B00000000/" + "X" * 24,
    "stripe-key": "sk_live_" + "a1B2" * 6,
    "huggingface-token": "hf_" + "a1B2" * 9,
    "npm-token": "npm_" + "a1B2" * 9,
    "pypi-token": "pypi-AgEIcHlwaS5vcmc" + "a1B2" * 20,
    "sendgrid-key": "SG." + "a1B2" * 5 + "." + "a1B2" * 10,
    "digitalocean-token": "dop_v1_" + "a1b2" * 16,
    "shopify-token": "shpat_" + "a1b2" * 8,
    "databricks-token": "dapi" + "a1b2" * 8,
    "vault-token": "hvs." + "a1B2" * 8,
    "groq-key": "gsk_" + "a1B2" * 13,
    "json-web-token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "private-key": "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE+/=\n-----END EC PRIVATE KEY-----",
}


@pytest.mark.parametrize("name", TOKENS)
def test_text_with_the_shape_of_a_token_is_replaced(name: str) -> None:
    redactor = Redactor(tokens=True)
    for text in (TOKENS[name], f"Bearer {TOKENS[name]}, and"):
        redacted = redactor.redact(text.encode())
        assert redacted == text.replace(TOKENS[name], f"[redacted:{name}]").encode()
    inside = json.dumps({"said": json.dumps({"key": TOKENS[name]})}).encode()
    cleaned = redactor.redact_json(inside)
    assert f"[redacted:{name}]".encode() in cleaned
    assert TOKENS[name][10:30].encode() not in cleaned


def test_every_shape_is_tried() -> None:
    assert {name for name, _ in TOKEN_SHAPES} == set(TOKENS)


@pytest.mark.parametrize(
    "text",
    [
        "task-" + "a" * 40, "ask-ant-man", "sk-short", "AKIA", "xAKIA" + "ABCD1234" * 2,
        "the risk-free desk-bound",
    ],
)  # fmt: skip
def test_ordinary_words_are_no_tokens(text: str) -> None:
    redactor = Redactor(tokens=True)
    assert redactor.redact(text.encode()) == text.encode()
    assert not redactor.finds(text.encode())


def test_a_secret_is_replaced_whole_also_within_the_shape_of_a_token() -> None:
    secret = "part-of_it/and-more"
    redactor = Redactor({secret: "MINE"}, tokens=True)
    assert b"and-more" not in redactor.redact(f"glpat-{'x' * 20}{secret}".encode())


RULES = RedactionRules(
    patterns=("badge=^B-[0-9]{6}$", "town=Köln"), fields=("ssn", "Customer.Street"), personal=True
)


def test_what_the_user_asks_for_is_replaced_without_words_of_the_rule() -> None:
    redactor = Redactor(rules=RULES)
    case = {
        "badge": "B-123456",
        "note": "B-123456 in Köln, write to ann.lee+x@mail.example.co.uk",
        "customer": {"street": "Long Lane 7", "town": "Bonn", "name": "Ann Lee"},
        "records": [{"SSN": 123456789, "first_name": "Ann", "ssn_kind": "us"}],
        "cards": [
            "4111 1111 1111 1111", "4111-1111-1111-1112", "378282246310005", "1700000000000",
            4111111111111111,
        ],
    }  # fmt: skip
    assert redactor.for_case(case).redact_value(case) == {
        "badge": "[redacted]",
        "note": "B-123456 in [redacted], write to [redacted:e-mail]",
        "customer": {"street": "[redacted]", "town": "Bonn", "name": "[redacted:name]"},
        "records": [{"SSN": "[redacted]", "first_name": "[redacted:name]", "ssn_kind": "us"}],
        "cards": [
            *("[redacted:card-number]", "4111-1111-1111-1112", "[redacted:card-number]", "1700000000000"),
            "[redacted:card-number]",
        ],
    }


def test_the_value_of_a_field_is_replaced_wherever_the_case_repeats_it() -> None:
    said = 'It is 12-34, not 12-345; {"a": "12-34"}'
    case = {"input": {"ssn": "12-34", "x": 1}, "trace": [{"output": said}]}
    redactor = Redactor(rules=RedactionRules(fields=("ssn",))).for_case(case)
    [event] = redactor.redact_value(case)["trace"]
    assert event == {"output": 'It is [redacted], not 12-345; {"a": "[redacted]"}'}
    assert redactor.redact_text("the judge read 12-34") == "the judge read [redacted]"
    other = {"input": {"x": 1}}
    assert Redactor(rules=RedactionRules(fields=("ssn",))).for_case(other).redact_text("12-34") == "12-34"


def test_empty_fields_stay_as_they_are() -> None:
    case = {"ssn": None, "a": {"ssn": ""}, "b": {"ssn": False}}
    redacted = Redactor(rules=RedactionRules(fields=("ssn",))).redact_value(case)
    assert redacted == {"ssn": None, "a": {"ssn": ""}, "b": {"ssn": "[redacted]"}}


def test_a_pattern_renames_none_of_our_fields_and_no_replacement() -> None:
    rules = RedactionRules(patterns=("word=[a-zA-Z]{4,}",))
    redactor = Redactor({"hunter2-hunter2": "PASSWORD"}, rules=rules)
    once = redactor.redact_value({"trace": [{"output": "hunter2-hunter2 done"}], "Their Key": 1})
    assert once == {"trace": [{"output": "[redacted:PASSWORD] [redacted]"}], "[redacted] Key": 1}
    assert redactor.redact_value(once) == once


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (RedactionRules(patterns=("[0-9]+",)), "no name"),
        (RedactionRules(patterns=("x=(",)), "RE2 cannot read it"),
        (RedactionRules(patterns=("x=a*",)), "matches the empty text"),
        (RedactionRules(patterns=("x=(?!a)",)), "RE2 cannot read it"),
        (RedactionRules(fields=("a b",)), "no name of a field"),
        (RedactionRules(fields=("a..b",)), "no name of a field"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(rules: RedactionRules, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Redactor(rules=rules)


def test_rules_travel_to_other_processes() -> None:
    case = {"ssn": "12-34"}
    redactor = Redactor({"hunter2-hunter2": "PASSWORD"}, tokens=True, rules=RULES).for_case(case)
    redactor.redact(b"compiled")
    sent = pickle.loads(pickle.dumps(redactor))
    text = f"12-34 hunter2-hunter2 {TOKENS['npm-token']} a@b.example"
    assert sent.redact_text(text) == redactor.redact_text(text)
    assert "hunter2" not in repr(sent)
    assert sent
    assert sent.redact_text(text) == "[redacted] [redacted:PASSWORD] [redacted:npm-token] [redacted:e-mail]"


@given(st.text(max_size=40), st.text(max_size=40))
def test_redacting_twice_changes_nothing_more(before: str, after: str) -> None:
    redactor = Redactor({"hunter2-hunter2": "PASSWORD"}, tokens=True, rules=RULES)
    text = f"{before}hunter2-hunter2{after} 4111111111111111 {TOKENS['npm-token']}{after}"
    once = redactor.redact(text.encode("utf-8", "surrogatepass"))
    assert redactor.redact(once) == once
    assert b"hunter2" not in once


def test_what_was_replaced_is_counted() -> None:
    assert count_markers(b"a [redacted:X] b [redacted:Y] [redacted]") == 3
