from __future__ import annotations

import pytest

from agent_eval.text.escape import code_span, fence, link, plain, prose


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("refund-42", "`refund-42`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("a``b`c", "```a``b`c```"),
        ("a|b", "`a¦b`"),
        ("a\r\nb\nc\rd\te", "`a⏎b⏎c⏎d e`"),
        ("\x1b[31mred\u202e\u200b\x00", "`[31mred`"),
        ("\ud800", "`∅`"),
        ("", "`∅`"),
        ("  ", "`∅`"),
        ("👩\u200d🚀 é", "`👩🚀 é`"),
    ],
)
def test_code_span__shows_everything_on_one_line(text, shown):
    assert code_span(text) == shown


def test_code_span__marks_what_it_cuts():
    assert code_span("x" * 10, limit=10) == f"`{'x' * 10}`"
    assert code_span("x" * 11, limit=10) == f"`{'x' * 9}…`"
    assert code_span("\x00" * 30 + "x", limit=10) == "`…`"


def test_fence__is_longer_than_any_run_inside():
    assert fence("a\n```\nb") == "````text\na\n```\nb\n````"
    assert fence("ls -l", language="sh") == "```sh\nls -l\n```"


def test_fence__keeps_lines_and_tabs_and_drops_controls():
    assert fence("a\r\n\tb\x07\u2028c") == "```text\na\n\tbc\n```"


@pytest.mark.parametrize(
    "title",
    [
        "Agent evaluation",
        "Checkout agent (v2)",
        "Évaluation – nuit",
        "gpt-4o → mini",
        "release/2.4",
        "790",
        "A, b: c.",
    ],
)
def test_plain__leaves_inert_words_alone(title):
    assert plain(title) == title


@pytest.mark.parametrize(
    "title",
    [
        *("@acme/security", "see #12", "www.evil.example", "https://e", "a_b_", "*x*", "1. x", "GH-12"),
        *("deadbeef1", ":tada:", "<b>", "a  b", "- x", "> x", "[x](y)", "a@b.co", "$x$", "~x~", "a\nb"),
    ],
)
def test_plain__sets_everything_else_as_code(title):
    assert plain(title) == code_span(title)


def test_plain__escapes_the_ampersand():
    assert plain("Q&A") == "Q&amp;A"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The token lacks `pull-requests: write`, sorry.", "The token lacks `pull-requests: write`, sorry."),
        ("(`main`) moved", "(`main`) moved"),
        ("Cost rose by 38% (0.42 USD).", "Cost rose by 38% (0.42 USD)."),
        ("see @you and https://x.y please", "see `@you` and `https://x.y` please"),
        ("a @b #1 c", "a `@b #1` c"),
        ("x `a``b` y", "x ``` `a``b` ``` y"),
        ("1. first", "`1.` first"),
        ("3 cases", "3 cases"),
        ("ends with #1 `x`", "ends with `#1` `x`"),
        ("the judges' model, the agents’ tools", "the judges' model, the agents’ tools"),
        ("", ""),
    ],
)
def test_prose__keeps_words_and_sets_the_rest_as_code(text, shown):
    assert prose(text) == shown


@pytest.mark.parametrize(
    "address", ["https://github.com/a/b/actions/runs/1", "http://localhost:8080/x?y=1#z"]
)
def test_link__links_web_addresses(address):
    assert link("run", address) == f"[run]({address})"


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "javascript:x",
        "https://e/)x",
        "https://e/ x",
        "https://a@e/",
        "//e/x",
        "https://e/" + "x" * 500,
    ],
)
def test_link__leaves_other_addresses_out(address):
    assert link("run", address) == "run"
