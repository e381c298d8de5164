"""The command line as tests call it: the words in, what it printed and its exit code out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Calls the program in this process; each call reads only what it printed itself."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        """Standard output and standard error of a call with this exit code."""
        self._capsys.readouterr()
        ended = main(words)
        out, err = self._capsys.readouterr()
        assert ended == code, (words, out, err)
        return out, err

    def out(self, *words: str, code: int = 0) -> str:
        return self.run(*words, code=code)[0]

    def err(self, *words: str, code: int = 2) -> str:
        """Standard error of a call that prints no result."""
        out, err = self.run(*words, code=code)
        assert out == ""
        return err

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.out(*words, "--format", "json", code=code)))

    def error(self, *words: str, code: int = 2) -> dict[str, Any]:
        """The error of a call that prints no result: code, message, details."""
        return dict(json.loads(self.err(*words, code=code).splitlines()[-1])["error"])
