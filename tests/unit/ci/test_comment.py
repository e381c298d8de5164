"""One comment per evaluation and change, and the marker by which it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.ci.comment import Marker, Published, job_of, of_pipeline, publish
from agent_eval.ci.platforms.base import comment_words
from agent_eval.ci.platforms.github import GITHUB
from agent_eval.ci.platforms.github_api import PullRequestComments, connected
from agent_eval.ci.platforms.rest import Connector
from agent_eval.http.retry import Patience
from tests.fakes.github import BOT, REPOSITORY, TOKEN, FakeGitHub, sha

PULL = 7
OLD, NEW = sha("old"), sha("new")


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.add_pull(PULL, NEW)
        yield server


def comments_of(github: FakeGitHub, author: str = "") -> PullRequestComments:
    connect = Connector(lambda _: None, Patience(attempts=2))
    return PullRequestComments(connected(connect, github.url, TOKEN), REPOSITORY, PULL, author, github.url)


def say(
    github: FakeGitHub,
    text: str,
    *,
    sha: str = NEW,
    run: int = 500,
    attempt: int = 1,
    comment_id: str = "default",
    author: str = "",
    fork: bool = False,
    job: str | None = None,
) -> Published:
    marker = Marker(comment_id, sha, run, attempt, job=job)
    return publish(
        comments_of(github, author), marker, f"{marker}\n{text}", words=comment_words(GITHUB, from_fork=fork)
    )


def test_first__creates_one(github: FakeGitHub) -> None:
    published = say(github, "hello")
    assert published.action == "created"
    assert published.url.endswith("#issuecomment-100")
    assert github.bodies(PULL) == [f"{Marker('default', NEW, 500, 1)}\nhello"]


def test_second__updates_the_first(github: FakeGitHub) -> None:
    say(github, "one", run=500)
    published = say(github, "two", run=501)
    assert published.action == "updated"
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["two"]


def test_second_attempt__of_the_same_run_updates(github: FakeGitHub) -> None:
    say(github, "one", attempt=1)
    assert say(github, "two", attempt=2).action == "updated"


def test_older_run__never_overwrites_a_newer_one(github: FakeGitHub) -> None:
    say(github, "newer", run=501)
    published = say(github, "re-run of an older commit", sha=OLD, run=500, attempt=9)
    assert published.action == "kept"
    assert published.url.endswith("#issuecomment-100")
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["newer"]


def test_late_run__on_another_commit_does_not_replace_what_is_said_of_the_present_one(
    github: FakeGitHub,
) -> None:
    say(github, "about the head", sha=NEW, run=500)
    assert say(github, "about an older commit", sha=OLD, run=501).action == "kept"


def test_newer_commit__replaces_what_was_said_of_the_older_one(github: FakeGitHub) -> None:
    say(github, "about the older commit", sha=OLD, run=500)
    assert say(github, "about the head", sha=NEW, run=501).action == "updated"


@pytest.mark.parametrize(
    ("first", "second", "stays"), [("❌", "✅", "❌"), ("✅", "🛑", "🛑"), ("⚠️", "➖", "⚠️")]
)
def test_another_job_of_the_same_run__never_hides_a_worse_outcome(
    github: FakeGitHub, first: str, second: str, stays: str
) -> None:
    say(github, f"\n## {first} so it ended")
    published = say(github, f"\n## {second} so it ended")
    [body] = github.bodies(PULL)
    assert body.splitlines()[2] == f"## {stays} so it ended"
    assert published.action == ("kept" if stays == first else "updated")
    assert "Another job of this run has written the comment `default` as well" in published.warning
    assert "Give each job a `comment-id` of its own." in published.warning


def test_jobs_of_one_pipeline__are_told_from_a_retry_of_one_of_them(github: FakeGitHub) -> None:
    def write(sign: str, run: int, job: str) -> Published:
        marker = Marker("default", NEW, run, 1, of_pipeline(77, job))
        words = comment_words(GITHUB, from_fork=False)
        return publish(comments_of(github), marker, f"{marker}\n\n## {sign} so it ended", words=words)

    write("❌", 500, "small")
    assert write("✅", 501, "large").action == "kept"
    retried = write("✅", 502, "small")
    assert (retried.action, retried.warning) == ("updated", "")
    assert github.bodies(PULL)[0].splitlines()[2] == "## ✅ so it ended"
    assert of_pipeline(None, "small") is of_pipeline(77, "") is None


def test_several_evaluations__have_a_comment_each(github: FakeGitHub) -> None:
    say(github, "a", comment_id="tools")
    say(github, "b", comment_id="tools-2")
    say(github, "c", comment_id="tools")
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["c", "b"]


EVALUATION = job_of("acme/shop/.github/workflows/evaluation.yml", "evaluate")


def test_job__whose_inputs_changed_leaves_no_comment_that_looks_current(github: FakeGitHub) -> None:
    say(github, "\n## ✅ all pass", sha=OLD, run=500, comment_id="old-inputs", job=EVALUATION)
    say(
        github,
        "of another job",
        sha=OLD,
        run=500,
        comment_id="nightly",
        job=job_of("nightly.yml", "evaluate"),
    )
    published = say(github, "\n## ❌ 2 regressed", run=501, comment_id="new-inputs", job=EVALUATION)
    before, other, now = github.bodies(PULL)
    assert "## ⌛ Outdated" in before
    assert published.url in before
    assert "all pass" not in before
    assert "of another job" in other
    assert "2 regressed" in now
    github.add_pull(PULL, sha("newer"))
    writes = github.count("PATCH", "issues/comments")
    say(github, "\n## ❌ 2 regressed", run=502, sha=sha("newer"), comment_id="new-inputs", job=EVALUATION)
    assert github.count("PATCH", "issues/comments") == writes + 1  # its own, and nothing twice


def test_jobs_of_a_matrix__each_bring_their_comment_up_to_date(github: FakeGitHub) -> None:
    legs = ("small", "large")
    for run, commit in ((500, OLD), (501, NEW)):
        for leg in legs:
            say(github, f"{leg} of {run}", sha=commit, run=run, comment_id=leg, job=EVALUATION)
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["small of 501", "large of 501"]
    say(github, "small again", attempt=2, run=501, comment_id="small", job=EVALUATION)
    say(github, "late", sha=OLD, run=500, comment_id="third", job=EVALUATION)
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["small again", "large of 501", "late"]


def test_marker__by_another_author_is_not_ours(github: FakeGitHub) -> None:
    github.add_comment(PULL, f"{Marker('default', NEW, 999, 1)}\nall good!", author="mallory")
    assert say(github, "the truth").action == "created"
    assert len(github.bodies(PULL)) == 2


def test_marker__further_down_is_not_ours(github: FakeGitHub) -> None:
    github.add_comment(PULL, f"quoted:\n{Marker('default', NEW, 999, 1)}", author=BOT)
    assert say(github, "the truth").action == "created"


def test_marker__that_only_begins_like_ours_counts_as_the_oldest(github: FakeGitHub) -> None:
    github.add_comment(PULL, "<!-- agent-eval id=default of a version to come -->", author=BOT)
    assert say(github, "now").action == "updated"


def test_pages__all_are_searched(github: FakeGitHub) -> None:
    for _ in range(250):
        github.add_comment(PULL, "chatter", author="someone")
    ours = github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\nold", author=BOT)
    assert say(github, "new").action == "updated"
    assert github.comments[ours][1]["body"].endswith("new")


def test_duplicates__the_oldest_of_ours_is_kept_up_to_date(github: FakeGitHub) -> None:
    first = github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\na", author=BOT)
    github.add_comment(PULL, f"{Marker('default', NEW, 2, 1)}\nb", author=BOT)
    say(github, "new")
    assert github.comments[first][1]["body"].endswith("new")


def test_race__two_first_comments_become_one(github: FakeGitHub) -> None:
    def another_run_is_faster() -> None:
        github.add_comment(PULL, f"{Marker('default', NEW, 499, 1)}\nfaster", author=BOT)

    github.on_create = another_run_is_faster
    assert say(github, "slower, but newer", run=500).action == "updated"
    assert [body.splitlines()[1] for body in github.bodies(PULL)] == ["slower, but newer"]


def test_uncertain__a_comment_that_was_written_after_all_is_not_written_twice(github: FakeGitHub) -> None:
    github.fail("POST", "/comments$", 502, carried_out=True)
    assert say(github, "once").action == "updated"
    assert len(github.bodies(PULL)) == 1


def test_uncertain__a_comment_that_was_not_written_is_written_again(github: FakeGitHub) -> None:
    github.fail("POST", "/comments$", 502)
    assert say(github, "again").action == "created"


def test_uncertain__three_times_is_enough(github: FakeGitHub) -> None:
    github.fail("POST", "/comments$", 502, times=99)
    published = say(github, "never")
    assert published.action == "refused"
    assert github.count("POST", "/comments$") == 3


def test_author__is_asked_by_graphql(github: FakeGitHub) -> None:
    github.viewer = "acme-bot"
    say(github, "one")
    assert say(github, "two", run=501).action == "updated"


def test_author__is_the_usual_bot_where_github_does_not_say(github: FakeGitHub) -> None:
    github.viewer = None
    github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\nold", author=BOT)
    assert say(github, "new").action == "updated"


def test_author__is_the_usual_bot_where_graphql_fails(github: FakeGitHub) -> None:
    github.fail("POST", "/graphql", 500, times=9)
    github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\nold", author=BOT)
    assert say(github, "new").action == "updated"


@pytest.mark.parametrize("form", ["status", "error"])
def test_author__that_a_limit_withholds_is_not_taken_for_the_usual_bot(github: FakeGitHub, form: str) -> None:
    """Or a second comment would be written beside the one under the token's own login."""
    if form == "status":
        github.fail("POST", "/graphql", 403, headers={"Retry-After": "600"}, message="secondary rate limit")
    else:
        github.viewer_limited = True
    published = say(github, "new")
    assert published.action == "refused"
    assert "limits requests" in published.warning
    assert github.count("POST", "/comments$") == 0


def test_author__can_be_given(github: FakeGitHub) -> None:
    github.viewer = None
    github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\nold", author="Acme-Bot")
    assert say(github, "new", author="acme-bot").action == "updated"
    assert github.count("POST", "/graphql") == 0


@pytest.mark.parametrize(
    ("status", "fork", "said"),
    [
        (403, False, "grant the job `pull-requests: write`"),
        (404, False, "grant the job `pull-requests: write`"),
        (403, True, "from a fork"),
        (410, False, "no longer takes comments"),
        (422, False, "invalid"),
        (500, False, "could not be written"),
    ],
)
def test_refusal__is_a_warning_that_says_what_to_do(
    github: FakeGitHub, status: int, fork: bool, said: str
) -> None:
    github.add_comment(PULL, f"{Marker('default', NEW, 1, 1)}\nold", author=BOT)
    github.fail("PATCH", "/comments/", status, times=9)
    published = say(github, "new", fork=fork)
    assert published.action == "refused"
    assert said in published.warning
    assert TOKEN not in published.warning


def test_deletion__of_a_comment_that_is_gone_is_fine(github: FakeGitHub) -> None:
    github.fail("DELETE", "/comments/", 404)
    comments_of(github).delete(5)


def test_answer__that_is_not_what_github_documents_is_no_crash(github: FakeGitHub) -> None:
    github.comments[1] = (PULL, {"id": "one"})
    assert "not what GitHub documents" in say(github, "x").warning


markers = st.builds(
    Marker,
    comment_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    sha=st.none() | st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    run_id=st.integers(0, 10**18 - 1),
    attempt=st.integers(0, 10**9 - 1),
    job=st.none() | st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
)


@given(markers, st.text())
def test_marker__is_read_back_from_the_start_of_a_body(marker: Marker, rest: str) -> None:
    assert marker.read(f"{marker}\n{rest}") == Marker.of_any(str(marker)) == marker
    assert marker.read(f" {marker}") is None


@given(markers, markers)
def test_marker__of_another_evaluation_is_not_read(one: Marker, other: Marker) -> None:
    expected = other if one.comment_id == other.comment_id else None
    assert one.read(str(other)) == expected
