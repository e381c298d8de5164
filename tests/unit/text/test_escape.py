"""Hostile text in markdown, in terminals and logs, and as a word of a shell."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.text.escape import clean, code_span, fence, link, many_lines, plain, prose, shell_word
from tests.extent import crossed, examples


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


def test_fence__is_longer_than_any_run_inside_and_keeps_lines_and_tabs_alone():
    assert fence("a\n```\nb") == "````text\na\n```\nb\n````"
    assert fence("ls -l", language="sh") == "```sh\nls -l\n```"
    assert fence("a\r\n\tb\x07\u2028c") == "```text\na\n\tbc\n```"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        *(
            (title, title)
            for title in ("Agent evaluation", "Checkout agent (v2)", "Évaluation – nuit", "gpt-4o → mini")
        ),
        *((title, title) for title in ("release/2.4", "790", "A, b: c.")),
        ("Q&A", "Q&amp;A"),
    ],
)
def test_plain__leaves_inert_words_alone(title, shown):
    assert plain(title) == shown


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
        ("1. first", "`1`. first"),
        ('no case "order-2", or "a_b".', "no case `order-2`, or `a_b`."),
        ('"a_b" "c*d".', '`"a_b" "c*d"`.'),
        ("... `x`", "`...` `x`"),
        ("3 cases", "3 cases"),
        ("ends with #1 `x`", "ends with `#1` `x`"),
        ("the judges' model, the agents’ tools", "the judges' model, the agents’ tools"),
        ("", ""),
    ],
)
def test_prose__keeps_words_and_sets_the_rest_as_code(text, shown):
    assert prose(text) == shown


def test_prose__is_cut_within_code_as_code():
    shown = prose("less often: `order-1`, `refund-in-time-2`.", limit=32)
    assert shown == "less often: `order-1`, `refund-…`"


@pytest.mark.parametrize(
    "address", ["https://github.com/a/b/actions/runs/1", "http://localhost:8080/x?y=1#z"]
)
def test_link__links_web_addresses(address):
    assert link("run", address) == f"[run]({address})"


@pytest.mark.parametrize(
    "address",
    [
        *(None, "", "javascript:x", "https://e/)x", "https://e/ x", "https://a@e/", "//e/x"),
        "https://e/" + "x" * 500,
    ],
)
def test_link__leaves_other_addresses_out(address):
    assert link("run", address) == "run"


@pytest.mark.parametrize(
    ("text", "options", "shown"),
    [
        ("::error::x", {}, "∷error∷x"),
        (":\u200b:error::x", {}, "∷error∷x"),
        ("see ##[add-mask]x", {}, "see # #[add-mask]x"),
        ("##vso[task.x]", {}, "# #vso[task.x]"),
        ("a: b # c", {}, "a: b # c"),
        ("\x1b[31mred\x9b2J\u202eabc\x07", {}, "[31mred2Jabc"),
        ("a\r\nb\tc", {}, "a⏎b c"),
        ("a\r\nb\tc", {"multiline": True}, "a\nb\tc"),
        ("x" * 20, {"limit": 10}, "x" * 9 + "…"),
    ],
)
def test_clean__leaves_nothing_that_a_terminal_or_a_ci_server_obeys(text, options, shown):
    assert clean(text, **options) == shown


@given(st.text())
def test_clean__is_printable_and_stable(text):
    shown = clean(text)
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)
    assert clean(shown) == shown
    assert "::" not in shown


SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]
SHOW = "import sys; sys.stdout.buffer.write(repr([*map(ascii, sys.argv[1:])]).encode())"

NASTY = (
    *("refund-7", "", "a b", "x'; exit 1; '", "$(exit 1)`id`${HOME}", "two\nlines", "ends\n\n", "\n"),
    *("\x1b[31mred\x1b[0m", "user\u202etxt.exe", "zero\u200bwidth", "-n\x07", "%s %d \\ \\n \x01"),
    *("'\x01'", "\r\n", "tab\t1", "\x011", "☃\u2066 é\xa0x"),
)


def received(shell: str, words: list[str]) -> str:
    """What a program is given for these words."""
    command = f"{shell_word(sys.executable)} -c {shell_word(SHOW)} {' '.join(map(shell_word, words))}"
    done = subprocess.run([shell, "-c", command], capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    return done.stdout.decode()


@crossed(text=NASTY, shell=SHELLS)
def test_a_program_is_given_the_very_text(shell, text):
    assert received(shell, [text]) == repr([ascii(text)])


@pytest.mark.parametrize("shell", SHELLS)
@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
@settings(max_examples=examples(15))
def test_a_program_is_given_any_text(shell, words):
    assert received(shell, words) == repr([ascii(word) for word in words])


@given(st.text())
def test_nothing_in_a_word_disappears_when_it_is_shown(text):
    word = shell_word(text)
    assert many_lines(word, limit=len(word)) == word


def test_plain_ids_stay_as_they_are():
    assert shell_word("refund-7") == "refund-7"
    assert shell_word("a b") == "'a b'"
    assert shell_word("a\x1bb") == "\"$(printf 'a\\033b')\""
