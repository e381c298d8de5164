"""Hostile text as a word of a shell command that a person copies."""

from __future__ import annotations

import shlex


def shell_word(text: str) -> str:
    """`text` as one word of any POSIX shell, in which nothing is invisible but a line break at its end.

    What a terminal or a reader's eye would obey (controls, direction overrides) is written as `printf`'s
    octal escapes: `"$(printf 'a\\033b')"`. `$'a\\x1b'` would be shorter, but only some shells know it.

    Args:
        text: Anything but NUL, which no argument of a program can hold.
    """
    # A shell drops line breaks at the end of what a command printed, so they stand behind it.
    body = text.rstrip("\n")
    breaks = text[len(body) :]
    if body.isprintable():
        word = shlex.quote(body) if body or not breaks else ""
    else:
        word = f"\"$(printf '{''.join(map(_escaped, body))}')\""
        if body.startswith("-"):
            word = word.replace("'-", "'\\055", 1)  # else an option of printf
    return f"{word}'{breaks}'" if breaks else word


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\%":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))
