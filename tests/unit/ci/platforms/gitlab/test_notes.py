"""No line of a note is a quick action to GitLab, whatever an agent wrote and wherever it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.ci.platforms.gitlab import MergeRequestNotes, without_quick_actions
from agent_eval.ci.platforms.rest import Connector
from agent_eval.errors import RemoteError
from agent_eval.text.escape import code_span, fence, plain, prose
from tests.e2e.runner import order
from tests.fakes.gitlab import PROJECT, TOKEN, FakeGitLab
from tests.unit.ci.platforms.gitlab.runner import GitLabRunner

ACTIONS = (
    "/merge",
    "/approve",
    "/close",
    "/assign @all",
    "/label ~security",
    "/merge\n```\n/merge\n```",
    "```\n/merge",
    "````\n/merge\n````",
    "~~~\n/merge\n~~~",
    " /merge",
    "\t/merge",
    "\u00a0/merge",
    "\r/merge",
    "\r\n/merge\r\n",
    "x\u2028/merge",
    "x\x0b/merge",
    "<!--\n/merge\n-->",
    "`\n/merge\n`",
    "<pre>\n/merge\n</pre>",
    "> /merge",
)
SETTINGS = {"text": str, "code": code_span, "block": fence, "name": plain, "sentence": prose}


@pytest.fixture
def notes(gitlab: FakeGitLab) -> MergeRequestNotes:
    api = Connector().open(gitlab.url, {"PRIVATE-TOKEN": TOKEN}, name="GitLab", field="gitlab-api-url")
    return MergeRequestNotes(api, PROJECT, 7, "")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_quick_action__ends_as_text(
    notes: MergeRequestNotes, gitlab: FakeGitLab, action: str, setting: str
) -> None:
    written = notes.create(f"# Report\n\n{SETTINGS[setting](action)}\n\nend")
    notes.update(written.id, f"{SETTINGS[setting](action)}\n{fence(action)}\n{action}")
    assert gitlab.obeyed == []
    assert len(gitlab.notes) == 1


def test_quick_action__that_is_not_rewritten_would_be_obeyed(
    notes: MergeRequestNotes, gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.platforms.gitlab.without_quick_actions", str)
    with pytest.raises(RemoteError, match="quick action"):
        notes.create(fence("```\n/merge\n```"))
    number = gitlab.add_note("before")
    with pytest.raises(RemoteError, match="quick action"):
        notes.update(number, "text\n/close")
    assert gitlab.obeyed == ["/merge", "/close"]
    assert gitlab.notes == {}


@given(st.text(alphabet="/`~ \n\r\tam<>!-", max_size=60))
def test_no_line__begins_with_a_slash(text: str) -> None:
    assert not any(line.lstrip().startswith("/") for line in without_quick_actions(text).splitlines())


def test_text_without_slashes__stays_as_it_is() -> None:
    text = "# Report\n\n- a/b\n\n```text\nx\n```\nhttps://example.org/x\n"
    assert without_quick_actions(text) == text


def test_agents_answer__of_quick_actions_in_the_whole_job(runner: GitLabRunner, gitlab: FakeGitLab) -> None:
    answer = "\n".join(ACTIONS)
    good = [order(number, output=answer) for number in range(1, 5)]
    runner.write_suite(*good)
    runner.push(400)
    runner.write_suite(*good[:3], order(4, escalates=True, output=answer))
    assert runner.merge_request().code == 1
    assert gitlab.obeyed == []
    assert len(gitlab.bodies()) == 1
