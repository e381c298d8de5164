"""What `replay` and `replay-exec` print of their reports."""

from __future__ import annotations

from collections.abc import Callable

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


VERDICT = ("policy", "passed", "failed")
PINS = [pin("python.version"), pin("python.build"), pin("platform.machine", allowed=True)]
REPORTS = {
    "the same verdicts": judged_again(),
    "other verdicts": judged_again(
        replay_passed=False, summary_match=False, replayed_summary=scenarios.run("candidate", 12, 10).summary,
        redacted_cases=1,
        case_mismatches=[mismatch("refund", ("regex", "failed", "passed"), VERDICT),
                         mismatch("greeting", fields=("passed", "trials")), mismatch("farewell")],
    ),
    "more than ten differences": judged_again(
        replay_passed=False, env_match=False,
        case_mismatches=[mismatch(f"case-{number:02}", VERDICT) for number in range(12)],
        env_mismatches=[pin(f"python.{number:02}") for number in range(11)],
    ),
    "another environment": judged_again(replay_passed=False, env_match=False, env_mismatches=PINS),
    "an environment that may differ": judged_again(env_match=False, env_mismatches=PINS[2:]),
    "an agent that does the same": run_again(),
    "an agent that does something else": run_again(
        execution_replay_passed=False, environment_counts=False,
        trace_mismatches=[strayed("refund", "event 2: another tool"), strayed("greeting", "one event more")],
        case_mismatches=[mismatch("refund", VERDICT)],
        env_mismatches=[EnvironmentMismatch(field="python.version", saved="3.11", current="3.12")],
    ),
}  # fmt: skip


def said(report: ReplayReport | ReplayExecReport, path: str | None = None, *, colour: bool = False) -> str:
    if isinstance(report, ReplayReport):
        return replay_text(report, path, colour=colour)
    return replay_exec_text(report, path, colour=colour)


def test_replays_look_as_agreed(golden: Callable[[str, str], None]) -> None:
    texts = [f"# {name}\n{said(report, 'replay.json')}\n" for name, report in REPORTS.items()]
    golden("terminal/replays.txt", "\n".join(texts))
    assert "Report" not in said(judged_again()) + said(run_again())


def test_colour_says_what_the_words_say() -> None:
    assert said(judged_again(), colour=True).startswith("\x1b[32mThe replay passed.\x1b[0m")
    lost = run_again(execution_replay_passed=False, trace_mismatches=[strayed("refund", "another tool")])
    assert said(lost, colour=True).startswith("\x1b[31m12 cases run again: 1 differs.\x1b[0m")


def test_hostile_names_are_text_alone() -> None:
    cases = [mismatch(HOSTILE, (HOSTILE, "passed", "failed"))]
    pins = [PinnedDifference(field=HOSTILE, saved=HOSTILE, current=HOSTILE)]
    differing = judged_again(replay_passed=False, case_mismatches=cases, env_match=False, env_mismatches=pins)
    strays = run_again(execution_replay_passed=False, trace_mismatches=[strayed(HOSTILE, HOSTILE)])
    for text in (said(differing, HOSTILE), said(strays, HOSTILE)):
        assert "\x1b" not in text
        assert "::" not in text
