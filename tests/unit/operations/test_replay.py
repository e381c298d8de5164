"""From what a pack says of its agent to an agent that can be run, and which packs were made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.errors import UsageError
from agent_eval.operations import replay
from agent_eval.operations.replay import is_own, own_packs_file, recorded_agent, remember_pack
from agent_eval.storage.files import sha256_bytes
from tests.unit.agents.tasks import AGENT_FORMS, write_agent_module

DESCRIBED = {
    **dict.fromkeys(AGENT_FORMS.values(), AgentOptions()),
    "command:python 'my agent.py'": AgentOptions(repair_command="python repair.py", pass_on=("SETTING",)),
    "openai:small": AgentOptions(
        base_url="http://localhost:1/v1", system="Be brief.", parameters={"seed": 1}
    ),
    "openai:": AgentOptions(),
    "anthropic:large": AgentOptions(parameters={"max_tokens": 9}),
}
"""Agents and their settings: every kind as messages show it, and what kinds have besides."""


@pytest.mark.parametrize("spec", DESCRIBED)
def test_an_agent_is_run_from_what_it_says_of_itself(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent_module(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = open_agent(spec, DESCRIBED[spec])
    described = agent.describe()
    agent.close()
    found, options = recorded_agent(described, AgentOptions())
    again = open_agent(found, options)
    assert again.describe() == described
    again.close()


def test_what_the_command_line_says_comes_first() -> None:
    agent = open_agent("openai:m", AgentOptions(base_url="http://localhost:1/v1", system="before"))
    mine = AgentOptions(base_url="http://localhost:2/v1", system="now", parameters={"seed": 2})
    _, options = recorded_agent(agent.describe(), mine)
    stated = (options.base_url, options.system, options.parameters)
    assert stated == ("http://localhost:2/v1", "now", {"seed": 2})
    agent.close()


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"agent": "teleprinter"},
        {"agent": "command"},
        {"agent": "command", "command": "not a list", "environment": 7},
        {"agent": "openai", "model": "m"},
        {"agent": "http", "url": "https://x/[redacted]"},
    ],
)
def test_what_says_too_little_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot be run from what the pack says"):
        recorded_agent(described, AgentOptions())


def pack(root: Path, content: bytes = b"{}") -> tuple[Path, str]:
    root.mkdir(exist_ok=True)
    (root / "manifest.json").write_bytes(content)
    return root, sha256_bytes(content)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/agent-eval/own_packs"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/agent-eval/own_packs"),
        ({"HOME": "/h"}, "/h/.local/state/agent-eval/own_packs"),
        ({"HOME": "h"}, None),
        ({}, None),
    ],
)
def test_the_file_lies_in_the_users_state_directory(environ: dict[str, str], expected: str | None) -> None:
    assert own_packs_file(environ) == (Path(expected) if expected else None)


def test_a_pack_is_known_once_it_is_remembered(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    made, digest = pack(tmp_path / "pack")
    assert not is_own(digest, environ)
    remember_pack(made, environ)
    remember_pack(made, environ)
    assert is_own(digest, environ)
    assert not is_own("0" * 64, environ)
    file = own_packs_file(environ)
    assert file is not None
    assert file.read_text() == f"{digest}\n"


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_OWN_PACKS", 3)
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    digests = []
    for number in range(5):
        made, digest = pack(tmp_path / "pack", str(number).encode())
        remember_pack(made, environ)
        digests.append(digest)
    assert [is_own(digest, environ) for digest in digests] == [False, False, True, True, True]


def test_what_cannot_be_noted_is_not_known(tmp_path: Path) -> None:
    made, digest = pack(tmp_path / "pack")
    (tmp_path / "file").write_text("in the way")
    for environ in ({}, {"HOME": str(tmp_path / "file")}):
        remember_pack(made, environ)
        assert not is_own(digest, environ)
    remember_pack(tmp_path / "no pack", {"HOME": str(tmp_path)})
    assert not (tmp_path / ".local").exists()


def test_a_file_of_something_else_makes_nothing_known(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    file = own_packs_file(environ)
    assert file is not None
    file.parent.mkdir()
    file.write_bytes(b"\xff\x00" + b"0" * 63 + b"\nA\n")
    assert not is_own("A", environ)
    assert not is_own("0" * 63, environ)
