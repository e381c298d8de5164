"""What every committed file keeps to: the project speaks to strangers, on any machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written with a class of one letter each, so that this file does not find itself.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.])/(?:w[o]rk|r[o]ot|h[o]me/(?!runner\b)\w+|U[s]ers)/\w",
    "the host of a package registry": (
        r"\b(?:p[y]pi\.org/simple|files\.p[y]thonhosted\.org|registry\.n[p]mjs\.org|d[e]b\.debian\.org)"
    ),
    "a temporary file": r"/t[m]p/(?:seed|bash_jobs)",
}


def committed_texts() -> list[tuple[str, str]]:
    """Name and text of every file that git tracks; binary files are left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    found = []
    for name in sorted(filter(None, listing.stdout.split("\0"))):
        try:
            found.append((name, (ROOT / name).read_text(encoding="utf-8")))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: nothing says what is committed")
@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_no_file_names(what):
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in committed_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


def test_every_room_with_modules_is_a_package():
    rooms = {path.parent for path in (ROOT / "agent_eval").rglob("*.py")}
    assert sorted(str(room) for room in rooms if not (room / "__init__.py").is_file()) == []
