"""Runs on the base branch leave their counts for later ones; nothing else does."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from agent_eval.ci.job import run_job
from agent_eval.errors import ExitCode, InvalidInput
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import HISTORY, encode, read_history
from tests.e2e.runner import orders
from tests.factories import make_suite
from tests.unit.ci.platforms.repository import Repository
from tests.unit.history.made import made_run

OUT = Path("agent-eval-out")


class Nights:
    """A checkout whose suite is judged night after night."""

    def __init__(self, repository: Repository, store: Path) -> None:
        self.repository, self.store, self.night, self.log = repository, store, 0, ""
        self.orders = 4

    def evaluate(self, *, bad: tuple[int, ...] = (), note: tuple[int, ...] = (), **flags: str) -> ExitCode:
        """Judge the orders, four unless a test wants more, of which those in `bad` fail.

        Those in `note` get a note of no consequence.
        """
        self.night += 1
        cases = orders(self.orders, bad=bad)
        for number in note:
            cases[number - 1].setdefault("metadata", {})["owner"] = "team-b"
        (self.repository.top / "suite.json").write_text(json.dumps(make_suite(*cases)))
        stream = io.StringIO()
        given = {
            "suite": "suite.json",
            "max-regressed-cases": "4",
            "baseline-store": str(self.store),
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
        clock = {"AGENT_EVAL_CLOCK": f"2026-11-{self.night:02d}T08:00:00+00:00"}
        code = run_job(given, {**self.repository.environ, **clock}, stream)
        self.log = stream.getvalue()
        return code

    def change(self) -> None:
        """Begin a branch at a new commit of main."""
        self.repository.branch("change", self.repository.commit())
        self.repository.commit()

    def carried(self) -> list[tuple[int, int]]:
        """Passed and all cases of each run in the evidence that was left last, the newest first."""
        records = read_history(open_pack(OUT / "shop"))
        return [(sum(case.passed for case in run.cases.values()), len(run.cases)) for run in records]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "checkout")
    monkeypatch.chdir(made.top)
    return made


@pytest.fixture
def nights(repository: Repository, tmp_path: Path) -> Nights:
    return Nights(repository, tmp_path / "store")


def test_each_run_on_main_carries_the_counts_of_those_before_it(nights: Nights) -> None:
    for bad in ((), (1,), (1, 2)):
        nights.evaluate(bad=bad)
    assert nights.carried() == [(2, 4), (3, 4), (4, 4)]


def test_a_run_on_another_branch_carries_none(nights: Nights) -> None:
    nights.evaluate()
    nights.change()
    assert nights.evaluate() is ExitCode.OK
    assert not (OUT / "shop" / HISTORY).exists()
    nights.repository.git("symbolic-ref", "HEAD", "refs/heads/main")
    nights.evaluate(bad=(1,))
    assert nights.carried() == [(3, 4), (4, 4)]


def test_a_run_that_is_no_baseline_is_in_the_history_all_the_same(nights: Nights) -> None:
    nights.evaluate()
    nights.evaluate(bad=(1, 2, 3, 4))
    nights.evaluate()
    assert nights.carried() == [(4, 4), (0, 4), (4, 4)]


def test_counts_that_were_changed_in_the_evidence_are_not_used(nights: Nights) -> None:
    nights.evaluate()
    history = OUT / "shop" / HISTORY
    history.write_bytes(history.read_bytes().replace(b'"passed":1', b'"passed":0'))
    assert nights.evaluate(baseline=str(OUT / "shop"), out="again") is ExitCode.WRONG_REQUEST
    assert "history/runs.jsonl" in nights.log


def test_a_history_that_was_put_into_another_pack_is_refused(nights: Nights) -> None:
    nights.evaluate()
    write_output(OUT / "shop" / HISTORY, encode(made_run(1, {"order-1": (1, 1)})))
    with pytest.raises(InvalidInput, match="not that of the run in this pack"):
        read_history(open_pack(OUT / "shop"))
