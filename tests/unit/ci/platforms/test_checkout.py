"""A git checkout, read where git is there and where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci.platforms.checkout import MAX_FILE_BYTES, Checkout
from agent_eval.errors import RemoteError
from tests.unit.ci.platforms.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "checkout")


def test_the_top_is_found_from_below(repository: Repository) -> None:
    below = repository.top / "a" / "b"
    below.mkdir(parents=True)
    assert Checkout(below, repository.environ).top == repository.top


def test_branch_and_base_are_those_of_git(repository: Repository) -> None:
    base = repository.commit()
    repository.branch("topic/new", base)
    repository.commit()
    checkout = Checkout(repository.top, repository.environ)
    assert (checkout.branch, checkout.default_branch) == ("topic/new", "main")
    assert checkout.merge_base("main") == base
    assert checkout.merge_base("no-such-branch") is None
    assert checkout.commit == repository.git("rev-parse", "HEAD")


def test_the_default_branch_is_that_of_the_origin(repository: Repository) -> None:
    head = repository.commit()
    repository.git("update-ref", "refs/remotes/origin/trunk", head)
    repository.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    checkout = Checkout(repository.top, repository.environ)
    assert checkout.default_branch == "trunk"
    assert checkout.merge_base("trunk") == head


def test_without_git_only_the_commit_is_known(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    checkout = Checkout(repository.top, {"PATH": str(tmp_path / "empty")})
    assert (checkout.branch, checkout.merge_base("main"), checkout.default_branch) == (None, None, "main")
    assert checkout.commit == repository.git("rev-parse", "HEAD")


def test_outside_a_repository_nothing_is_known(tmp_path: Path, repository: Repository) -> None:
    checkout = Checkout(tmp_path, repository.environ)
    assert (checkout.top, checkout.branch, checkout.commit) == (tmp_path, None, None)
    assert checkout.default_branch is None


def test_a_file_is_read_as_of_the_commit(repository: Repository) -> None:
    before = repository.commit()
    (repository.top / "README").write_text("changed\n")
    odd = ":(glob)*ü\n.txt"
    (repository.top / odd).write_text("odd")
    after = repository.commit()
    checkout = Checkout(repository.top, repository.environ)
    assert (checkout.file("README", before), checkout.file("README", after)) == (b"shop\n", b"changed\n")
    assert (checkout.file(odd, before), checkout.file(odd, after)) == (None, b"odd")


def test_a_commit_that_is_not_there_and_a_file_that_is_too_large_are_errors(repository: Repository) -> None:
    (repository.top / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    head = repository.commit()
    checkout = Checkout(repository.top, repository.environ)
    with pytest.raises(RemoteError, match="1 MiB"):
        checkout.file("large", head)
    with pytest.raises(RemoteError, match="cannot read"):
        checkout.file("README", "0" * 40)
