"""What a run records of where it ran."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from agent_eval import __version__
from agent_eval.config.spec import AgentSpec, Identity, Output, RunSpec
from agent_eval.operations.environment import (
    agent_pins,
    git_commit,
    is_dirty,
    lock_digest,
    pinned_environment,
)
from tests.e2e.program import agent_eval
from tests.factories import make_case, make_suite
from tests.fakes.git_host import commit, git

OTHER = "f" * 40


def test_pinned_environment__names_interpreter_machine_and_judging_packages() -> None:
    pinned = pinned_environment()
    assert pinned["agent_eval"] == __version__
    assert pinned["python"] == platform.python_version()
    assert pinned["packages"]["google-re2"]
    assert json.loads(json.dumps(pinned)) == pinned


def test_pinned_environment__a_package_that_is_not_installed_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.operations.environment.JUDGING_PACKAGES", ("no-such-package",))
    assert pinned_environment()["packages"] == {"no-such-package": None}


def test_the_commit_is_that_of_the_checkout_above(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert git_commit(tmp_path) is None
    made = commit(tmp_path)
    git(tmp_path, "worktree", "add", "--quiet", "--detach", "tree")
    assert {git_commit(tmp_path / place) for place in ("", "tree", "not/there/yet")} == {made}
    (tmp_path / ".git" / "HEAD").write_text("nonsense")
    assert git_commit(tmp_path) is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_the_commit_of_a_checkout_of_another_user_is_known(tmp_path: Path) -> None:
    made = commit(tmp_path)
    for path in (tmp_path, tmp_path / ".git"):
        os.chown(path, 12345, 12345)
    assert git_commit(tmp_path) == made


def test_a_tree_is_dirty_where_a_file_that_git_knows_was_changed(tmp_path: Path) -> None:
    commit(tmp_path, **{"agent.py": "1"})
    assert is_dirty(tmp_path) is False
    (tmp_path / "evidence.json").write_text("{}")
    assert is_dirty(tmp_path) is False
    (tmp_path / "agent.py").write_text("2")
    assert is_dirty(tmp_path) is True
    git(tmp_path, "add", "agent.py")
    assert is_dirty(tmp_path) is True
    assert is_dirty(tmp_path / ".git") is None


def test_without_git_nothing_is_said_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (is_dirty(tmp_path), git_commit(tmp_path)) == (None, None)


def test_no_program_that_a_repository_names_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "monitor").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "monitor").chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(tmp_path / "monitor"))
    (tmp_path / "a").write_text("1")
    assert is_dirty(tmp_path) is False
    assert not (tmp_path / "ran").exists()


def test_locks_are_pinned_by_digest(tmp_path: Path) -> None:
    assert lock_digest(tmp_path) is None
    (tmp_path / "uv.lock").write_bytes(b"version = 1\n")
    one = hashlib.sha256(b"version = 1\n").hexdigest()
    assert lock_digest(tmp_path) == one
    (tmp_path / "package-lock.json").write_bytes(b"{}")
    other = hashlib.sha256(b"{}").hexdigest()
    lines = f"{one}  uv.lock\n{other}  package-lock.json\n"
    assert lock_digest(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "poetry.lock").symlink_to("/etc/hostname")
    assert lock_digest(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()


def test_what_the_user_states_comes_before_what_is_found(tmp_path: Path) -> None:
    made = commit(tmp_path, **{"uv.lock": "x", "prompt.txt": "Be brief."})
    agent = AgentSpec(name="openai:m", system_prompt=tmp_path / "prompt.txt")
    spec = RunSpec(suite=Path("s"), output=Output(pack=Path("p")), agent=agent)
    pins = agent_pins(spec, tmp_path)
    assert (pins["git_commit"], pins["prompt_hash"]) == (made, hashlib.sha256(b"Be brief.").hexdigest())
    assert pins["dependency_lock_hash"] == hashlib.sha256(b"x").hexdigest()
    stated = {"git_commit": OTHER, "dependency_lock_hash": "l", "prompt_hash": "p", "container_image": "i@1"}
    pins = agent_pins(replace(spec, identity=Identity(**stated)), tmp_path)
    assert pins | stated == pins


def test_a_pack_names_no_path_host_user_or_working_directory(tmp_path: Path) -> None:
    place = tmp_path / "a-working-directory-of-mine"
    commit(place, **{"suite.json": json.dumps(make_suite(make_case("a", "lookup")))})
    environ = {"USER": "a-user-of-mine", "HOME": str(tmp_path / "a-home-of-mine")}
    environ |= {"LOGNAME": "a-login-of-mine", "HOSTNAME": "a-host-of-mine", "SOME_PATH": "/a-path-of-mine"}
    assert agent_eval("run", "--suite", "suite.json", "--out", "p", cwd=place, environ=environ).code == 0
    config = json.loads((place / "p/run/config.json").read_bytes())
    assert config["git_dirty"] is False
    written = b"".join(path.read_bytes() for path in (place / "p").rglob("*") if path.is_file())
    places = (str(place), str(tmp_path), platform.node(), os.environ.get("PATH", "none!"))
    for text in (*environ.values(), *places):
        assert text.encode() not in written
