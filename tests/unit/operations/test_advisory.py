"""Judges that a change adds: their verdicts are in the evidence and on the page, and count nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.config.spec import Judging
from agent_eval.contracts.verdict import advisory_in
from agent_eval.evidence.reader import Pack
from agent_eval.history.records import history_key
from agent_eval.operations.unjudged import why_ended
from agent_eval.reports.trajectory import trajectory_text
from tests.factories import make_case
from tests.unit.operations.runs import judged

MINE = """\
import os
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge

class Mine(BaseJudge):
    judge_id = "mine"

    def evaluate(self, case, trace):
        if case.case_id == "ends":
            os._exit(0)
        return self.failed(case, "it says <b>correct-horse-7</b>", FailureKind.POLICY_VIOLATION)
"""


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a change that adds a judge, beside those of the tip."""
    (tmp_path / "tip").mkdir()
    (tmp_path / "change").mkdir()
    monkeypatch.chdir(tmp_path / "change")
    Path("mine.py").write_text(MINE)
    return tmp_path


def run(out: str, **judging: Any) -> Pack:
    environ = {"DATABASE_PASSWORD": "correct-horse-7", "AGENT_EVAL_CLOCK": "2026-01-01T00:00:00+00:00"}
    cases = [make_case(name, regex_patterns=["done"]) for name in ("a", "ends")]
    return judged(out, *cases, environ=environ, **judging)


def test_they_change_no_result_and_no_key(change: Path) -> None:
    new = Judging(judges=("mine:Mine",))
    without = run("without", directory=change / "tip")
    pack = run("with", directory=change / "tip", advisory=new)
    assert pack.summary.passed_cases == 2
    assert pack.summary.model_copy(update={"run_id": ""}) == without.summary.model_copy(update={"run_id": ""})
    assert history_key(pack.config) == history_key(without.config)
    assert pack.config.judges == ["regex"]
    assert why_ended(pack.summary, pack.results()) is None


def test_they_are_in_the_evidence_without_its_secrets_and_on_the_screen(change: Path) -> None:
    pack = run("with", advisory=Judging(judges=("mine:Mine",)))
    rows = {row["case_id"]: row for row in pack.results()}
    (found,) = advisory_in(rows["a"]["verdicts"])
    assert (found.judge_id, found.outcome) == ("mine", "failed")
    assert found.reason == "it says <b>[redacted:DATABASE_PASSWORD]</b>"
    (ended,) = advisory_in(rows["ends"]["verdicts"])
    assert (ended.outcome, ended.reason[:51]) == (
        "error",
        "Judge `mine` ended without a verdict in `ends`. It ",
    )
    case = pack.trajectory("a")
    lines = trajectory_text(case, case.trace, rows["a"], colour=False)
    assert lines[-1].strip().startswith("mine failed, advisory: it says")


def test_what_is_no_finding_in_a_pack_is_left_out() -> None:
    good = {"judge_id": "mine", "outcome": "failed", "reason": "no"}
    wrong = [{**good, "outcome": "wonderful"}], [{**good, "reason": 3}], [{}]
    for stated in (None, 3, "x", {}, [None, 3], *wrong):
        assert advisory_in([{"evidence": {"advisory": stated}}]) == []  # type: ignore[list-item, typeddict-item]


def test_a_judge_of_the_run_that_ended_is_named_with_the_first_case(change: Path) -> None:
    pack = run("with", judges=("mine:Mine",), directory=change / "change")
    assert why_ended(pack.summary, pack.results()) == (
        "Judge `mine` ended without a verdict in `ends`. It ended without an answer."
    )
