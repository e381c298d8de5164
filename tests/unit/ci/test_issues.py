"""Opening, updating and closing the issue about a loss, against a GitHub on localhost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agent_eval.gate.drift_cause import KnownLoss

from agent_eval.ci.issues import IssueMarker, WrittenIssue, explain, find_issue, write_issue
from agent_eval.ci.platforms.github.issues import RepositoryIssues
from agent_eval.errors import RemoteError
from agent_eval.gate.drift import Counted
from tests.fakes.contract import Contract
from tests.fakes.github import BOT, FakeGitHub
from tests.unit.ci.test_comment import api

LOST = {"shop": KnownLoss()}
LOSS = KnownLoss(Counted(3, 6), Counted(5, 7), tested_at=4, cause="model", cases="9be1f04c")


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract("github")


@pytest.fixture
def github(contract: Contract) -> Iterator[FakeGitHub]:
    with FakeGitHub(contract) as server:
        yield server
    assert server.violations == []


class Night:
    """Writes the issue of night after night, as a job does."""

    def __init__(self, github: FakeGitHub, comment_id: str = "default", author: str = "") -> None:
        self.github, self.comment_id, self.author = github, comment_id, author
        self.run = 500

    def __call__(self, up: dict[str, KnownLoss], *, run: int = 0, attempt: int = 1) -> WrittenIssue:
        self.run += 1
        issues = RepositoryIssues(api(self.github), self.author)
        marker = IssueMarker(self.comment_id, run or self.run, attempt, up)
        known = find_issue(issues, marker)
        body = f"night {self.run}"
        return write_issue(issues, marker, known, title="Lost", body=lambda first: f"{first}\n\n{body}")


@pytest.fixture
def night(github: FakeGitHub) -> Night:
    return Night(github)


def states(github: FakeGitHub) -> list[str]:
    return [github.issues[number]["state"] for number in sorted(github.issues)]


def only(github: FakeGitHub) -> dict[str, Any]:
    [issue] = github.issues.values()
    return issue


def test_a_loss_opens_one_issue_which_is_edited_and_closed_as_done(github: FakeGitHub, night: Night) -> None:
    done = [night(up).action for up in ({}, LOST, LOST, LOST, {}, {})]
    assert done == ["none", "opened", "updated", "updated", "closed", "none"]
    issue = only(github)
    assert (issue["state"], issue["state_reason"], issue["title"]) == ("closed", "completed", "Lost")
    assert issue["body"].endswith("night 505")
    assert (github.count("POST", "/issues"), github.count("PATCH", "/issues")) == (1, 3)


def test_the_next_loss_opens_a_new_one(github: FakeGitHub, night: Night) -> None:
    for up in (LOST, {}, LOST, LOST):
        night(up)
    assert states(github) == ["closed", "open"]


def test_a_title_that_a_person_wrote_stays(github: FakeGitHub, night: Night) -> None:
    night(LOST)
    only(github)["title"] = "Refunds are broken"
    night(LOST)
    night({})
    assert only(github)["title"] == "Refunds are broken"


def test_an_issue_of_another_account_with_our_marker_is_not_ours(github: FakeGitHub, night: Night) -> None:
    forged = str(IssueMarker("default", 1, 1, LOST))
    number = github.add_issue(forged, author="mallory")
    assert [night(LOST).action, night({}).action] == ["opened", "closed"]
    assert (github.issues[number]["state"], github.issues[number]["body"]) == ("open", forged)


def test_a_platform_that_lists_issues_of_others_is_not_believed(github: FakeGitHub, night: Night) -> None:
    """As a server that ignores the parameter `creator`."""
    github.add_issue(str(IssueMarker("default", 1, 1, LOST)), author="mallory")
    issues = RepositoryIssues(api(github), "")
    everything = [*issues.listed("mallory", is_open=True)]
    issues.listed = lambda author, *, is_open: everything if is_open else []  # type: ignore[method-assign]
    assert find_issue(issues, IssueMarker("default", 2, 1)).issue is None


def test_other_issues_of_our_account_are_left_alone(github: FakeGitHub, night: Night) -> None:
    marker = str(IssueMarker("default", 1, 1, LOST))
    link = {"url": "x", "html_url": "x", "diff_url": "x", "patch_url": "x"}
    left = {
        github.add_issue(marker.replace("id=default", "id=other")): "another evaluation",
        github.add_issue(marker, pull_request=link): "a pull request",
        github.add_issue(f"Look at\n{marker}"): "a marker that is not at the top",
    }
    before = {number: dict(github.issues[number]) for number in left}
    assert [night(LOST).action, night({}).action] == ["opened", "closed"]
    assert {number: github.issues[number] for number in left} == before


def test_two_evaluations_have_an_issue_each(github: FakeGitHub) -> None:
    first, second = Night(github), Night(github, "nightly")
    assert [first(LOST).action, second(LOST).action, first({}).action] == ["opened", "opened", "closed"]
    assert states(github) == ["closed", "open"]


def test_it_is_found_behind_hundreds_of_others(github: FakeGitHub, night: Night) -> None:
    night(LOST)
    for number in range(250):
        github.add_issue(f"note {number}")
    assert night(LOST).action == "updated"


def test_what_a_person_closed_stays_closed_until_the_loss_is_mended(github: FakeGitHub, night: Night) -> None:
    night(LOST)
    only(github)["state"] = "closed"
    assert [night(LOST).action, night(LOST).action] == ["kept", "kept"]
    assert only(github)["state"] == "closed"
    night({})
    assert night(LOST).action == "opened"
    assert states(github) == ["closed", "open"]


def test_what_a_person_opened_again_is_left_to_that_person(github: FakeGitHub, night: Night) -> None:
    night(LOST)
    night({})
    only(github).update(state="open", body=f"{only(github)['body']}\n\nNot so fast.")
    assert night({}).action == "kept"
    assert only(github)["body"].endswith("Not so fast.")
    assert night(LOST).action == "updated"


def test_an_issue_whose_marker_was_edited_is_still_ours(github: FakeGitHub, night: Night) -> None:
    night(LOST)
    only(github)["body"] = only(github)["body"].replace(" run=", " ran=")
    known = find_issue(RepositoryIssues(api(github), ""), IssueMarker("default", 600, 1))
    assert known.loss_of("shop") == known.loss_of("another") == KnownLoss()
    assert night({}).action == "closed"


def test_an_older_run_that_is_repeated_does_not_overwrite_a_newer_one(
    github: FakeGitHub, night: Night
) -> None:
    night(LOST)
    newest = night(LOST), only(github)["body"]
    late = night({}, run=501, attempt=2)
    assert (late.action, late.url) == ("kept", newest[0].url)
    assert "newer run" in late.warning
    assert only(github)["body"] == newest[1]


def test_of_two_runs_at_once_the_older_issue_stays(github: FakeGitHub, night: Night) -> None:
    other = str(IssueMarker("default", 400, 1, LOST))
    github.on_create = lambda: github.add_issue(other) and None  # type: ignore[func-returns-value]
    assert night(LOST).action == "updated"
    assert states(github) == ["open", "closed"]
    assert github.issues[1001]["state_reason"] == "not_planned"
    assert night({}).action == "closed"
    # What stood in for another is no loss that is still to be mended.
    assert night({}).action == "none"
    assert night(LOST).action == "opened"


def test_a_duplicate_does_not_hide_that_a_person_closed_the_issue(github: FakeGitHub, night: Night) -> None:
    other = str(IssueMarker("default", 400, 1, LOST))
    github.on_create = lambda: github.add_issue(other) and None  # type: ignore[func-returns-value]
    night(LOST)
    night(LOST)
    github.issues[1000]["state"] = "closed"
    assert night(LOST).action == "kept"
    assert states(github) == ["closed", "closed"]


def test_an_answer_that_was_lost_opens_no_second_issue(github: FakeGitHub, night: Night) -> None:
    github.fail("POST", "/issues$", 502, carried_out=True)
    assert night(LOST) == WrittenIssue("opened", "https://github.com/acme/shop/issues/1000")
    assert states(github) == ["open"]


def test_a_request_that_was_not_carried_out_is_made_again(github: FakeGitHub, night: Night) -> None:
    github.fail("POST", "/issues$", 502)
    assert night(LOST).action == "opened"
    assert states(github) == ["open"]


def test_the_usual_bot_is_the_author_where_the_token_cannot_say_it(github: FakeGitHub, night: Night) -> None:
    github.viewer = None
    assert [night(LOST).action, night(LOST).action] == ["opened", "updated"]
    assert only(github)["user"]["login"] == BOT


def test_a_named_author_is_asked_for(github: FakeGitHub) -> None:
    github.viewer = "our-app[bot]"
    night = Night(github, author="our-app[bot]")
    assert [night(LOST).action, night(LOST).action] == ["opened", "updated"]
    assert github.count("POST", "/graphql") == 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"status": 403}, "grant the scheduled job `issues: write`"),
        ({"status": 404}, "grant the scheduled job `issues: write`"),
        ({"status": 410}, "issues are switched off in this repository"),
        ({"status": 401}, "wrong or expired"),
        ({"status": 429, "headers": {"retry-after": "7200"}}, "limits requests"),
        ({"status": 422, "message": "Validation Failed"}, "Validation Failed"),
    ],
)
def test_a_refusal_says_what_to_grant(
    github: FakeGitHub, night: Night, fault: dict[str, Any], said: str
) -> None:
    github.fail("POST", "/issues$", times=9, **fault)
    written = night(LOST)
    assert (written.action, written.url) == ("refused", "")
    assert said in written.warning
    assert ("issues: write" in written.warning) == (fault["status"] in (403, 404))


def test_a_missing_permission_to_read_is_named(github: FakeGitHub, night: Night) -> None:
    github.permissions.discard("issues: write")
    with pytest.raises(RemoteError) as caught:
        night(LOST)
    refused = RepositoryIssues(api(github), "").refused
    assert "grant the scheduled job `issues: write`" in explain(caught.value, refused)


@pytest.mark.parametrize(
    ("body", "up"),
    [
        ("up=shop:3/6:5/7:4:model:9be1f04c -->\nx", {"shop": LOSS}),
        ("up=shop:3/6 -->\nx", {"shop": KnownLoss(Counted(3, 6))}),
        ("up= -->\nx", {}),
        ("up=shop:9/6,b:1/1 -->", {"b": KnownLoss(Counted(1, 1))}),
        ("up=shop:3/6:8/7:4:model:9be1f04c,b:1/1 -->", {"b": KnownLoss(Counted(1, 1))}),
        ("up=shop:3/6:5/7:4:somebody:9be1f04c,b:1/1 -->", {"b": KnownLoss(Counted(1, 1))}),
    ],
)
def test_a_marker_is_read_and_what_cannot_be_a_count_is_dropped(body: str, up: dict[str, KnownLoss]) -> None:
    read = IssueMarker("default", 9, 1).read(f"<!-- agent-eval-drift id=default run=1 attempt=1 {body}")
    assert read == IssueMarker("default", 1, 1, up)


def test_what_a_marker_keeps_of_a_loss_is_read_again() -> None:
    marker = IssueMarker("default", 17, 2, {"shop": LOSS, "a.b-c": KnownLoss()})
    assert marker.read(f"{marker}\n\nbody") == marker


def test_a_marker_of_another_evaluation_is_none_of_ours() -> None:
    mine = IssueMarker("default", 1, 1, LOST)
    assert IssueMarker("other", 1, 1).read(str(mine)) is None
    assert IssueMarker("defaul", 1, 1).read(str(mine)) is None
    assert mine.read(str(mine)) == mine
