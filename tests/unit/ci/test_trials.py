"""First runs, the evidence that stands in for them, and trials that are made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_eval.ci import trials
from agent_eval.ci.agents import Agents
from agent_eval.ci.baseline import Search
from agent_eval.ci.definitions import find_targets
from agent_eval.ci.trials import ProgressLines, make_packs, refuse_other_judges, take_packs
from agent_eval.ci.workspace import Altered
from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import InvalidInput
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run import run_suite
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import evidence, job, write_suite
from tests.unit.ci.jobs import place_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(orders())
    return tmp_path


def test_evidence_of_earlier_jobs_that_names_no_commit_is_refused_in_a_checkout(here: Path) -> None:
    """It may be of any commit. Outside of a checkout nothing says of which it should be."""
    earlier = Path(evidence())
    [target] = find_targets(["s.json"])
    assert take_packs(job(), [target], earlier)["shop"].summary.total_cases == 4
    made = replace(job(out="again"), place=place_of("1" * 40, "0" * 40))
    with pytest.raises(InvalidInput, match="does not say of which commit it is"):
        take_packs(made, [target], earlier)
    assert not Path("again").exists()


def test_evidence_of_another_version_of_a_suite_is_refused(here: Path) -> None:
    earlier = Path(evidence())
    write_suite(orders(bad=(2,)))
    with pytest.raises(InvalidInput, match=r"is of another version of `s\.json`"):
        take_packs(job(), find_targets(["s.json"]), earlier)


def test_a_suite_that_cannot_be_read_is_refused_before_the_others_are_judged(here: Path) -> None:
    Path("t.jsonl").write_text('{"dataset_id": "help"}\n{"case_id": 5}\n')
    made = job(suite="s.json\nt.jsonl")
    with pytest.raises(InvalidInput, match=r"t\.jsonl"):
        make_packs(made, find_targets(["s.json", "t.jsonl"]), Agents(made), Search())
    assert not Path("agent-eval-out").exists()


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
