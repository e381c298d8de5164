"""Outside CI everything is printed, and nothing is known of earlier runs or of a base branch."""

from __future__ import annotations

import io

import pytest

from agent_eval.ci.baseline import NoHistory
from agent_eval.ci.config import gather, settings_from
from agent_eval.ci.platforms.local import Local


@pytest.fixture
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def local(printed: io.StringIO) -> Local:
    return Local(settings_from(gather({"suite": "s.json"}, {}, None)), {}, printed)


def test_prose_is_printed_without_what_a_terminal_obeys(local: Local, printed: io.StringIO) -> None:
    local.say("one\x1b[2J\ntwo")
    local.warn("mind this")
    local.fail("no")
    assert printed.getvalue() == "one[2J\ntwo\nWarning: mind this\nError: no\n"


def test_the_comment_is_printed_instead_of_posted(local: Local, printed: io.StringIO) -> None:
    assert local.publish(lambda marker: f"{marker}\nbody").action == "none"
    assert "<!-- agent-eval id=default run=0 attempt=0 -->\nbody" in printed.getvalue()


def test_there_is_nothing_before_and_nothing_after(local: Local, printed: io.StringIO) -> None:
    with pytest.raises(NoHistory, match="--baseline"):
        local.candidates([])
    assert local.base_file("policy.yml") is None
    assert local.context.run_url is None
    local.write_summary("x")
    local.write_outputs({"outcome": "passed"})
    assert printed.getvalue() == ""
