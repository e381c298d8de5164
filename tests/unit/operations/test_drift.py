"""`agent-eval drift` at the command line, on packs and a history directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_eval.gate.drift_cause import KnownLoss

from agent_eval.cli.main import main
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.errors import UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.drift import Counted, DriftReport
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.record import record_of
from agent_eval.operations.drift import drift_of, loss_with_night
from tests.factories import make_config, make_pack, make_result
from tests.unit.history.made import made_case, made_run

CASES = [f"case-{number}" for number in range(20)]


def pack_of(path: Path, failing: int, number: int = 0, **config: Any) -> Path:
    """A pack of twenty cases, of which so many fail."""
    results = [
        make_result(name, failed="policy") if place < failing else make_result(name)
        for place, name in enumerate(CASES)
    ]
    started = f"2026-11-{number + 1:02}T08:00:00+00:00"
    facts = {"run_id": f"run-{number}", "started_at": started, **config}
    return make_pack(path, results, config=make_config(**facts))


def history_of(home: Path, failing: list[int], **config: Any) -> Path:
    store = HistoryDirectory(home / "history")
    for number, failed in enumerate(failing, start=1):
        store.write(record_of(open_pack(pack_of(home / f"p{number}", failed, number, **config))))
    return home / "history"


def drift(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code = main(["drift", *map(str, words)])
    return code, json.loads(capsys.readouterr().out)


def test_a_branch_as_good_as_its_release_is_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = pack_of(tmp_path / "release", 1)
    code, said = drift(capsys, history_of(tmp_path, [1, 0, 1, 2, 1]), "--release", release)
    assert (code, said["is_worse"], said["runs"], said["cases"]) == (0, False, 5, 20)


def test_a_drop_raises_the_alarm_and_names_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history, release = history_of(tmp_path, [1, 0, 10, 7]), pack_of(tmp_path / "release", 1)
    code, said = drift(capsys, history, "--release", release)
    assert (code, said["is_alarmed"], said["run_ids"][said["alarmed_at"]]) == (1, True, "run-3")
    assert main(["drift", str(history), "--release", str(release), "--format", "text"]) == 1
    assert "It passes less often since about run run-3" in capsys.readouterr().out


@pytest.mark.parametrize(("failing", "said"), [(9, "not the code"), (1, "look at what was merged")])
def test_the_released_agent_run_again_says_whose_doing_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failing: int, said: str
) -> None:
    history, release = history_of(tmp_path, [9, 9]), pack_of(tmp_path / "release", 1)
    again = pack_of(tmp_path / "again", failing)
    words = [history, "--release", release, "--release-again", again, "--format", "text"]
    assert main(["drift", *map(str, words)]) == 1
    assert said in capsys.readouterr().out


def test_losses_that_add_up_exceed_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, release = history_of(tmp_path, [3] * 8), pack_of(tmp_path / "release", 0)
    code, said = drift(capsys, history, "--release", release)
    assert (code, said["is_over_budget"]) == (1, True)
    assert (
        drift(capsys, history, "--release", release, "--quality-budget", "0.2")[1]["is_over_budget"] is False
    )


def test_runs_judged_otherwise_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = history_of(tmp_path, [9, 9], policy_hash="other")
    release = pack_of(tmp_path / "release", 1)
    assert main(["drift", str(history), "--release", str(release)]) == 2
    assert "judged alike" in capsys.readouterr().err


def test_a_release_of_another_dataset_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = pack_of(tmp_path / "release", 1, dataset_id="other")
    assert main(["drift", str(history_of(tmp_path, [1])), "--release", str(release)]) == 2
    assert "dataset" in capsys.readouterr().err


def test_a_changed_release_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = pack_of(tmp_path / "release", 1)
    (release / "run" / "index.jsonl").write_text("{}\n")
    assert main(["drift", str(history_of(tmp_path, [1])), "--release", str(release)]) == 2
    assert "index.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failing", "released", "words"),
    [
        ([1, 1, 1, 1], 1, ["holds the quality of the release", "0.0 points gained"]),
        ([1, 1, 1], 1, ["No loss is shown.", "fewer than 4 runs the budget is not checked"]),
        ([1, 1, 1, 1], 9, ["holds the quality", "40.0 points gained"]),
        ([1, 1, 1, 6], 1, ["No loss is shown.", "6.2 points lost, which may be chance"]),
    ],
)
def test_what_cannot_be_told_is_not_called_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failing: list[int], released: int, words: list[str]
) -> None:
    release = pack_of(tmp_path / "release", released)
    history = history_of(tmp_path, failing)
    assert main(["drift", str(history), "--release", str(release), "--format", "text"]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in words), printed


def test_runs_from_before_the_release_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = history_of(tmp_path, [9, 9, 1, 1])
    release = pack_of(tmp_path / "release", 1, number=3, run_id="released")
    code, said = drift(capsys, history, "--release", release)
    assert (code, said["runs"], said["left_out_runs"]) == (0, 2, 2)


def test_the_cases_that_fell_the_most_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, release = history_of(tmp_path, [12, 12]), pack_of(tmp_path / "release", 1)
    fallen = drift(capsys, history, "--release", release)[1]["fallen"]
    assert [case["case_id"] for case in fallen[:2]] == ["case-1", "case-10"]
    assert "case-0" not in [case["case_id"] for case in fallen]


EASY = [f"easy-{number}" for number in range(50)]
HARD = [f"hard-{number}" for number in range(50)]
ANOTHER = "cd" * 6


def suite(number: int, easy: int = 4, hard: int = 2, again: tuple[str, ...] = ()) -> RunRecord:
    """A run of 50 easy and 50 hard cases: so many of 4 trials of each pass; those of `again` are new."""
    record = made_run(number, {})
    for names, passed in ((EASY, easy), (HARD, hard)):
        for name in names:
            changed = {"definition": ANOTHER} if name in again else {}
            record.cases[name] = made_case(name, passed, 4, **changed)
    return record


def held(*nights: RunRecord, release: RunRecord | None = None, **options: Any) -> DriftReport:
    """Nights, the oldest first, held against a release of a hundred cases of which three quarters pass."""
    return drift_of(nights[::-1], [release or suite(0)], **options)


def test_rewording_the_easy_cases_is_no_loss() -> None:
    report = held(*[suite(number, again=tuple(EASY)) for number in range(1, 9)])
    assert (report.is_worse, report.drift.lost, report.fallen) == (False, 0.0, [])
    assert (report.drift.release_rate, report.cases, report.cases_left_out) == (0.5, 50, 50)


def test_rewording_the_hard_cases_hides_no_loss() -> None:
    report = held(*[suite(number, easy=3, again=tuple(HARD)) for number in range(1, 9)])
    assert report.is_worse
    assert (report.drift.release_rate, report.drift.latest_rate, len(report.fallen)) == (1.0, 0.75, 50)


def test_the_newest_run_says_which_cases_are_compared_for_all_nights() -> None:
    reworded = tuple(EASY[:40])
    report = held(*[suite(number) for number in range(1, 8)], suite(8, again=reworded))
    assert (report.cases, report.cases_left_out, report.drift.lost) == (60, 40, 0.0)
    assert (len(report.runs), report.drift.sums[-1]) == (8, 0.0)


def test_where_fewer_than_half_of_the_release_is_left_nothing_is_decided() -> None:
    with pytest.raises(UsageError, match="only 49 of the release's 100 cases are defined as they were then"):
        held(*[suite(number, easy=0, again=(*HARD, EASY[0])) for number in range(1, 9)])


def test_a_night_that_scored_too_few_of_the_cases_is_left_out() -> None:
    partial = suite(5)
    for name in EASY[:11]:
        partial.cases[name] = made_case(name, 0, 0, lost={"judge": 4})
    report = held(suite(1), suite(2), partial, suite(6))
    assert ([run.run_id for run in report.runs], report.left_out) == (["ci-1", "ci-2", "ci-6"], 1)
    with pytest.raises(UsageError, match="no run since the release scored nine tenths of the 100 cases"):
        held(partial)


def test_lost_cases_do_not_move_the_rate() -> None:
    lossy = [suite(number) for number in range(1, 9)]
    for record in lossy:
        for name in EASY[:10]:
            record.cases[name] = made_case(name, 0, 0, lost={"judge": 4})
    assert held(*lossy).drift.lost == 0.0


def test_each_case_counts_the_same_however_many_of_its_trials_were_scored() -> None:
    lossy = [suite(number) for number in range(1, 9)]
    for record in lossy:
        for name in EASY:
            record.cases[name] = made_case(name, 1, 1, lost={"judge": 3})
    assert held(*lossy).drift.latest_rate == 0.75


def test_a_case_that_the_release_did_not_score_is_not_compared() -> None:
    release = suite(0)
    release.cases["hard-0"] = CaseRecord(case_id="hard-0", definition="ab" * 6, passed=0, scored=0)
    report = held(suite(1), release=release)
    assert (report.cases, report.cases_left_out) == (99, 0)


def test_the_released_agent_is_held_over_the_cases_that_it_has_alike() -> None:
    again = suite(9, again=tuple(EASY[:30]))
    report = held(*[suite(number) for number in range(1, 9)], again=again)
    assert (report.cases, report.cases_left_out) == (70, 30)
    assert report.release == report.again
    assert (report.released_agent_fell, report.cause) == (False, "unclear")


def test_runs_that_raised_the_alarm_do_not_blame_the_code() -> None:
    """They were chosen for their misses. The next run is the first that was not."""
    fell = [suite(1), suite(2, easy=3)]
    assert held(*fell, again=suite(9)).is_worse
    assert held(*fell, again=suite(9)).cause == "unclear"
    assert held(*fell, suite(3, easy=3), again=suite(9)).cause == "code"


def test_left_out_cases_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = [make_result(name) for name in [*CASES, "gone-1", "gone-2"]]
    release = make_pack(tmp_path / "release", results, config=make_config(started_at="2026-11-01T08:00:00Z"))
    history = history_of(tmp_path, [0, 0, 0, 0])
    assert drift(capsys, history, "--release", release)[1]["left_out_cases"] == 2
    assert main(["drift", str(history), "--release", str(release), "--format", "text"]) == 0
    assert "Left out: 2 cases of the release, changed or gone since" in capsys.readouterr().out


def night_of(loss: KnownLoss | None, branch: RunRecord, again: RunRecord) -> KnownLoss:
    return loss_with_night(loss, [branch, suite(1)], [suite(0)], again)


def test_the_night_that_showed_a_loss_counts_for_the_released_agent_alone() -> None:
    first = night_of(None, suite(2, easy=3), suite(12))
    assert (first.again, first.branch) == (Counted(300, 400), Counted(0, 0))
    second = night_of(first, suite(3, easy=3), suite(13))
    assert (second.again, second.branch) == (Counted(600, 800), Counted(250, 400))
    assert (first.cause, second.cause) == ("unclear", "code")


def test_trials_of_other_cases_than_before_are_not_added_up() -> None:
    first = night_of(None, suite(2, easy=3), suite(12))
    reworded = tuple(HARD[:40])
    second = night_of(first, suite(3, easy=3, again=reworded), suite(13, again=reworded))
    assert (second.again, second.branch) == (Counted(220, 240), Counted(170, 240))


def test_a_released_agent_that_scored_too_little_is_not_added() -> None:
    again = made_run(9, {})
    again.cases.update({name: case for name, case in suite(9).cases.items() if name in (*EASY, *HARD[:30])})
    for name in HARD[30:]:
        again.cases[name] = made_case(name, 0, 0, lost={"judge": 4})
    with pytest.raises(UsageError, match="the released agent, run again, has not scored nine tenths"):
        night_of(None, suite(2), again)
