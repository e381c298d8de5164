"""What `replay` and `replay-exec` print of their reports."""

from __future__ import annotations

from agent_eval.contracts.replay import (
    CaseMismatch,
    EnvironmentMismatch,
    PinnedDifference,
    ReplayedVerdict,
    ReplayExecReport,
    ReplayReport,
    TraceMismatch,
)
from agent_eval.reports.terminal_replay import replay_exec_text, replay_text
from tests.unit.reports import scenarios

HOSTILE = "\x1b[2J::error::x"


SUMMARY = scenarios.run("candidate", 12, 12).summary
SAME = {
    "run_id": "candidate", "dataset_id": "support", "manifest_sha256": "0" * 64, "cases": 12,
    "generated_at": "2026-11-22T12:00:00+00:00", "replay_passed": True, "summary_match": True,
    "saved_summary": SUMMARY, "replayed_summary": SUMMARY,
}  # fmt: skip


def judged_again(**more: object) -> ReplayReport:
    judges = {"judges": ["policy"], "judges_from": "pack", "env_match": True}
    return ReplayReport.model_validate({**SAME, **judges, **more})


def run_again(**more: object) -> ReplayExecReport:
    agent = {"agent": {}, "trusted_by": "command line", "execution_replay_passed": True}
    return ReplayExecReport.model_validate({**SAME, **agent, **more})


def mismatch(case_id: str, *judges: tuple[str, str, str], fields: tuple[str, ...] = ()) -> CaseMismatch:
    verdicts = [
        ReplayedVerdict(trial=0, judge_id=judge_id, saved=saved, replayed=replayed)
        for judge_id, saved, replayed in judges
    ]
    return CaseMismatch(
        case_id=case_id, saved_passed=True, replayed_passed=False, saved_hard_failed=False,
        replayed_hard_failed=False, judges=verdicts, fields=list(fields),
    )  # fmt: skip


def strayed(case_id: str, difference: str) -> TraceMismatch:
    return TraceMismatch(
        case_id=case_id, trial=0, saved_selected_attempt=0, replayed_selected_attempt=0, saved_event_count=3,
        replayed_event_count=4, difference=difference,
    )  # fmt: skip


def pin(field: str, *, allowed: bool = False) -> PinnedDifference:
    return PinnedDifference(field=field, saved="3.11", current="3.12", allowed=allowed)


def test_a_replay_that_passes_says_so_and_where_its_report_is() -> None:
    assert replay_text(judged_again(), "replay.json").splitlines() == [
        "The replay passed.",
        "12 cases judged again: the same verdicts.",
        "Environment: every pin is the same.",
        "Report: replay.json",
    ]


def test_a_replay_that_differs_names_the_judge_that_objects_now_and_both_summaries() -> None:
    report = judged_again(
        replay_passed=False, summary_match=False, replayed_summary=scenarios.run("candidate", 12, 10).summary,
        redacted_cases=1,
        case_mismatches=[mismatch("refund", ("regex", "failed", "passed"), ("policy", "passed", "failed")),
                         mismatch("greeting", fields=("passed", "trials")), mismatch("farewell")],
    )  # fmt: skip
    assert replay_text(report, None).splitlines() == [
        "The replay did not pass.", "12 cases judged again: 3 differ.",
        "  refund: policy said passed, now failed", "  greeting: passed, trials differ",
        "  farewell: its trials differ", "  The judges saw text of 1 case that is redacted in the pack.",
        "Summary: 12 of 12 cases passed, now 10.", "Environment: every pin is the same.",
    ]  # fmt: skip


def test_more_than_ten_differences_end_in_a_number() -> None:
    verdict = ("policy", "passed", "failed")
    report = judged_again(
        replay_passed=False,
        case_mismatches=[mismatch(f"case-{number:02}", verdict) for number in range(12)],
        env_match=False,
        env_mismatches=[pin(f"python.{number:02}") for number in range(11)],
    )
    lines = replay_text(report, None).splitlines()
    assert lines[11:13] == [
        "  case-09: policy said passed, now failed",
        "  and 2 more",
    ]
    assert lines[-2:] == ["  python.09 was 3.11, is 3.12 here", "  and 1 more"]


def test_an_environment_that_differs_names_the_flag_that_allows_it() -> None:
    pins = [pin("python.version"), pin("python.build"), pin("platform.machine", allowed=True)]
    text = replay_text(judged_again(replay_passed=False, env_match=False, env_mismatches=pins), None)
    assert text.splitlines()[2:] == [
        "Environment: 3 pins differ. Where that is expected: --allow-env-drift python.",
        "  python.version was 3.11, is 3.12 here",
        "  python.build was 3.11, is 3.12 here",
        "  platform.machine was 3.11, is 3.12 here (allowed)",
    ]


def test_an_environment_that_may_differ_is_said_to_be_allowed() -> None:
    allowed = judged_again(env_match=False, env_mismatches=[pin("python.version", allowed=True)])
    assert "Environment: 1 pin differs, as --allow-env-drift allows." in replay_text(allowed, None)


def test_an_agent_that_does_the_same_again_is_said_in_one_line() -> None:
    assert replay_exec_text(run_again(), "replay.json").splitlines() == [
        "12 cases run again: the same trajectories, the same verdicts.",
        "Report: replay.json",
    ]


def test_an_agent_that_does_something_else_is_shown_with_what_differs_and_each_case_counts_once() -> None:
    report = run_again(
        execution_replay_passed=False,
        trace_mismatches=[strayed("refund", "event 2: another tool"), strayed("greeting", "one event more")],
        case_mismatches=[mismatch("refund", ("policy", "passed", "failed"))],
        env_mismatches=[EnvironmentMismatch(field="python.version", saved="3.11", current="3.12")],
        environment_counts=False,
    )
    assert replay_exec_text(report, None).splitlines() == [
        "12 cases run again: 2 differ.", "  refund: event 2: another tool", "  greeting: one event more",
        "  refund: policy said passed, now failed", "  python.version was 3.11, is 3.12 here",
        "  Differences of the environment do not count.",
    ]  # fmt: skip


def test_colour_says_what_the_words_say() -> None:
    assert replay_text(judged_again(), None, colour=True).startswith("\x1b[32mThe replay passed.\x1b[0m")
    lost = run_again(execution_replay_passed=False, trace_mismatches=[strayed("refund", "another tool")])
    assert replay_exec_text(lost, None, colour=True).startswith(
        "\x1b[31m12 cases run again: 1 differs.\x1b[0m"
    )


def test_hostile_names_are_text_alone() -> None:
    cases = [mismatch(HOSTILE, (HOSTILE, "passed", "failed"))]
    pins = [PinnedDifference(field=HOSTILE, saved=HOSTILE, current=HOSTILE)]
    differing = judged_again(replay_passed=False, case_mismatches=cases, env_match=False, env_mismatches=pins)
    strays = run_again(execution_replay_passed=False, trace_mismatches=[strayed(HOSTILE, HOSTILE)])
    for text in (replay_text(differing, HOSTILE), replay_exec_text(strays, HOSTILE)):
        assert "\x1b" not in text
        assert "::" not in text
