"""`agent-eval drift` at the command line, on packs and a history directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.evidence.reader import open_pack
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.record import record_of
from tests.factories import make_config, make_pack, make_result

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
