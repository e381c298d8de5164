"""First runs, the evidence that stands in for them, and trials that are made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci import trials
from agent_eval.ci.trials import ProgressLines, refuse_other_judges
from agent_eval.ci.workspace import Altered
from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.engine.progress import RunProgress
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run import run_suite
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import write_suite


def test_progress__is_said_when_it_is_time_to(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    lines = ProgressLines("orders.json", said.append)
    lines(RunProgress(4, done=1, passed=1))
    assert said == []
    for _ in range(2):
        lines(RunProgress(4, done=1, passed=1, notes=("The limit leaves out much.",)))
    assert said == ["orders.json: The limit leaves out much."]
    said.clear()
    monkeypatch.setattr(trials, "SECONDS_BETWEEN_LINES", 0.0)
    lines(RunProgress(4, done=2, passed=1, errors=1))
    assert said == ["orders.json: 2 of 4 trials (50 %), 1 passed, 0 failed, 1 error"]


OTHER_EXPECTATION = [{**orders()[0], "regex_patterns": ["."]}]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(name: str, cases: list[dict[str, object]], *judges: str, config: str = "{}") -> Pack:
    Path("judges.json").write_text(config)
    write_suite(cases, name=f"{name}.json")
    judging = Judging(judges=judges or ("regex", "policy"), judge_config=Path("judges.json"))
    run_suite(
        RunSpec(suite=Path(f"{name}.json"), output=Output(pack=Path(name)), judging=judging), environ={}
    )
    return open_pack(Path(name))


def test_trials_of_some_cases_by_the_same_judges_count() -> None:
    refuse_other_judges(judged("first", orders()), judged("again", orders()[:1]))


@pytest.mark.parametrize(
    ("cases", "judges", "config"),
    [
        (orders(), ("regex",), "{}"),
        (orders(), (), '{"regex": {"hard": false}}'),
        (OTHER_EXPECTATION, (), "{}"),
    ],
    ids=["a judge is gone", "a judge is configured otherwise", "a case expects something else"],
)
def test_trials_that_are_judged_otherwise_are_refused(
    cases: list[dict[str, object]], judges: tuple[str, ...], config: str
) -> None:
    first = judged("first", orders())
    with pytest.raises(Altered, match="The suite or its judges were altered while the job ran"):
        refuse_other_judges(first, judged("again", cases, *judges, config=config))
