"""`stability-check`: find the cases whose results differ between trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log
from pathlib import Path
from statistics import pstdev
from tempfile import TemporaryDirectory

from agent_eval.comparison.facts import trials_of
from agent_eval.config.spec import AgentSpec, Judging, Limits, Output, RunSpec
from agent_eval.contracts import Outcome
from agent_eval.contracts.trials import (
    CaseStability,
    ShareInterval,
    StabilityReport,
    StabilityRun,
    StabilitySummary,
    pass_curve,
)
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.shard import judge, refuse_unjudgeable
from agent_eval.errors import NotEvaluable, NothingMeasured
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.statistics import wilson
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.operations.resume import LOOP_MODE
from agent_eval.operations.run import judge_plan
from agent_eval.operations.run_agent import judge_names, run_agent
from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, refuse_unjudged, refuse_unreachable
from agent_eval.suites.reader import open_suite
from agent_eval.suites.select import choose, refuse_duplicates
from agent_eval.text.escape import one_line

NOTABLE_FLAKE = 0.05
"""A case counts as steady once a flake of this rate would have shown."""
QUARANTINE_BELOW = 0.98


Trial = tuple[str, bool]
"""The outcome of one case in one run, and whether a hard judge failed."""


def stability(
    trials: Mapping[str, Sequence[Trial]],
    *,
    dataset_id: str,
    execution_mode: str,
    judge_names: Sequence[str] = (),
) -> StabilityReport:
    """Report on repeated runs: the trials of each case by its id, in run order, at least two a case.

    Skipped trials, in which no judge had anything to judge, count only where a case has no others. A flaky
    case that passes less often than `QUARANTINE_BELOW` should be quarantined.

    Raises:
        NothingMeasured: There is no case, or a case has fewer than two runs.
    """
    short = [case_id for case_id, runs in trials.items() if len(runs) < 2]
    if not trials or short:
        raise NothingMeasured(
            "stability needs at least two runs of every case",
            remedy="Ask for more runs, or record several trials of every case.",
            case_id=short[0] if short else None,
        )
    cases = [_case(case_id, trials[case_id]) for case_id in sorted(trials)]
    runs = []
    for number in range(max(map(len, trials.values()))):
        ended = _counted([outcomes[number] for outcomes in trials.values() if number < len(outcomes)])
        passed = sum(outcome == Outcome.PASSED for outcome, _ in ended)
        runs.append(
            StabilityRun(
                run_index=number,
                cases=len(ended),
                passed_cases=passed,
                hard_fail_cases=sum(hard_failed for _, hard_failed in ended),
                pass_rate=passed / len(ended),
            )
        )
    flaky = [case.case_id for case in cases if case.flaky]
    failing = [case.case_id for case in cases if case.consistently_failing]
    quarantine = [case.case_id for case in cases if case.quarantine_recommended]
    return StabilityReport(
        dataset_id=dataset_id,
        runs=len(runs),
        execution_mode=execution_mode,
        judge_names=list(judge_names),
        run_results=runs,
        case_stability=cases,
        pass_curve=pass_curve((case.pass_count, case.runs, 1) for case in cases),
        flaky_case_ids=flaky,
        consistently_failing_case_ids=failing,
        quarantine_recommended_case_ids=quarantine,
        summary=StabilitySummary(
            cases=len(cases),
            avg_pass_rate=sum(case.pass_rate for case in cases) / len(cases),
            pass_rate_stddev=pstdev(run.pass_rate for run in runs),
            flaky_cases=len(flaky),
            consistently_failing_cases=len(failing),
            quarantine_recommended_cases=len(quarantine),
        ),
    )


def _counted(trials: Sequence[Trial]) -> Sequence[Trial]:
    return [trial for trial in trials if trial[0] != Outcome.SKIPPED] or trials


def runs_to_see_flake(rate: float) -> int:
    """Compute after how many runs a case that fails with chance `rate` has failed with a chance of 95 %.

    The smallest n with 1 - (1 - rate)^n >= 0.95.
    """
    return max(1, ceil(log(0.05) / log(1 - rate)))


def _case(case_id: str, trials: Sequence[Trial]) -> CaseStability:
    trials = _counted(trials)
    total, passed = len(trials), sum(outcome == Outcome.PASSED for outcome, _ in trials)
    rate = passed / total
    flaky = 0 < passed < total
    needed = runs_to_see_flake(min(rate, 1 - rate) if flaky else NOTABLE_FLAKE)
    quarantine = flaky and rate < QUARANTINE_BELOW
    if passed == 0:
        reason = f"Failed all {total} runs: a defect, not a flake."
    elif passed == total:
        trusted = "" if total >= needed else f"; {needed} runs would rule out a flake of {NOTABLE_FLAKE:.0%}"
        reason = f"Passed all {total} runs{trusted}."
    elif quarantine:
        reason = (
            f"Passed {passed} of {total} runs, below {QUARANTINE_BELOW:g}: quarantine it until it is steady."
        )
    else:
        reason = f"Passed {passed} of {total} runs: flaky, but no less than {QUARANTINE_BELOW:g} of the time."
    return CaseStability(
        case_id=case_id,
        runs=total,
        pass_count=passed,
        hard_fail_count=sum(hard_failed for _, hard_failed in trials),
        pass_rate=rate,
        confidence_95=ShareInterval(**wilson(passed, total)._asdict()),
        flaky=flaky,
        consistently_failing=passed == 0,
        flake_score=2 * passed * (total - passed) / (total * (total - 1) or 1),
        minimum_runs=needed,
        quarantine_recommended=quarantine,
        reason=reason,
    )


RECORDED_MODE = "trace_score"


@dataclass(frozen=True, kw_only=True)
class StabilityRequest:
    """Request for `check_recorded` or `check_agent`.

    `runs` is the number of runs of the agent, or of judgements of a case that was recorded once.
    """

    suite: Path
    runs: int = 5
    cases: tuple[str, ...] = ()
    agent: AgentSpec | None = None
    judging: Judging = field(default_factory=Judging)
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None


def check_recorded(request: StabilityRequest, *, environ: Mapping[str, str]) -> StabilityReport:
    """Judge the recorded trials of every case.

    A case that was recorded once is judged `runs` times. That shows whether its judges are deterministic, but
    nothing about the agent; the report has a note on it.

    Raises:
        InvalidInput: Suite, judge or configuration is invalid.
        NotEvaluable: No case could be judged.
        NothingMeasured: There is no case, no judge had anything to judge, or one run of it is requested.
    """
    source = choose(open_suite(request.suite), request.cases, None).suite
    judging = _asked_anew(request.judging)
    plan = judge_plan(judging, judging.judges or DEFAULT_JUDGES, environ)
    judges = plan.load()
    trials: dict[str, list[Trial]] = {}
    ids: list[str] = []
    recorded_once, measured, error = 0, False, ""
    for raw_case, case in (read for shard in source.shards for read in source.read(shard)):
        ids.append(case.case_id)
        refuse_unjudgeable(judges, raw_case, case, source.path)
        recorded = [case.of_trial(number) for number in range(case.trial_count)] if case.trials else []
        results = [judge(judges, trial, trial.recorded) for trial in recorded or [case] * request.runs]
        recorded_once += not case.trials
        measured |= any(result.outcome not in (Outcome.SKIPPED, Outcome.ERROR) for result in results)
        # The reason of the first error.
        errors = (each.reason for row in results for each in row.verdicts if each.outcome is Outcome.ERROR)
        error = error or one_line(next(errors, ""), limit=200).rstrip(".")
        trials[case.case_id] = [(result.outcome, result.hard_failed) for result in results]
    refuse_duplicates(source, ids)
    if error and not measured:
        raise NotEvaluable(
            f"No case of `{request.suite}` could be judged: {error}.",
            remedy=RECORD_TRACES,
            file=str(request.suite),
        )
    if not measured:
        raise NothingMeasured(
            f"{request.suite}: nothing was measured: no judge had anything to judge in any case",
            remedy="Add cases, or name judges that apply to them.",
            file=str(request.suite),
        )
    dataset_id = source.header.dataset_id
    report = stability(trials, dataset_id=dataset_id, execution_mode=RECORDED_MODE, judge_names=plan.names)
    if recorded_once:
        note = (
            f"{recorded_once} of {len(trials)} cases were recorded once: their trace was judged "
            f"{request.runs} times, which says nothing of the agent. Record several trials, or give "
            "an agent to run."
        )
        report = report.model_copy(update={"notes": [note]})
    return report


def check_agent(
    request: StabilityRequest,
    agent: AgentSpec,
    *,
    environ: Mapping[str, str],
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> StabilityReport:
    """Run an agent over the suite, each case several times, and report on the trials.

    Raises:
        InvalidInput: Suite, judge or configuration is invalid; nothing has been run.
        NothingMeasured: There is no case.
        NotEvaluable: The agent cannot be run or is never reached, or a limit ended the run early.
    """
    with TemporaryDirectory(prefix="agent-eval-stability-") as directory:
        run = RunSpec(
            suite=request.suite,
            output=Output(pack=Path(directory) / "pack", layout="compact"),
            cases=request.cases,
            agent=replace(agent, trials=request.runs),
            judging=_asked_anew(request.judging),
            limits=request.limits,
        )
        result = run_agent(run, environ=environ, on_progress=on_progress)
        if result.stopped:
            raise NotEvaluable(
                f"the {request.runs} runs ended early: {result.stopped}",
                remedy="Raise the limit, or ask for fewer runs.",
            )
        pack = open_pack(result.pack)
        refuse_unreachable(result.pack, result.summary, request.suite)
        refuse_unjudged(result.pack, result.summary, name=str(request.suite), remedy=CHECK_THE_AGENT)
        trials = {
            row["case_id"]: [(trial["outcome"], trial["hard_failed"]) for trial in trials_of(row)]
            for row in pack.results()
        }
    names, dataset_id = judge_names(request.judging), result.config.dataset_id
    return stability(trials, dataset_id=dataset_id, execution_mode=LOOP_MODE, judge_names=names)


def _asked_anew(judging: Judging) -> Judging:
    """Let a judge that is a model be asked in each repetition, or it would agree with itself."""
    if judging.llm.cassette is not None:
        return judging
    return replace(judging, llm=replace(judging.llm, cassette_mode="record"))
