"""Trials that are made again count only where they are judged as the first run was."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci.rerunning import refuse_other_judges
from agent_eval.ci.seal import Altered
from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run import run_suite
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import write_suite

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
