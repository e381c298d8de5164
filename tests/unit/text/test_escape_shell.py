from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.text.escape import many_lines, shell_word
from tests.extent import crossed, examples

SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]
SHOW = "import sys; sys.stdout.buffer.write(repr([*map(ascii, sys.argv[1:])]).encode())"

NASTY = (
    "refund-7",
    "",
    "a b",
    "x'; exit 1; '",
    "$(exit 1)`id`${HOME}",
    "two\nlines",
    "ends\n\n",
    "\n",
    "\x1b[31mred\x1b[0m",
    "user\u202etxt.exe",
    "zero\u200bwidth",
    "-n\x07",
    "%s %d \\ \\n \x01",
    "'\x01'",
    "\r\n",
    "tab\t1",
    "\x011",
    "☃\u2066 é\xa0x",
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
