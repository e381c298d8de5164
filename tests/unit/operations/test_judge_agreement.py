"""The agreement of an LLM judge with people, from packs and labels to criteria that count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.config.spec import Judging, LlmSpec, Output, RunSpec
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.operations.judge_agreement import agreement_text, judge_agreement
from agent_eval.operations.run import run_suite

CRITERION = "The agent refunds the order."


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A pack of 80 conversations of which the judge fails the last 40, on an advisory criterion."""
    root = tmp_path_factory.mktemp("agreement")
    cases = [
        {
            "case_id": f"c{number:02}",
            "metadata": {"llm": [{"criterion": CRITERION, "advisory": True}, {"criterion": "Polite."}]},
            "trace": [
                {"idx": 0, "actor": "user", "type": "message", "input": "My money!"},
                {"idx": 1, "actor": "agent", "type": "message", "output": "Done." if number < 40 else "No."},
            ],
        }
        for number in range(80)
    ]
    paths = {name: root / f"{name}.json" for name in ("suite", "script", "labels", "record")}
    paths["suite"].write_text(json.dumps({"dataset_id": "shop", "cases": cases}))

    def ruling(verdict: str) -> dict[str, Any]:
        return {"object": {"reasoning": f"It {verdict}.", "evidence": [], "verdict": verdict}}

    rows = [{"criterion": CRITERION, "contains": "No.", **ruling("failed")}, ruling("passed")]
    paths["script"].write_text(json.dumps({"kind": "model_script", "replies": rows}))
    paths["pack"] = root / "pack"
    run_suite(spec(paths, paths["pack"]), environ={})
    return paths


def spec(files: dict[str, Path], out: Path, **llm: Any) -> RunSpec:
    model = LlmSpec(provider="scripted", script=files["script"], **llm)
    return RunSpec(suite=files["suite"], output=Output(pack=out), judging=Judging(judges=("llm",), llm=model))


def write_labels(
    path: Path, *, errors: int = 0, each: int = 30, drawn: str = "by-verdict", **more: Any
) -> Path:
    """Label some conversations of each verdict, with some errors of the judge in those that it failed."""
    labels = []
    for number in [*range(each), *range(40, 40 + each)]:
        human = "passed" if number < 40 or number < 40 + errors else "failed"
        labels.append({"case_id": f"c{number:02}", "criterion": CRITERION, "human": human, **more})
    path.write_text(json.dumps({"kind": "judge_labels", "drawn": drawn, "labels": labels}))
    return path


def test_the_first_figure_is_how_often_a_red_is_right(files: dict[str, Path]):
    record = judge_agreement([files["pack"]], write_labels(files["labels"], errors=2))
    (row,), lines = record["criteria"], list(agreement_text(record))
    assert row["right_when_failed"] == {"right": 28, "of": 30, "value": 0.9333, "interval": [0.7868, 0.9815]}
    cells = ("both_passed", "wrongly_failed", "wrongly_passed", "both_failed")
    assert [*row["confusion"].items()] == [*zip(cells, (30, 2, 0, 28), strict=True)]
    assert row["judged"] == {"passed": 40, "failed": 40, "neither": 0}
    assert [item["case_id"] for item in row["disagreements"]] == ["c40", "c41"]
    assert "  When it says failed, it is right in 28 of 30 cases (at least 79%)." in lines
    assert any("Read c40, trial 0: human passed, judge failed: It failed." in line for line in lines)


def test_it_says_how_many_labels_are_missing(files: dict[str, Path]):
    record = judge_agreement([files["pack"]], write_labels(files["labels"], each=25))
    assert record["criteria"][0]["labels_wanted"] == {"failed": 5, "passed": 5}
    assert any("5 more labelled cases of those judged failed" in line for line in agreement_text(record))


def test_a_criterion_counts_once_it_has_earned_it_for_exactly_this_judge(
    files: dict[str, Path], tmp_path: Path
):
    assert run_suite(spec(files, tmp_path / "before"), environ={}).summary.passed_cases == 80
    record = tmp_path / "record.json"
    judge_agreement([files["pack"]], write_labels(files["labels"], errors=3), record)
    earned = run_suite(spec(files, tmp_path / "after", agreement=record), environ={})
    assert earned.summary.passed_cases == 40
    changed = json.loads(record.read_text())
    changed["criteria"][0]["digest"] = "0123456789abcdef"
    record.write_text(json.dumps(changed))
    other = run_suite(spec(files, tmp_path / "other", agreement=record), environ={})
    assert other.summary.passed_cases == 80


@pytest.mark.parametrize(
    ("errors", "drawn", "blocks"), [(3, "random", True), (4, "random", False), (0, "other", False)]
)
def test_too_many_errors_or_labels_that_were_not_drawn_do_not_earn_it(
    files: dict[str, Path], errors: int, drawn: str, blocks: bool
):
    labels = write_labels(files["labels"], errors=errors, drawn=drawn)
    record = judge_agreement([files["pack"]], labels)
    assert record["criteria"][0]["blocking"] is blocks
    assert any("not drawn at random" in line for line in agreement_text(record)) is (drawn == "other")


def test_trials_of_a_case_are_no_further_cases(files: dict[str, Path], tmp_path: Path):
    suite = json.loads(files["suite"].read_bytes())
    cases = [suite["cases"][number] for number in (0, 1, 2, 40, 41, 42)]
    for case in cases:
        case["trials"] = [{"trace": case["trace"]}] * 19
    paths = {**files, "suite": tmp_path / "suite.json"}
    paths["suite"].write_text(json.dumps({**suite, "cases": cases}))
    run_suite(spec(paths, tmp_path / "pack"), environ={})
    path = write_labels(tmp_path / "labels.json", each=3, drawn="random")
    value = json.loads(path.read_text())
    value["labels"] = [{**label, "trial": trial} for label in value["labels"] for trial in range(20)]
    path.write_text(json.dumps(value))
    (row,) = judge_agreement([tmp_path / "pack"], tmp_path / "labels.json")["criteria"]
    assert (row["cases"], row["blocking"], row["right_when_failed"]["of"]) == (6, False, 3)
    assert row["right_when_failed"]["interval"][0] < 0.65
    assert row["labels_wanted"]["failed"] == 27


def test_two_people_on_the_same_conversations_show_how_far_people_agree(files: dict[str, Path]):
    path = write_labels(files["labels"], each=3, by="ann")
    value = json.loads(path.read_text())
    value["labels"] += [{**label, "by": "bob"} for label in value["labels"]]
    path.write_text(json.dumps(value))
    (row,) = judge_agreement([files["pack"]], path)["criteria"]
    assert (row["human_kappa"], sum(row["confusion"].values())) == (1.0, 6)


@pytest.mark.parametrize(
    ("change", "label", "field"),
    [
        ({"drawn": "by hand"}, {}, "drawn"),
        ({"kind": "labels"}, {}, "kind"),
        ({}, {"human": "pass"}, "labels.0.human"),
        ({}, {"case_id": "c99"}, "labels[0]"),
        ({}, {"criterion": "Else."}, "labels[0]"),
        ({}, {"trial": 1}, "labels[0]"),
    ],
)
def test_labels_that_fit_nothing_are_refused_with_their_place(
    files: dict[str, Path], change: dict[str, str], label: dict[str, Any], field: str
):
    path = write_labels(files["labels"], each=1)
    value = {**json.loads(path.read_text()), **change}
    value["labels"][0].update(label)
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput) as caught:
        judge_agreement([files["pack"]], path)
    assert caught.value.details["field"] == field


def test_no_labels_measure_nothing(files: dict[str, Path]):
    path = write_labels(files["labels"], each=0)
    with pytest.raises(NothingMeasured):
        judge_agreement([files["pack"]], path)


def test_the_command_prints_and_writes_the_record(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "record.json"
    words = ["judge-agreement", str(write_labels(files["labels"])), "--run", str(files["pack"])]
    assert main([*words, "--out", str(out), "--format", "text"]) == 0
    assert "When it says failed, it is right in 30 of 30 cases (at least 89%)." in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out.read_text())


def test_a_record_that_is_none_is_refused(files: dict[str, Path], tmp_path: Path):
    record = tmp_path / "record.json"
    record.write_text('{"kind": "judge_labels", "criteria": []}')
    with pytest.raises(InvalidInput, match="is not a record, which"):
        run_suite(spec(files, tmp_path / "run", agreement=record), environ={})
