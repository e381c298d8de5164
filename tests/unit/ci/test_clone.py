"""The private clone has what git's ids say, whatever an earlier step wrote below `.git` of the checkout."""

from __future__ import annotations

import os
import subprocess
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from agent_eval.ci.clone import CommitUnknown, DamagedObjects, NoCheckout, PrivateClone, Remote
from agent_eval.ci.workspace import Altered
from agent_eval.errors import NotEvaluable, RemoteError, UsageError
from tests.fakes.git_host import GitHost, commit, git, pointer, serving
from tests.unit.ci.conftest import remote


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the job's user, with the place of the clone below."""
    monkeypatch.delenv("RUNNER_TEMP", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def top(tmp_path: Path, home: Path) -> Path:
    return tmp_path / "work" / "shop"


def cloned(top: Path, remote: Remote | None = None) -> closing[PrivateClone]:
    return closing(PrivateClone.of(top, os.environ, remote))


def history(top: Path) -> tuple[str, str, str]:
    """An old commit, the base, and a change that is checked out; main has gone on meanwhile."""
    old = commit(top, **{"agent.py": "old", "rules.yml": "lax"})
    base = commit(top, **{"agent.py": "base", "rules.yml": "strict"})
    tip = commit(top, **{"other.py": "meanwhile"})
    git(top, "checkout", "--quiet", "-b", "topic", base)
    commit(top, **{"agent.py": "change", "rules.yml": "lax"})
    return old, base, tip


def test_a_clone_tells_of_the_history(top: Path) -> None:
    old, base, tip = history(top)
    with cloned(top) as clone:
        clone.fetch(tip)
        assert clone.head == git(top, "rev-parse", "HEAD")
        assert clone.merge_base(clone.head, tip) == base
        assert clone.is_ancestor(old, tip)
        assert not clone.is_ancestor(tip, clone.head)
        assert clone.same_tree(base, base)
        assert not clone.same_tree(old, base)
        assert clone.files(tip) == ["agent.py", "other.py", "rules.yml"]
        assert clone.file("agent.py", base) == b"base"
        assert clone.file("other.py", base) is None


def test_a_clone_leaves_nothing_behind(top: Path, home: Path) -> None:
    history(top)
    with cloned(top) as clone:
        assert clone.home.is_relative_to(home)
        (clone.home / "kept").mkdir(mode=0o500)
    assert list((home / ".cache").iterdir()) == []


def test_no_clone_is_made_in_the_checkout(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history(top)
    monkeypatch.setenv("RUNNER_TEMP", str(top / "temporary"))
    with cloned(top) as clone:
        assert not clone.home.is_relative_to(top)


def test_grafts_hide_no_history(top: Path) -> None:
    _, base, tip = history(top)
    (top / ".git" / "info").mkdir(exist_ok=True)
    (top / ".git" / "info" / "grafts").write_text(f"{git(top, 'rev-parse', 'HEAD')}\n")
    with cloned(top) as clone:
        clone.fetch(tip)
        assert clone.merge_base(clone.head, tip) == base


@pytest.mark.parametrize("forged", ["of another commit", "nonsense", "nothing at all"])
@pytest.mark.parametrize("which", ["base", "tip"])
def test_a_forged_commit_is_refused(top: Path, which: str, forged: str) -> None:
    _, base, tip = history(top)
    victim = base if which == "base" else tip
    body = subprocess.run(
        ["git", "cat-file", "commit", "HEAD"], cwd=top, capture_output=True, check=True
    ).stdout
    contents = {"of another commit": b"commit %d\0" % len(body) + body, "nonsense": b"commit 3\0lax"}
    place = top / ".git" / "objects" / victim[:2] / victim[2:]
    place.chmod(0o600)
    place.write_bytes(zlib.compress(contents[forged]) if forged in contents else b"")
    with pytest.raises(DamagedObjects), cloned(top) as clone:
        clone.fetch(tip)


def test_no_configuration_and_no_hook_of_the_checkout_runs(top: Path, tmp_path: Path, home: Path) -> None:
    _, base, _ = history(top)
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    script.chmod(0o755)
    for name in ("core.fsmonitor", "filter.z.smudge", "filter.z.process", "uploadpack.packObjectsHook"):
        git(top, "config", name, str(script))
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(
        f'[filter "z"]\n\tsmudge = {script}\n[uploadpack]\n\tpackObjectsHook={script}\n'
    )
    (top / ".git" / "info").mkdir(exist_ok=True)
    (top / ".git" / "info" / "attributes").write_text("* filter=z\n")
    hooks = top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        (hooks / name).symlink_to(script)
    with cloned(top) as clone:
        assert clone.file("rules.yml", base) == b"strict"
    assert not ran.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_checkout_of_another_owner_is_cloned(top: Path) -> None:
    _, base, _ = history(top)
    subprocess.run(["chown", "-R", "12345:12345", str(top)], check=True)
    with cloned(top) as clone:
        assert clone.file("rules.yml", base) == b"strict"


def test_objects_that_the_checkout_borrows_are_copied(top: Path, tmp_path: Path) -> None:
    """Such as those of a cache of the runner, which may be gone or other later."""
    _, base, _ = history(top)
    borrowing = tmp_path / "work" / "borrowing"
    git(top, "clone", "--quiet", "--shared", str(top), str(borrowing))
    with cloned(borrowing) as clone:
        assert not (clone.directory / "objects" / "info" / "alternates").exists()
        assert clone.file("rules.yml", base) == b"strict"


def test_a_worktree_and_a_directory_within_are_checkouts(top: Path, tmp_path: Path) -> None:
    _, base, _ = history(top)
    git(top, "worktree", "add", "--quiet", "--detach", str(tmp_path / "beside"), base)
    (tmp_path / "beside" / "inner").mkdir()
    with cloned(tmp_path / "beside" / "inner") as clone:
        assert (clone.head, clone.top) == (base, tmp_path / "beside")


def test_a_git_that_reads_other_configuration_all_the_same_is_refused(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(top)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\necho git version 2.25.1\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(NotEvaluable, match="has git version 2") as raised:
        cloned(top)
    assert raised.value.remedy == "Install git 2.32 or newer."


def test_there_must_be_a_commit(top: Path, tmp_path: Path) -> None:
    with pytest.raises(NoCheckout, match="does not run in a git checkout"):
        cloned(tmp_path)
    top.mkdir(parents=True)
    git(top, "init", "--quiet")
    with pytest.raises(NoCheckout, match="has no commit"):
        cloned(top)


def test_an_unknown_commit_is_refused(top: Path) -> None:
    history(top)
    with cloned(top) as clone:
        with pytest.raises(CommitUnknown, match="not known: fetch the whole history"):
            clone.fetch("1" * 40)
        with pytest.raises(UsageError, match="is no commit id"):
            clone.fetch("--upload-pack=touch x")


@pytest.mark.parametrize("name", ["link", "folder", "large"])
def test_only_a_small_regular_file_is_read(top: Path, name: str) -> None:
    top.mkdir(parents=True)
    (top / "link").symlink_to("/etc/passwd")
    (top / "folder").mkdir()
    (top / "folder" / "inner").write_text("x")
    (top / "large").write_bytes(b"x" * (1 << 20) + b"x")
    commit(top)
    with cloned(top) as clone, pytest.raises(RemoteError, match="not a regular file of at most 1 MiB"):
        clone.file(name, clone.head)


def test_the_tip_is_what_the_remote_says(top: Path, host: GitHost) -> None:
    """A reference of the checkout may have been moved by an earlier step."""
    _, base, tip = history(top)
    git(top, "checkout", "--quiet", "main")
    of_host = remote(host, top)
    git(top, "checkout", "--quiet", "topic")
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(top, "update-ref", "refs/heads/main", "HEAD")
    with cloned(top, of_host) as clone:
        assert clone.tip("main") == tip
        assert clone.merge_base(clone.head, tip) == base
        with pytest.raises(CommitUnknown, match="the remote repository has no such branch"):
            clone.tip("gone")


def test_a_host_takes_a_token_as_a_password(top: Path, host: GitHost) -> None:
    history(top)
    url = host.add("shop.git", top)
    host.token = "eC1hY2Nlc3M6dG9rZW4="
    remote = Remote.by_token(url, "x-access", "token")
    with cloned(top, remote) as clone, pytest.raises(CommitUnknown, match="cannot be asked"):
        clone.tip("main")
    assert host.seen[-1][2] == f"Basic {host.token}"
    assert Remote.by_token(url, "x-access", "").headers == ()


def test_the_user_s_configuration_leads_to_no_remote(top: Path, home: Path, host: GitHost) -> None:
    """An earlier step of a job could name another repository there, and with that its own tip."""
    history(top)
    url, host.token = host.add("shop.git", top), ""
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "{url}"]\n\tinsteadOf = shop:\n')
    with cloned(top, Remote("shop:")) as clone, pytest.raises(CommitUnknown):
        clone.tip("main")


def test_a_token_does_not_follow_to_another_host(top: Path, host: GitHost, tmp_path: Path) -> None:
    history(top)
    with serving(tmp_path / "other") as other, cloned(top, remote(host, top)) as clone:
        other.add("shop.git", top)
        host.moved_to = other.url
        with pytest.raises(CommitUnknown):
            clone.tip("main")
        assert other.seen == []


def test_what_is_edited_in_the_checkout_is_listed(top: Path) -> None:
    content = b"weights"
    files = {"a.py": "a", "b.py": "b\n", "run": "run", "model.bin": pointer(content), "data.txt": "data"}
    commit(top, **files, **{".gitattributes": "*.bin filter=lfs -text\n"})
    (top / "a.py").write_text("edited")
    (top / "b.py").write_bytes(b"b\r\n")
    (top / "run").chmod(0o755)
    (top / "model.bin").write_bytes(content)
    (top / "new.py").write_text("new")
    (top / "data.txt").unlink()
    with cloned(top) as clone:
        assert clone.edited() == ["a.py"]


def shallow(top: Path, tmp_path: Path, host: GitHost) -> tuple[Path, str]:
    """Check a change out at depth 1, of a host that has it; its checkout and address."""
    url = host.add("shop.git", top)
    shallow = tmp_path / "work" / "shallow"
    git(top, "clone", "--quiet", "--depth=1", "--branch=topic", top.as_uri(), str(shallow))
    return shallow, url


def test_a_shallow_checkout_is_completed_from_the_remote(top: Path, tmp_path: Path, host: GitHost) -> None:
    _, base, tip = history(top)
    where, url = shallow(top, tmp_path, host)
    git(top, "push", "--quiet", str(host.root / "shop.git"), "main:other")
    with cloned(where, Remote(url, (host.header,))) as clone:
        clone.fetch(tip)
        assert clone.merge_base(clone.head, tip) == base
        assert clone.file("other.py", tip) == b"meanwhile"
        clone.seal()
        asked = len(host.seen)
        assert clone.file("rules.yml", base) == b"strict"
        assert clone.file("agent.py", clone.head) == b"change"
        assert len(host.seen) == asked
    assert {sent for _, _, sent in host.seen} == {"Bearer job-token"}


def test_a_shallow_checkout_that_the_job_may_not_complete_is_refused(
    top: Path, tmp_path: Path, host: GitHost
) -> None:
    history(top)
    where, url = shallow(top, tmp_path, host)
    with pytest.raises(CommitUnknown, match="The base commit is not known: fetch the whole history"):
        cloned(where, Remote(url))


def test_a_sealed_clone_asks_no_remote_and_shows_what_was_altered(top: Path, host: GitHost) -> None:
    _, base, _ = history(top)
    with cloned(top, remote(host, top)) as clone:
        clone.seal()
        host.seen.clear()
        with pytest.raises(CommitUnknown):
            clone.fetch("1" * 40)
        assert host.seen == []
        assert clone.file("rules.yml", base) == b"strict"
        clone.refuse_altered()
        (clone.directory / "config").write_text("[core]\n\tfsmonitor = evil\n")
        with pytest.raises(Altered, match="private clone was altered while the change ran: `config`"):
            clone.refuse_altered()


def test_no_argument_is_a_token(
    top: Path, host: GitHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(top)
    url = host.add("shop.git", top)
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "git"
    real = next(Path(each) for each in os.environ["PATH"].split(":") if (Path(each) / "git").exists()) / "git"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with cloned(top, Remote(url, (host.header,))) as clone:
        clone.tip("main")
    assert "ls-remote" in (tmp_path / "arguments").read_text()
    assert "job-token" not in (tmp_path / "arguments").read_text()
    assert "job-token" not in repr(Remote(url, (host.header,)))
