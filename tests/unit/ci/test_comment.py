"""One comment per evaluation and change, and the marker by which it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.ci.comment import Marker, Published, job_of, of_pipeline, publish
from agent_eval.ci.platforms.github import GITHUB
from agent_eval.ci.platforms.github_api import PullRequestComments, connected
from agent_eval.ci.rest import Connector
from agent_eval.http.retry import Patience
from tests.fakes.github import BOT, REPOSITORY, TOKEN, FakeGitHub, sha

PULL = 7
OLD, NEW = sha("old"), sha("new")


def ours(run: int = 1, text: str = "old") -> str:
    return f"{Marker('default', NEW, run, 1)}\n{text}"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.add_pull(PULL, NEW)
        yield server


def comments_of(github: FakeGitHub, author: str = "") -> PullRequestComments:
    connect = Connector(lambda _: None, Patience(attempts=2))
    return PullRequestComments(connected(connect, github.url, TOKEN), REPOSITORY, PULL, author)


def say(
    github: FakeGitHub, text: str, *, author: str = "", fork: bool = False, **fields: object
) -> Published:
    """Publish a comment of an evaluation; the fields are those of its marker."""
    marker = Marker(**{"comment_id": "default", "sha": NEW, "run_id": 500, "attempt": 1, **fields})  # type: ignore[arg-type]
    refused = GITHUB.remedies.write_from_fork if fork else GITHUB.remedies.write_comment
    comments, body = comments_of(github, author), f"{marker}\n{text}"
    words = {"change": GITHUB.words.change, "full_report": GITHUB.words.full_report, "refused": refused}
    return publish(comments, marker, body, **words)


def lines(github: FakeGitHub) -> list[str]:
    return [body.splitlines()[1] for body in github.bodies(PULL)]


RUNS: dict[str, tuple[dict[str, object], dict[str, object], str]] = {
    "second run": ({}, {"run_id": 501}, "updated"),
    "second attempt": ({}, {"attempt": 2}, "updated"),
    "older run": ({"run_id": 501}, {"attempt": 9}, "kept"),
    "older run of an older commit": ({"run_id": 501}, {"sha": OLD, "attempt": 9}, "kept"),
    "late run of an older commit": ({}, {"sha": OLD, "run_id": 501}, "kept"),
    "newer commit": ({"sha": OLD}, {"run_id": 501}, "updated"),
}


@pytest.mark.parametrize("what", RUNS)
def test_there_is_one_comment_which_says_the_newest_of_the_present_commit(
    github: FakeGitHub, what: str
) -> None:
    first, second, action = RUNS[what]
    assert say(github, "one", **first).action == "created"
    published = say(github, "two", **second)
    assert (published.action, lines(github)) == (action, ["two" if action == "updated" else "one"])
    assert published.url.endswith("#issuecomment-100")


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
        return say(github, f"\n## {sign} so it ended", run_id=run, of=of_pipeline(77, job))

    write("❌", 900, "large")
    beside = write("✅", 901, "small")
    assert "## ❌" in github.bodies(PULL)[0]
    assert (beside.action, "Another job" in beside.warning) == ("kept", True)
    again = write("✅", 902, "large")
    assert "## ✅" in github.bodies(PULL)[0]
    assert (again.action, again.warning) == ("updated", "")
    assert of_pipeline(None, "small") is of_pipeline(77, "") is None


def test_several_evaluations__have_a_comment_each(github: FakeGitHub) -> None:
    for text, name in (("a", "tools"), ("b", "tools-2"), ("c", "tools")):
        say(github, text, comment_id=name)
    assert lines(github) == ["c", "b"]


@pytest.mark.parametrize(
    ("body", "author", "action"),
    [
        (ours(999, "all good!"), "mallory", "created"),
        (f"quoted:\n{ours(999)}", BOT, "created"),
        ("<!-- agent-eval id=default of a version to come -->", BOT, "updated"),
    ],
    ids=["of another author", "further down", "only begins like ours, which counts as the oldest"],
)
def test_marker__is_ours_at_the_top_of_a_comment_of_ours(
    github: FakeGitHub, body: str, author: str, action: str
) -> None:
    github.add_comment(PULL, body, author=author)
    assert say(github, "the truth").action == action
    assert len(github.bodies(PULL)) == (2 if action == "created" else 1)


EVALUATION = job_of("acme/shop/.github/workflows/evaluation.yml", "evaluate")


def test_job__whose_inputs_changed_leaves_no_comment_that_looks_current(github: FakeGitHub) -> None:
    say(github, "\n## ✅ all pass", sha=OLD, run_id=500, comment_id="old-inputs", job=EVALUATION)
    nightly = job_of("nightly.yml", "evaluate")
    say(github, "of another job", sha=OLD, run_id=500, comment_id="nightly", job=nightly)
    published = say(github, "\n## ❌ 2 regressed", run_id=501, comment_id="new-inputs", job=EVALUATION)
    before, other, now = github.bodies(PULL)
    assert "## ⌛ Outdated" in before
    assert published.url in before
    assert "all pass" not in before
    assert "of another job" in other
    assert "2 regressed" in now
    github.add_pull(PULL, sha("newer"))
    writes = github.count("PATCH", "issues/comments")
    say(github, "\n## ❌ 2 regressed", run_id=502, sha=sha("newer"), comment_id="new-inputs", job=EVALUATION)
    assert github.count("PATCH", "issues/comments") == writes + 1  # its own, and nothing twice


def test_jobs_of_a_matrix__each_bring_their_comment_up_to_date(github: FakeGitHub) -> None:
    legs = ("small", "large")
    for run, commit in ((500, OLD), (501, NEW)):
        for leg in legs:
            say(github, f"{leg} of {run}", sha=commit, run_id=run, comment_id=leg, job=EVALUATION)
    assert lines(github) == ["small of 501", "large of 501"]
    say(github, "small again", attempt=2, run_id=501, comment_id="small", job=EVALUATION)
    say(github, "late", sha=OLD, run_id=500, comment_id="third", job=EVALUATION)
    assert lines(github) == ["small again", "large of 501", "late"]


def test_pages__all_are_searched_and_the_oldest_of_ours_is_kept_up_to_date(github: FakeGitHub) -> None:
    for _ in range(250):
        github.add_comment(PULL, "chatter", author="someone")
    first = github.add_comment(PULL, ours(1), author=BOT)
    github.add_comment(PULL, ours(2), author=BOT)
    assert say(github, "new").action == "updated"
    assert github.comments[first][1]["body"].endswith("new")


def test_race__two_first_comments_become_one(github: FakeGitHub) -> None:
    github.on_create = lambda: github.add_comment(PULL, ours(499, "faster"), author=BOT) and None  # type: ignore[func-returns-value]
    assert say(github, "slower, but newer").action == "updated"
    assert lines(github) == ["slower, but newer"]


@pytest.mark.parametrize(
    ("failure", "action", "requests"),
    [({"carried_out": True}, "updated", 1), ({}, "created", 2), ({"times": 99}, "refused", 3)],
    ids=["written after all", "not written", "three times is enough"],
)
def test_uncertain__a_comment_is_written_once(
    github: FakeGitHub, failure: dict[str, object], action: str, requests: int
) -> None:
    github.fail("POST", "/comments$", 502, **failure)  # type: ignore[arg-type]
    assert say(github, "once").action == action
    assert len(github.bodies(PULL)) == (action != "refused")
    assert github.count("POST", "/comments$") == requests


@pytest.mark.parametrize("viewer", ["acme-user", None], ids=["a person", "a job's own token"])
def test_author__is_asked_and_else_the_usual_bot(github: FakeGitHub, viewer: str | None) -> None:
    github.viewer = viewer
    github.add_comment(PULL, ours(), author=viewer or BOT)
    assert say(github, "new").action == "updated"


def test_author__that_a_limit_withholds_is_not_taken_for_the_usual_bot(github: FakeGitHub) -> None:
    """Or a second comment would be written beside the one under the token's own login."""
    github.fail("GET", "/user", 403, headers={"Retry-After": "600"}, message="secondary rate limit")
    published = say(github, "new")
    assert published.action == "refused"
    assert "limits requests" in published.warning
    assert github.count("POST", "/comments$") == 0


def test_author__that_was_another_than_thought_is_named_in_a_warning(github: FakeGitHub) -> None:
    assert say(github, "new", author="somebody") == Published(
        "created",
        "https://github.com/acme/shop/pull/7#issuecomment-100",
        f'Set `ci.comment_author: "{BOT}"`: it wrote the comment, which the next job would not find else.',
    )


def test_author__can_be_given(github: FakeGitHub) -> None:
    github.viewer = None
    github.add_comment(PULL, ours(), author="Acme-Bot")
    assert say(github, "new", author="acme-bot").action == "updated"
    assert github.count("GET", "/user") == 0


@pytest.mark.parametrize(
    ("status", "fork", "said"),
    [
        (403, False, "grant the job `pull-requests: write`"),
        (404, False, "grant the job `pull-requests: write`"),
        (403, True, "from a fork"),
        *((status, False, "No comment was written: ") for status in (410, 422, 500)),
    ],
)
def test_refusal__is_a_warning_with_a_remedy(github: FakeGitHub, status: int, fork: bool, said: str) -> None:
    github.add_comment(PULL, ours(), author=BOT)
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
