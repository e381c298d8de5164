"""Every command that the documents name and no test runs is one that there is, with options that it has.

The shell blocks of a page are run by `tests/e2e/test_docs_commands.py`. Commands in a sentence, in an
indented block and in a block of another language are held against the command line here.
"""

import re
import shlex
from pathlib import Path

import click
import pytest

from agent_eval.cli.main import agent_eval, unaliased

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path.is_file() and path.name != "CHANGELOG.md"
)
_FENCE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)`*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`agent-eval ([^`]+)`(?!`)")
_LINE = re.compile(r"^ *(?:\$ |- |- run: |run: |run = |[A-Z_]+=\S+ )*agent-eval +([a-z][^\n]*)", re.MULTILINE)
_ELLIPSIS = re.compile(r"\[|\]|…|\.\.\.")
"""Of a form that stands for several commands."""


_REST = re.compile(r" (?:#|>|<<|&&|\|) ?")
"""What begins something that is not the command's: a comment, a redirection, the next command."""


def named(page: str) -> list[str]:
    """The commands of a page, without the program's name: those of sentences, and those of blocks."""
    sentences = _FENCE.sub("", page)
    blocks = [block[0] for block in _FENCE.finditer(page)] + re.findall(r"^ {4}.*", sentences, re.MULTILINE)
    lines = _LINE.findall(re.sub(r"\\\n\s*", " ", "\n".join(blocks)))
    inline = [" ".join(command.split()) for command in _INLINE.findall(sentences)]
    commands = [_REST.split(command)[0] for command in [*inline, *lines]]
    return [command for command in commands if not _ELLIPSIS.search(command)]


def wrong(command: str) -> str:
    """What is wrong with a command: its name, an option, or a word too many; empty where nothing is."""
    try:
        words = unaliased(shlex.split(command))
    except ValueError:
        return ""  # a here-document or a quote that goes on
    found: click.Command = agent_eval
    context = click.Context(found, info_name="agent-eval")
    try:
        while isinstance(found, click.Group) and words:
            if words[0] == "help":
                words = words[1:]
                continue
            if words[0].isupper():
                return ""  # `agent-eval help COMMAND`
            if words[0].startswith("-"):
                break
            _, next_found, words = found.resolve_command(context, words)
            assert next_found is not None
            found, context = next_found, click.Context(next_found, parent=context, info_name=next_found.name)
        _, left, _ = found.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage:
        return ""  # `agent-eval gate --config`, which names an option and no value of it
    except click.UsageError as error:
        return error.format_message()
    return f"{left[0]!r} is a word too many" if left and not isinstance(found, click.Group) else ""


@pytest.mark.parametrize("page", [page for page in PAGES if named((ROOT / page).read_text())], ids=str)
def test_a_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    found = {command: wrong(command) for command in named((ROOT / page).read_text(encoding="utf-8"))}
    assert {command: why for command, why in found.items() if why} == {}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("verify PACK", ""),
        ("history WHERE --config gate.yml", ""),
        ("gate --config", ""),
        ("registry waiver-add", ""),
        ("show --run PACK", "No such option '--run'."),
        ("registry waver-add", "No such command 'waver-add'."),
        ("expert", "No such command 'expert'."),
        ("keygen a b c", "'a' is a word too many"),
    ],
)
def test_what_is_wrong_with_a_command_is_found(command: str, why: str) -> None:
    assert re.split(r" \(?Did you mean", wrong(command))[0] == why


def test_commands_are_found_in_sentences_and_on_lines() -> None:
    indented, fenced = "    agent-eval bless --name main", "```yaml\n- run: agent-eval ci # all of it\n```"
    page = f"Call `agent-eval show PACK`, then\n\n{indented}\n\n{fenced}\nagent-eval does nothing else.\n"
    assert named(page) == ["show PACK", "ci", "bless --name main"]
