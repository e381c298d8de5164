"""A journal beside a pack is gone on with by the run that began it, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidInput, StorageError, UsageError
from agent_eval.operations.resume import discard_journal, journal_path, open_journal
from agent_eval.storage.journal import Journal
from tests.factories import make_config


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "now"


def begin(out: Path, **config: Any) -> None:
    journal, _ = open_journal(out, make_config(**config), resume=False, run_id=None)
    journal.close()


def go_on(out: Path, run_id: str | None = None, **config: Any) -> Any:
    journal, found = open_journal(out, make_config(**config), resume=True, run_id=run_id)
    journal.close()
    return found


def test_going_on_keeps_name_and_start_of_the_first_time_by_the_journal_beside_the_pack(out: Path) -> None:
    begun = go_on(out, run_id="first", started_at="2026-01-01T00:00:00+00:00")
    assert [path.name for path in out.parent.iterdir()] == ["now.journal"]
    found = go_on(out, started_at="2026-02-02T00:00:00+00:00")
    assert (found.run_id, found.started_at) == (begun.run_id, "2026-01-01T00:00:00+00:00")


def test_another_run_is_refused_and_every_difference_told(out: Path) -> None:
    agent = {"agent": "command", "timeout": 30}
    begin(out, seed=1, model="small", execution_config={"agent": agent, "tool_server": "x"})
    with pytest.raises(UsageError, match="cannot resume") as caught:
        go_on(
            out, seed=2, model="small", execution_config={"agent": {**agent, "timeout": 60}, "redactions": 3}
        )
    assert caught.value.details["differences"] == [
        "execution_config.agent.timeout was 30, now 60",
        "execution_config.tool_server was 'x', now None",
        "seed was 1, now 2",
    ]
    same = {"agent": agent, "tool_server": "x", "redacted_cases": 1}
    assert go_on(out, seed=1, model="small", execution_config=same, git_dirty=True)


def test_a_name_that_is_asked_for_must_be_the_first_one(out: Path) -> None:
    begin(out, run_id="first")
    assert go_on(out, run_id="first").run_id == "first"
    with pytest.raises(UsageError, match="run_id was 'first', now 'other'"):
        go_on(out, run_id="other")


def test_many_and_long_differences_are_cut(out: Path) -> None:
    begin(out, execution_config={f"option {number:02d}": 1 for number in range(15)}, model="m" * 500)
    with pytest.raises(UsageError) as caught:
        go_on(out, execution_config={f"option {number:02d}": 2 for number in range(15)}, model="n" * 500)
    assert caught.value.message.endswith("; and 6 more")
    assert len(caught.value.message) < 1000
    assert f"model was '{'m' * 78}…" in caught.value.details["differences"][-1]


@pytest.mark.parametrize(
    "header", [{}, {"format": 99, "config": {}}, {"format": 1, "config": {"run_id": 7}}, {"format": 1}]
)
def test_a_journal_of_something_else_is_refused_and_stays(out: Path, header: dict[str, Any]) -> None:
    Journal.create(journal_path(out), header).close()
    before = journal_path(out).read_bytes()
    for _ in range(2):  # the first refusal lets go of it
        with pytest.raises(InvalidInput, match="not the journal of a run"):
            go_on(out)
    assert journal_path(out).read_bytes() == before


@pytest.mark.parametrize("content", [None, b"\x00" * 100], ids=["whole", "damaged"])
def test_a_discarded_journal_is_deleted(out: Path, content: bytes | None) -> None:
    discard_journal(out)
    begin(out)
    if content is not None:
        journal_path(out).write_bytes(content)
    discard_journal(out)
    assert list(out.parent.iterdir()) == []
    begin(out, seed=5)


def test_a_journal_that_is_in_use_is_not_deleted(out: Path) -> None:
    journal, _ = open_journal(out, make_config(), resume=False, run_id=None)
    try:
        with pytest.raises(StorageError):
            discard_journal(out)
        assert journal_path(out).exists()
    finally:
        journal.close()


def test_a_directory_in_its_place_is_an_error(out: Path) -> None:
    journal_path(out).mkdir(parents=True)
    with pytest.raises((StorageError, InvalidInput), match=r"now\.journal"):
        discard_journal(out)
