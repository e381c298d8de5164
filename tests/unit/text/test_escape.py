from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.text.escape import clean, code_span, fence, link, plain, prose


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


def test_what_is_cut_is_marked():
    assert code_span("x" * 10, limit=10) == f"`{'x' * 10}`"
    assert code_span("x" * 11, limit=10) == f"`{'x' * 9}…`"
    assert code_span("\x00" * 30 + "x", limit=10) == "`…`"
    assert clean("x" * 20, limit=10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "language", "shown"),
    [
        ("a\n```\nb", "text", "````text\na\n```\nb\n````"),
        ("ls -l", "sh", "```sh\nls -l\n```"),
        ("a\r\n\tb\x07\u2028c", "text", "```text\na\n\tbc\n```"),
    ],
)
def test_fence__is_longer_than_any_run_inside_and_drops_controls(text, language, shown):
    assert fence(text, language=language) == shown


@pytest.mark.parametrize(
    "title",
    [
        *("Agent evaluation", "Checkout agent (v2)", "Évaluation – nuit", "gpt-4o → mini", "release/2.4"),
        *("790", "A, b: c."),
    ],
)
def test_plain__leaves_inert_words_alone(title):
    assert plain(title) == title
    assert plain(f"{title} Q&A") == f"{title} Q&amp;A"


@pytest.mark.parametrize(
    "title",
    [
        *("@acme/security", "see #12", "www.evil.example", "https://e", "a_b_", "*x*", "1. x", "GH-12"),
        *("deadbeef1", ":tada:", "<b>", "a  b", "- x", "> x", "[x](y)", "a@b.co", "$x$", "~x~", "a\nb"),
    ],
)
def test_plain__sets_everything_else_as_code(title):
    assert plain(title) == code_span(title)


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
    ("address", "is_linked"),
    [
        *dict.fromkeys(
            ("https://github.com/a/b/actions/runs/1", "http://localhost:8080/x?y=1#z"), True
        ).items(),
        *dict.fromkeys(
            (None, "", "javascript:x", "https://e/)x", "https://e/ x", "https://a@e/"), False
        ).items(),
        *dict.fromkeys(("//e/x", "https://e/" + "x" * 500), False).items(),
    ],
)
def test_link__links_web_addresses_alone(address, is_linked):
    assert link("run", address) == (f"[run]({address})" if is_linked else "run")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x9b2J\u202eabc\x07", "[31mred2Jabc"),
        ("a\r\nb\tc", "a⏎b c"),
        ("::error::x", "∷error∷x"),
        (":\u200b:error::x", "∷error∷x"),
        ("see ##[add-mask]x", "see # #[add-mask]x"),
        ("##vso[task.x]", "# #vso[task.x]"),
        ("a: b # c", "a: b # c"),
    ],
)
def test_clean__makes_harmless_what_terminals_and_ci_servers_obey(text, shown):
    assert clean(text) == shown


@given(st.text())
def test_clean__is_printable_and_stable(text):
    assert clean("a\r\nb\tc", multiline=True) == "a\nb\tc"
    shown = clean(text)
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)
    assert clean(shown) == shown
    assert "::" not in shown
