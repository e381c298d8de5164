"""The history of main in `agent-eval ci`: carried from run to run in evidence, never from a fork."""

import pytest

from agent_eval.evidence.archive import open_bundle
from agent_eval.history.records import HISTORY, read_history
from tests.e2e.runner import (
    BASE_BRANCH_RUN,
    BASE_SHA,
    HEAD_SHA,
    OWN_RUN,
    PULL,
    Runner,
    Step,
    orders,
    unzipped,
    zipped,
)
from tests.fakes.github import FakeGitHub, sha


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


# The merge queue and the schedule, run after run: what is compared with what, and what is a baseline

NIGHTLY, IN_THE_QUEUE, AFTER_THE_MERGE = 450, 460, 470


def on_main(runner: Runner, run_id: int, event: str = "push", bad: tuple[int, ...] = ()) -> Step:
    """A run on main that uploads its evidence."""
    runner.write_suite(*orders(bad=bad))
    step = runner.push(run_id=run_id, event=event)
    runner.upload(step, run_id)
    return step


def test_a_change_in_the_queue_is_held_to_main_and_no_baseline_of_it(runner: Runner) -> None:
    on_main(runner, BASE_BRANCH_RUN)
    runner.write_suite(*orders(bad=(2,)))
    queued = runner.merge_group(run_id=IN_THE_QUEUE)
    assert (queued.code, queued.outcome) == (1, "failed")
    assert queued.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)
    assert runner.github.bodies(PULL) == []
    assert "order-2" in queued.summary
    # The queue's branch is of this repository; its run must not excuse the next change all the same.
    runner.upload(queued, IN_THE_QUEUE)
    runner.github.runs[IN_THE_QUEUE] |= {
        "status": "completed", "head_branch": "main", "head_sha": sha("merge base"),
    }  # fmt: skip
    changed = runner.pull_request()
    assert changed.outcome == "failed"
    assert changed.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)


def test_the_merge_queue_reads_the_rules_of_the_tip(runner: Runner, github: FakeGitHub) -> None:
    on_main(runner, BASE_BRANCH_RUN)
    github.files["agent-eval.yml"] = b"policy: {max_regressed_cases: 0}\n"
    (runner.workspace / "agent-eval.yml").write_text("policy: {max_regressed_cases: 9}\n")
    runner.write_suite(*orders(bad=(2,)))
    queued = runner.merge_group(run_id=IN_THE_QUEUE, max_regressed_cases="", max_new_hard_fail_cases="")
    assert queued.outcome in ("failed", "inconclusive")
    assert "max_regressed_cases" in queued.summary


def test_a_change_that_left_the_queue_passes_on_main_against_the_run_before(runner: Runner) -> None:
    on_main(runner, BASE_BRANCH_RUN)
    runner.write_suite(*orders())
    assert runner.merge_group(run_id=IN_THE_QUEUE).outcome == "passed"
    merged = on_main(runner, AFTER_THE_MERGE)
    assert merged.outcome == "passed"
    assert merged.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)


def test_a_scheduled_run_on_main_finds_what_got_worse_and_is_the_next_baseline(runner: Runner) -> None:
    on_main(runner, BASE_BRANCH_RUN)
    nightly = on_main(runner, NIGHTLY, event="schedule", bad=(3,))
    assert (nightly.code, nightly.outcome) == (1, "failed")
    assert nightly.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)
    assert runner.github.comments == {}
    # The fault of the model is not that of the next change: it is compared with the night's run.
    runner.write_suite(*orders(bad=(3,)))
    changed = runner.pull_request(run_id=OWN_RUN, head=HEAD_SHA)
    assert changed.outcome == "passed"
    assert changed.outputs["baseline-run-id"] == str(NIGHTLY)


def test_a_scheduled_run_that_is_repeated_is_not_compared_with_itself(runner: Runner) -> None:
    on_main(runner, BASE_BRANCH_RUN)
    on_main(runner, NIGHTLY, event="schedule", bad=(3,))
    again = on_main(runner, NIGHTLY, event="schedule", bad=(3,))
    assert again.outcome == "failed"
    assert again.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)
