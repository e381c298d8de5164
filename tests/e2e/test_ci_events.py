"""The merge queue and the schedule, run after run: what is compared with what, and what is a baseline."""

from __future__ import annotations

from tests.e2e.runner import BASE_BRANCH_RUN, HEAD_SHA, OWN_RUN, PULL, Runner, Step, orders
from tests.fakes.github import FakeGitHub, sha

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
