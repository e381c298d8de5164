"""`agent-eval drift` at the command line: packs of a release, and evidence of main that carries a history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.contracts.history import RunRecord
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import record_of, write_history
from tests.factories import make_case, make_config, make_pack, make_result, make_suite, make_trace
from tests.unit.cli.shell import Shell
from tests.unit.history.made import made_run

CASES = [f"case-{number:02}" for number in range(20)]
AS_GOOD = (1, 0, 1, 2, 1, 0, 1, 1)
WORSE = (8, 7, 9, 8)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pack_of(
    path: str, failing: int, number: int, *, names: list[str] = CASES, reworded: int = 0, **config: Any
) -> Path:
    """A run of day `number`, whose first `failing` cases fail, and the last `reworded` ask something else."""
    results = [
        make_result(name, failed="policy" if place < failing else ()) for place, name in enumerate(names)
    ]
    changed = names[len(names) - reworded :]
    cases = [make_case(name, **({"input": "Another."} if name in changed else {})) for name in names]
    facts = {"run_id": f"run-{number}", "started_at": f"2026-11-{number + 1:02}T08:00:00+00:00", **config}
    return make_pack(Path(path), results, cases=cases, config=make_config(**facts))


def release_of(failing: Iterable[int] = (1, 0, 1, 2), **facts: Any) -> list[str]:
    """The options that name a release's runs, a pack each, all of day 0."""
    packs = [
        pack_of(f"release-{number}", failed, 0, run_id=f"release-{number}", **facts)
        for number, failed in enumerate(failing)
    ]
    return [word for pack in packs for word in ("--release", str(pack))]


def drift(*runs: dict[str, Any] | int, **facts: Any) -> list[str]:
    """The command on main's runs, the oldest first, whose newest has the records of all, and on a release."""
    records: list[RunRecord] = []
    for number, run in enumerate(runs, start=1):
        of_run = run if isinstance(run, dict) else {"failing": run}
        pack = pack_of(f"main-{number}", **{"number": number, **of_run})
        records.append(record_of(open_pack(pack)))
    write_history(pack, records[-1], records[:-1])
    return ["drift", str(pack), *release_of(**facts)]


def test_main_as_good_as_its_release_is_in_order(cli: Shell) -> None:
    words = drift(*WORSE, *AS_GOOD)
    said = cli.json(*words)
    assert (said["is_worse"], said["cases"], said["release_totals"]) == (False, 20, [19, 20, 19, 18])
    # The last eight runs count.
    assert said["main_totals"] == [20 - failed for failed in reversed(AS_GOOD)]
    assert said["run_ids"] == [f"run-{number}" for number in range(12, 4, -1)]
    assert cli.out(*words).startswith("Main does not pass less than the release over its last 8")


def test_a_clear_fall_names_how_far_and_the_cases_that_fell_the_most(cli: Shell) -> None:
    words = drift(*WORSE)
    said = cli.json(*words, code=1)
    assert (said["is_worse"], round(said["lost"], 3)) == (True, 0.35)
    assert said["p_value"] < 0.01
    assert said["fallen"][0] == {"case_id": "case-02", "release": 1.0, "main": 0.0}
    assert {case["case_id"] for case in said["fallen"]} == set(CASES[:9])
    shown = cli.out(*words, code=1)
    assert shown.startswith("Main passes 35.0 points less than the release over its last 4 runs.\n")
    assert "  case-02  100% → 0%\n" in shown


def test_too_few_runs_of_main_say_nothing_and_that_they_do(cli: Shell) -> None:
    words = drift(*WORSE[:3])
    said = cli.json(*words)
    assert (said["is_worse"], said["p_value"]) == (False, None)
    assert cli.out(*words).startswith(
        "Main has run 3 times since the release: nothing is said before 4 runs.\n"
    )


OTHERWISE = {"failing": 20, "policy_hash": "0" * 64}
"""A run that is judged by another policy."""
AGAIN = "Evaluate the release again with today's suite and judges"


@pytest.mark.parametrize(
    ("runs", "release", "message", "remedy"),
    [
        (WORSE, {"failing": [0]}, "the release has 1 trial of each case", "`--trials 8`"),
        (WORSE, {"failing": [0] * 3}, "the release has 3 trials of each case", "`--trials 8`"),
        (AS_GOOD, {"dataset_id": "other"}, "is not of the history's dataset 'shop', but of 'other'", ""),
        ([{"failing": 0, "reworded": 11}] * 4, {}, "only 9 of the release's 20 cases are defined as", AGAIN),
        ([OTHERWISE] * 4, {}, "none was judged alike", AGAIN),
    ],
    ids=["one trial", "three trials", "another dataset", "few cases alike", "no run judged alike"],
)
def test_a_release_of_which_nothing_can_be_told_is_refused(
    runs: Any, release: dict[str, Any], message: str, remedy: str, cli: Shell
) -> None:
    error = cli.error(*drift(*runs, **release))
    assert message in error["message"]
    assert remedy in error["details"]["remedy"]


def recorded(path: str, *, failing: int, trials: int, run_id: str) -> None:
    """Run five recorded cases of so many trials; the case `calm-0` fails in the first `failing` of them."""
    cases = []
    for number in range(5):
        traces = [
            {"trace": make_trace("escalate" if number == 0 and trial < failing else "lookup")}
            for trial in range(trials)
        ]
        case = make_case(f"calm-{number}", policy={"forbidden_tools": ["escalate"]})
        cases.append({**case, **traces[0], **({"trials": traces[1:]} if trials > 1 else {})})
    Path("suite.json").write_text(json.dumps(make_suite(*cases)))
    assert main(["run", "--suite", "suite.json", "--out", path, "--run-id", run_id]) == 0


def test_each_trial_of_a_release_is_a_run_of_it(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")
    recorded("release", failing=3, trials=8, run_id="release")
    records = []
    for number in range(4):
        monkeypatch.setenv("AGENT_EVAL_CLOCK", f"2026-01-{number + 15}T10:00:00+00:00")
        recorded(f"main-{number}", failing=0, trials=1, run_id=f"main-{number}")
        records.append(record_of(open_pack(Path(f"main-{number}"))))
    write_history(Path("main-3"), records[-1], records[:-1])
    said = cli.json("drift", "main-3", "--release", "release")
    assert said["release_totals"] == [4, 4, 4, 5, 5, 5, 5, 5]
    assert said["main_totals"] == [5, 5, 5, 5]


def test_evidence_without_a_history_is_refused(cli: Shell) -> None:
    pack_of("alone", 0, 1)
    for command in (("drift", "alone", *release_of()), ("history", "alone")):
        error = cli.error(*command)
        assert error["message"].endswith("has no history.")
        assert "on the base branch" in error["details"]["remedy"]


def test_a_history_that_came_from_another_pack_is_refused(cli: Shell) -> None:
    write_history(pack_of("foreign", 0, 1), made_run(1, {"case-00": (1, 1)}), [])
    error = cli.error("drift", "foreign", *release_of())
    assert "its first record is not that of the run in this pack" in error["message"]


def test_a_release_that_was_altered_is_refused(cli: Shell) -> None:
    words = drift(*AS_GOOD)
    Path("release-0/run/index.jsonl").write_text("{}\n")
    assert "index.jsonl" in cli.error(*words)["message"]


def test_cases_that_changed_or_are_gone_are_left_out_on_both_sides(cli: Shell) -> None:
    runs = [{"failing": failed, "reworded": 3} for failed in AS_GOOD]
    words = drift(*runs, names=[*CASES, "gone-1", "gone-2"])
    said = cli.json(*words)
    assert (said["cases"], said["left_out_cases"], said["left_out_runs"]) == (17, 5, 0)
    assert said["release_totals"] == [16, 17, 16, 15]
    shown = cli.out(*words)
    assert "Left out: 5 cases that changed or are gone, 0 runs that cannot be compared." in shown


def test_runs_that_say_nothing_of_main_since_the_release_are_left_out(cli: Shell) -> None:
    partial = {"failing": 0, "names": CASES[:17]}
    earlier = {"failing": 20, "number": 0, "started_at": "2026-10-01T08:00:00+00:00"}
    said = cli.json(*drift(earlier, 1, OTHERWISE, 0, partial, 2, 1))
    assert said["run_ids"] == ["run-7", "run-6", "run-4", "run-2"]
    assert said["left_out_runs"] == 3


def test_another_model_is_what_drifted_and_counts(cli: Shell) -> None:
    runs = [{"failing": failed, "model": "newer"} for failed in WORSE]
    assert cli.json(*drift(*runs, model="older"), code=1)["is_worse"]


def test_what_an_alarm_shows_of_hostile_ids_is_text_alone(cli: Shell) -> None:
    names = ["a\x1b[2Jb", *CASES[1:]]
    runs = [{"failing": 8, "names": names}] * 4
    assert "\x1b" not in cli.out(*drift(*runs, failing=[0] * 4, names=names), code=1)
