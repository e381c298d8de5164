"""The history of main in `agent-eval ci`: carried from run to run in evidence, never from a fork."""

from __future__ import annotations

import pytest

from agent_eval.evidence.archive import open_bundle
from agent_eval.history.records import HISTORY, read_history
from tests.e2e.runner import BASE_SHA, PULL, Runner, Step, orders, unzipped, zipped
from tests.fakes.github import FakeGitHub


def runs_in(step: Step) -> list[str]:
    """The ids of the runs that the evidence of a step carries, the newest first."""
    return [record.run.run_id for record in read_history(open_bundle(step.archive)["shop"])]


def carries(step: Step) -> bool:
    return any(name.endswith(HISTORY) for name in unzipped(step.archive))


def pushed(runner: Runner, run_id: int, *, bad: tuple[int, ...] = ()) -> Step:
    """A run on main, whose evidence is uploaded."""
    runner.write_suite(*orders(bad=bad))
    step = runner.push(run_id=run_id, max_regressed_cases="4", max_new_hard_fail_cases="4")
    runner.upload(step, run_id)
    return step


def test_a_run_on_main_carries_those_before_it_and_one_download_suffices(runner: Runner) -> None:
    pushed(runner, 410)
    pushed(runner, 420, bad=(1,))
    before = len(runner.github.downloads)
    assert runs_in(pushed(runner, 430)) == ["github-430-1-shop", "github-420-1-shop", "github-410-1-shop"]
    assert len(runner.github.downloads) == before + 1


def test_an_artifact_of_a_fork_never_contributes(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    poisoned = runner.push(run_id=480)
    assert carries(poisoned)
    del github.runs[480]
    for run_id, event in ((490, "pull_request"), (491, "push")):
        runner.upload(poisoned, github.add_run(run_id, event=event, fork=True, head_sha=BASE_SHA))
    assert runs_in(pushed(runner, 495)) == ["github-495-1-shop"]
    assert github.downloads == []


@pytest.mark.parametrize("relisted", [False, True], ids=["its digest differs", "listed anew"])
def test_a_history_that_was_tampered_with_is_refused(runner: Runner, relisted: bool) -> None:
    runner.write_suite(*orders())
    step = runner.push(run_id=410)
    files = unzipped(step.archive)
    if relisted:
        del files["shop/derived.json"]
    else:
        files[f"shop/{HISTORY}"] = files[f"shop/{HISTORY}"].replace(b'"passed":1', b'"passed":0')
    (runner.workspace / "agent-eval-out" / "evidence.zip").write_bytes(zipped(files))
    runner.github.add_artifact(410, zipped({"evidence.zip": zipped(files)}))
    step = runner.pull_request()
    assert step.outcome == "error"
    assert "does not verify" in runner.github.bodies(PULL)[0]
