"""A worktree has all files of its commit, submodules and LFS files included, and nothing that lies."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_eval.ci.clone import PrivateClone, Remote
from agent_eval.ci.sides import CannotCheckOut, check_out
from tests.extent import unavailable
from tests.fakes.git_host import GitHost, commit, git, keep_lfs, pointer
from tests.unit.ci.conftest import remote


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RUNNER_TEMP", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "work" / "shop"


@pytest.fixture
def library(tmp_path: Path, host: GitHost) -> Path:
    """A library of two commits, with a library of its own within, on the host."""
    inner, library = tmp_path / "inner", tmp_path / "library"
    commit(inner, **{"inner.py": "inner"})
    host.add("inner.git", inner)
    commit(library, **{"lib.py": "first"})
    git(library, "submodule", "--quiet", "add", str(inner), "deep")
    git(library, "config", "-f", ".gitmodules", "submodule.deep.url", "../inner.git")
    commit(library)
    host.add("library.git", library)
    return library


def add_library(top: Path, library: Path, url: str = "../library.git") -> str:
    """Commit the library as the submodule `lib`, of that address, without its files in the checkout."""
    commit(top, **{"agent.py": "agent"})
    git(top, "submodule", "--quiet", "add", str(library), "lib")
    git(top, "config", "-f", ".gitmodules", "submodule.lib.url", url)
    head = commit(top)
    shutil.rmtree(top / ".git" / "modules")
    shutil.rmtree(top / "lib")
    (top / "lib").mkdir()
    return head


@dataclass(frozen=True)
class Tree:
    """A worktree as it can be looked at once its clone is gone."""

    directory: Path
    tracked: frozenset[str]


def made(top: Path, tmp_path: Path, remote: Remote | None, wanted: str | None = None) -> Tree:
    with closing(PrivateClone.of(top, os.environ, remote)) as clone:
        tracked = check_out(clone, wanted or clone.head, clone.home / "tree")
        shutil.copytree(clone.home / "tree", tmp_path / "tree", symlinks=True)
        return Tree(tmp_path / "tree", tracked)


def test_git_works_in_a_worktree_and_writes_nothing_into_the_clone(top: Path) -> None:
    head = commit(top, **{"agent.py": "agent"})
    git(top, "tag", "v1.2")
    with closing(PrivateClone.of(top, os.environ)) as clone:
        clone.seal()
        tree = clone.home / "tree"
        check_out(clone, head, tree)
        assert git(tree, "status", "--porcelain") == ""
        assert git(tree, "describe", "--tags") == "v1.2"
        commit(tree, **{"agent.py": "other"})
        git(tree, "gc", "--quiet")
        git(tree, "config", "core.hooksPath", "/x")
        clone.refuse_altered()


def test_a_worktree_has_nested_submodules(top: Path, tmp_path: Path, host: GitHost, library: Path) -> None:
    add_library(top, library)
    tree = made(top, tmp_path, remote(host, top))
    assert (tree.directory / "lib" / "lib.py").read_text() == "first"
    assert (tree.directory / "lib" / "deep" / "inner.py").read_text() == "inner"
    files = {"agent.py", ".gitmodules", "lib/lib.py", "lib/.gitmodules", "lib/deep/inner.py"}
    assert tree.tracked == files


def test_each_commit_has_its_own_submodules(top: Path, tmp_path: Path, host: GitHost, library: Path) -> None:
    """By its own `.gitmodules`, also where the checkout's configuration names another address."""
    base = add_library(top, library)
    newer = commit(library, **{"lib.py": "second"})
    host.add("library.git", library)
    git(top, "update-index", "--cacheinfo", f"160000,{newer},lib")
    git(top, "config", "-f", ".gitmodules", "submodule.lib.url", "../gone.git")
    git(top, "add", ".gitmodules")
    git(top, "commit", "--quiet", "-m", "change")
    git(top, "config", "submodule.lib.url", str(tmp_path / "elsewhere"))
    tree = made(top, tmp_path, remote(host, top), base)
    assert (tree.directory / "lib" / "lib.py").read_text() == "first"


def test_a_submodule_that_the_checkout_has_needs_no_remote(top: Path, tmp_path: Path, library: Path) -> None:
    """Its checkout may have had keys that the job has not."""
    commit(top, **{"agent.py": "agent"})
    git(top, "submodule", "--quiet", "add", str(library), "lib")
    git(top, "config", "-f", ".gitmodules", "submodule.lib.url", "https://elsewhere.example.org/library")
    git(library, "config", "-f", ".gitmodules", "submodule.deep.url", str(tmp_path / "inner"))
    git(top / "lib", "config", "-f", ".gitmodules", "submodule.deep.url", str(tmp_path / "inner"))
    git(top / "lib", "submodule", "--quiet", "update", "--init")
    git(top / "lib", "checkout", "--quiet", ".gitmodules")
    commit(top)
    tree = made(top, tmp_path, None)
    assert (tree.directory / "lib" / "deep" / "inner.py").read_text() == "inner"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("../gone.git", "its repository cannot be read"),
        ("https://elsewhere.example.org/library.git", "it is on another host"),
        ("file:///etc", "it is on another host"),
        ("ext::sh -c touch% /tmp/x", "it is on another host"),
        (None, "the checkout does not have it"),
    ],
)
def test_a_submodule_that_is_not_to_be_had_is_named(
    top: Path, tmp_path: Path, host: GitHost, library: Path, url: str | None, why: str
) -> None:
    add_library(top, library, url or "../library.git")
    with pytest.raises(CannotCheckOut, match=f"submodule `lib`: .*{why}"):
        made(top, tmp_path, remote(host, top) if url else None)


def test_submodules_that_contain_themselves_end_somewhere(top: Path, tmp_path: Path, host: GitHost) -> None:
    """Each commit of one library has the one before it within: a chain of any length, in one repository."""
    library = tmp_path / "chain"
    before = commit(library, **{"lib.py": "first"})
    git(library, "config", "-f", ".gitmodules", "submodule.lib.path", "lib")
    git(library, "config", "-f", ".gitmodules", "submodule.lib.url", "../chain.git")
    git(library, "add", ".gitmodules")
    for _ in range(10):
        git(library, "update-index", "--add", "--cacheinfo", f"160000,{before},lib")
        git(library, "commit", "--quiet", "-m", "deeper")
        before = git(library, "rev-parse", "HEAD")
    address = Remote(host.add("chain.git", library), (host.header,))
    with pytest.raises(CannotCheckOut, match="submodule `lib`: submodules are nested more than 8 deep"):
        made(library, tmp_path, address)


def test_a_commit_that_is_not_to_be_had_is_said(top: Path, tmp_path: Path) -> None:
    commit(top, **{"agent.py": "agent"})
    with pytest.raises(CannotCheckOut, match=r"its files: .* neither in the checkout nor at hand") as raised:
        made(top, tmp_path, None, "1" * 40)
    assert "fetch it in the step that checks out" in raised.value.remedy


@pytest.mark.parametrize("absolute", [True, False])
def test_the_name_of_a_submodule_leads_nowhere_else(
    top: Path, tmp_path: Path, host: GitHost, library: Path, absolute: bool
) -> None:
    """A name may be `../..`: it is a path below `.git/modules` in git."""
    commit(top, **{"agent.py": "agent"})
    link = git(library, "rev-parse", "HEAD")
    elsewhere = library / ".git"
    name = str(elsewhere) if absolute else os.path.relpath(elsewhere, top / ".git" / "modules")
    (top / ".gitmodules").write_text(f'[submodule "{name}"]\n\tpath = lib\n\turl = ../gone.git\n')
    git(top, "add", ".gitmodules")
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{link},lib")
    git(top, "commit", "--quiet", "-m", "change")
    (top / ".git" / "modules").mkdir()
    with pytest.raises(CannotCheckOut, match="submodule `lib`"):
        made(top, tmp_path, remote(host, top))


def test_a_link_to_a_commit_without_an_address_stays_empty(top: Path, tmp_path: Path, library: Path) -> None:
    commit(top, **{"agent.py": "agent"})
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{git(library, 'rev-parse', 'HEAD')},lib")
    git(top, "commit", "--quiet", "-m", "change")
    tree = made(top, tmp_path, None)
    assert list((tree.directory / "lib").iterdir()) == []


MODEL = b"weights " * 1000


def add_model(top: Path, content: bytes = MODEL) -> str:
    attributes = {".gitattributes": "*.bin filter=lfs -text\n"}
    return commit(top, **attributes, **{"model.bin": pointer(content), "notes.txt": pointer(content)})


def test_files_of_lfs_come_from_the_host(top: Path, tmp_path: Path, host: GitHost) -> None:
    add_model(top)
    host.keep(MODEL)
    tree = made(top, tmp_path, remote(host, top)).directory
    assert (tree / "model.bin").read_bytes() == MODEL
    assert (tree / "notes.txt").read_text() == pointer(MODEL)
    assert {path.name for path in tree.iterdir()} == {".git", ".gitattributes", "model.bin", "notes.txt"}


def test_files_of_lfs_that_the_checkout_keeps_need_no_host(top: Path, tmp_path: Path) -> None:
    add_model(top)
    keep_lfs(top, MODEL)
    assert (made(top, tmp_path, None).directory / "model.bin").read_bytes() == MODEL


def test_what_git_lfs_made_of_a_file_is_taken(top: Path, tmp_path: Path) -> None:
    if shutil.which("git-lfs") is None:
        unavailable("git-lfs is not installed (.ci/programs installs it)")
    commit(top, **{"agent.py": "agent"})
    git(top, "lfs", "install", "--local")
    git(top, "lfs", "track", "*.bin")
    (top / "model.bin").write_bytes(MODEL)
    head = commit(top)
    assert git(top, "cat-file", "blob", f"{head}:model.bin") + "\n" == pointer(MODEL)
    with closing(PrivateClone.of(top, os.environ)) as clone:
        assert clone.edited() == []
    assert (made(top, tmp_path, None).directory / "model.bin").read_bytes() == MODEL


def test_an_altered_object_of_lfs_is_not_taken(top: Path, tmp_path: Path, host: GitHost) -> None:
    """Of the same size: nothing but its digest shows it."""
    add_model(top)
    keep_lfs(top, MODEL.upper(), named=MODEL)
    host.keep(MODEL)
    assert (made(top, tmp_path, remote(host, top)).directory / "model.bin").read_bytes() == MODEL


LARGE = {"model.bin": pointer(MODEL).replace(f"size {len(MODEL)}", f"size {3 << 30}")}
ASKS_ELSEWHERE = {".lfsconfig": "[lfs]\n\turl = https://elsewhere.example.org/lfs\n"}


@pytest.mark.parametrize(
    ("files", "sent", "has_remote", "why"),
    [
        ({}, None, True, "its host does not give it"),
        ({}, None, False, "the checkout does not have it"),
        ({}, MODEL.upper(), True, "another file than its pointer says"),
        (LARGE, MODEL, True, "larger than 2 GiB"),
        (ASKS_ELSEWHERE, None, True, "another host"),
    ],
)
def test_a_file_of_lfs_that_is_not_to_be_had_is_named(
    top: Path,
    tmp_path: Path,
    host: GitHost,
    files: dict[str, str],
    sent: bytes | None,
    has_remote: bool,
    why: str,
) -> None:
    add_model(top)
    commit(top, **files)
    if sent is not None:
        host.objects[hashlib.sha256(MODEL).hexdigest()] = sent
    with pytest.raises(CannotCheckOut, match=f"LFS file `model.bin`: .*{why}"):
        made(top, tmp_path, remote(host, top) if has_remote else None)
    assert any("/lfs-object/" in path for _, path, _ in host.seen) is (sent == MODEL.upper())


def test_files_come_along_with_a_history_without_them(top: Path, tmp_path: Path, host: GitHost) -> None:
    """A checkout of depth 1 is completed without files; those of a worktree are fetched all at once."""
    base = commit(top, **{f"{number}.py": str(number) for number in range(50)})
    commit(top, **{"1.py": "other"})
    where = tmp_path / "work" / "shallow"
    access = remote(host, top)
    git(top, "clone", "--quiet", "--depth=1", top.as_uri(), str(where))
    host.seen.clear()
    tree = made(where, tmp_path, access, base)
    assert (tree.directory / "1.py").read_text() == "1"
    assert len(host.seen) < 12
    assert git(tree.directory, "rev-parse", "HEAD") == base
