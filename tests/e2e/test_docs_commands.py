"""Every command that README and the guides show runs, and ends with the exit code they say.

A page's shell blocks (fences marked `sh`, `bash`, `shell` or `console`) run in order in one directory that
has the repository's examples in it. A line ending in `# exit N` is expected to exit with N. Commands of
outside services and of the machine's set-up are not run.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.program import REPOSITORY, environment, write_program

PAGES = sorted(
    path.relative_to(REPOSITORY)
    for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    if path.is_file()
)
NOT_RUN = re.compile(
    r"^(make|git|gh|docker|podman|cosign|curl|pip|pipx|python -m pip|python3 -m venv|\.venv/bin/pip"
    r"|source|cd|export) ?"
)
"""Set-up, other tools, and services that a test must not reach."""

# A longer fence holds shorter ones as text, as in CommonMark.
_BLOCK = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^`\n]*)\n(?P<text>.*?)^(?P=fence)`*$", re.MULTILINE | re.DOTALL
)
_SHELLS = frozenset({"sh", "bash", "shell", "console"})
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_MISUNDERSTOOD = re.compile(r'tool calls? got no answer|"unanswered_calls": [1-9]|"type_error":')
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class Command:
    """A command of a page: what is run, and the exit code the page promises."""

    text: str
    code: int


def commands(page: str) -> list[Command]:
    """The commands of a page's shell blocks, continued lines and here-documents joined."""
    found: list[Command] = []
    blocks = [block["text"] for block in _BLOCK.finditer(page) if block["language"].strip() in _SHELLS]
    for block in blocks:
        lines = iter(block.splitlines())
        for line in lines:
            text = line.removeprefix("$ ")
            if not text.strip() or text.startswith("#"):
                continue
            while text.endswith("\\"):
                text += "\n" + next(lines)
            here = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", text)
            if here:
                for inner in lines:
                    text += "\n" + inner
                    if inner == here.group(1):
                        break
            promised = _EXIT.search(text)
            found.append(Command(_EXIT.sub("", text), int(promised.group(1)) if promised else 0))
    return found


def runnable(page: Path) -> list[Command]:
    """The commands of a page that a test can run."""
    found = commands((REPOSITORY / page).read_text(encoding="utf-8"))
    return [command for command in found if not NOT_RUN.match(command.text)]


@pytest.mark.parametrize("page", list(filter(runnable, PAGES)), ids=str)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run = runnable(page)
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    tools = tmp_path / "bin"
    tools.mkdir()
    inherited = write_program(tools / "agent-eval")
    environ = environment()
    environ["PATH"] = f"{tools}:{Path(sys.executable).parent}:{environ['PATH']}"
    for command in run:
        done = subprocess.run(
            ["bash", "-c", command.text], cwd=tmp_path, env=environ, pass_fds=inherited,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == command.code, f"{command.text}\n{done.stdout}\n{done.stderr}"
        # An example whose agent is misunderstood ends with exit code 0 all the same.
        assert not _MISUNDERSTOOD.search(done.stdout + done.stderr), (
            f"{command.text}\n{done.stdout}\n{done.stderr}"
        )


def test_every_link_within_the_repository_leads_somewhere() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in _LINK.findall((REPOSITORY / page).read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert links
    broken = [link for link in links if not (REPOSITORY / link[0]).parent.joinpath(link[1]).exists()]
    assert not broken


def test_every_page_of_the_guides_and_decisions_is_linked() -> None:
    linked = "".join((REPOSITORY / page).read_text(encoding="utf-8") for page in PAGES)
    lonely = [str(page) for page in PAGES if page.name not in linked and page.name != "README.md"]
    assert not lonely


def test_commands_are_found_as_they_stand() -> None:
    block = "# a comment\n$ one \\\n  --two  # exit 3\ncat <<'X'\ntext\nX\n"
    page = f"```sh\n{block}```\n```yaml\nno: command\n```\n````markdown\n```sh\nquoted\n```\n````\n"
    assert commands(page) == [Command("one \\\n  --two", 3), Command("cat <<'X'\ntext\nX", 0)]
