"""Where a job stands: decided by the graph of commits, whatever event, branch or tag is called."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_eval.ci.clone import CommitUnknown, PrivateClone, Remote
from agent_eval.ci.place import JobPlace, Refs, TipUnknown, find_place
from tests.fakes.git_host import commit, git


@dataclass
class Repository:
    """A server with main (two commits), and a checkout of it."""

    top: Path
    server: Path
    first: str
    second: str

    def stand(self, refs: Refs | None = None, *listed: str, **fields: str) -> JobPlace:
        refs = refs or Refs(default_branch="main", remote=Remote(str(self.server)), **fields)
        with closing(PrivateClone.of(self.top, os.environ, refs.remote)) as clone:
            return find_place(refs, clone, lambda _: None, lambda _: listed)

    def push(self, *refs: str) -> None:
        git(self.top, "push", "--quiet", "--force", str(self.server), *refs)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    top, server = tmp_path / "checkout", tmp_path / "server.git"
    first = commit(top, **{"agent.py": "1"})
    second = commit(top, **{"agent.py": "2"})
    git(tmp_path, "init", "--quiet", "--bare", str(server))
    made = Repository(top, server, first, second)
    made.push("HEAD:refs/heads/main")
    git(server, "symbolic-ref", "HEAD", "refs/heads/main")
    return made


def test_a_commit_at_or_below_the_tip_is_reviewed_whatever_started_the_job(repository: Repository) -> None:
    place = repository.stand(branch="main")
    assert (place.head, place.tip, place.base) == (repository.second,) * 3
    assert (place.is_reviewed, place.notice) == (True, None)
    git(repository.top, "checkout", "--quiet", "--detach", repository.first)
    for name in ("branch", "tag"):
        place = repository.stand(**{name: "anything"})
        assert (place.is_reviewed, place.base, place.tip) == (True, repository.first, repository.second)
        assert place.notice is None


def test_a_branch_that_is_no_trusted_one_is_held_to_main_without_a_word(repository: Repository) -> None:
    commit(repository.top, **{"agent.py": "change"})
    for refs in ({"branch": "topic"}, {}):
        place = repository.stand(**refs)
        assert (place.is_reviewed, place.trusted_branch, place.notice) == (False, "main", None)


def test_a_listed_branch_is_trusted_and_has_its_own_tip(repository: Repository) -> None:
    git(repository.top, "checkout", "--quiet", "--detach", repository.first)
    release = commit(repository.top, **{"agent.py": "backport"})
    repository.push(f"{release}:refs/heads/release/1.x")
    place = repository.stand(None, "release/1.x", branch="release/1.x")
    assert (place.is_reviewed, place.trusted_branch, place.tip) == (True, "release/1.x", release)
    assert place.branches == ("main", "release/1.x")
    commit(repository.top, **{"agent.py": "change"})
    place = repository.stand(None, "release/1.x", target="release/1.x")
    assert (place.is_reviewed, place.base) == (False, release)
    assert place.default_tip == repository.second
    # The same branch, unlisted.
    place = repository.stand(target="release/1.x")
    assert (place.trusted_branch, place.base) == ("main", repository.first)


def test_a_commit_of_another_trusted_branch_is_reviewed(repository: Repository) -> None:
    release = commit(repository.top, **{"agent.py": "backport"})
    repository.push(f"{release}:refs/heads/release/1.x")
    place = repository.stand(None, "gone", "release/1.x", tag="v1.4")
    assert (place.is_reviewed, place.trusted_branch, place.base) == (True, "release/1.x", release)


def test_a_merge_queue_puts_its_change_on_a_commit_of_its_own(repository: Repository) -> None:
    ahead = commit(repository.top, **{"other.py": "an entry ahead"})
    commit(repository.top, **{"agent.py": "change"})
    assert repository.stand(target="main", queue_base=ahead).base == ahead
    # A commit that is not below what is checked out is none of this change's.
    git(repository.top, "checkout", "--quiet", "--detach", repository.second)
    commit(repository.top, **{"agent.py": "another change"})
    assert repository.stand(target="main", queue_base=ahead).base == repository.second


def test_the_server_says_which_branch_is_the_default_one(repository: Repository) -> None:
    place = repository.stand(Refs(remote=Remote(str(repository.server))))
    assert place.default_branch == "main"
    repository.push("HEAD:refs/heads/trunk")
    git(repository.server, "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert repository.stand(Refs(remote=Remote(str(repository.server)))).default_branch == "trunk"


def test_the_platform_is_asked_before_the_server(repository: Repository) -> None:
    refs = Refs(default_branch="main", remote=Remote(str(repository.server)))
    with closing(PrivateClone.of(repository.top, os.environ, refs.remote)) as clone:
        asked: list[str] = []

        def tip(branch: str) -> str:
            asked.append(branch)
            return repository.first

        place = find_place(refs, clone, tip, lambda _: [])
    assert (place.tip, asked, place.is_reviewed) == (repository.first, ["main"], False)


@pytest.mark.parametrize(
    "refs",
    [
        Refs(default_branch="main"),
        Refs(default_branch="nowhere", remote=Remote("/nowhere")),
        Refs(remote=Remote("/nowhere")),
        Refs(),
    ],
    ids=str,
)
def test_a_tip_that_is_not_known_is_an_error(repository: Repository, refs: Refs) -> None:
    with pytest.raises((CommitUnknown, TipUnknown)) as caught:
        repository.stand(refs)
    assert caught.value.exit_code == 4


def test_unrelated_histories_have_no_base(repository: Repository) -> None:
    git(repository.top, "checkout", "--quiet", "--orphan", "other")
    commit(repository.top, **{"agent.py": "other"})
    with pytest.raises(CommitUnknown, match="The base commit is not known"):
        repository.stand(target="main")
