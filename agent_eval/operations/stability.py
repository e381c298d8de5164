"""`stability-check`: find the cases whose results differ between trials."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from agent_eval.config.spec import AgentSpec, Identity, Judging, Limits, Output, RunSpec
from agent_eval.contracts import Case, Outcome
from agent_eval.contracts.trials import StabilityReport
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.shard import id_hash, judge, refuse_unjudgeable
from agent_eval.errors import ExitCode, NotEvaluable, NothingMeasured, UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack, refuse_incomplete
from agent_eval.gate.stability import TrialOutcome, stability
from agent_eval.judges.base import Judge
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.operations.resume import LOOP_MODE
from agent_eval.operations.run import judge_plan
from agent_eval.operations.run_agent import (
    judge_names,
    run_agent,
)
from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, refuse_unjudged, refuse_unreachable
from agent_eval.storage.json import dumps
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.suites.select import choose, refuse_duplicates
from agent_eval.text.escape import one_line

RECORDED_MODE = "trace_score"
FEWEST_RUNS = 2
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


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


@dataclass(frozen=True)
class StabilityResult:
    """A report, and the file it was written to; None if it was not written."""

    report: StabilityReport
    path: Path | None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return ExitCode.NO if self.report.flaky_case_ids else ExitCode.OK


def check_recorded(
    request: StabilityRequest, *, environ: Mapping[str, str] = NO_ENVIRONMENT
) -> StabilityResult:
    """Judge the recorded trials of every case.

    A case that was recorded once is judged `runs` times. That shows whether its judges are deterministic, but
    nothing about the agent; the report has a note on it.

    Raises:
        InvalidInput: Suite, judge or configuration is invalid.
        NotEvaluable: No case could be judged.
        NothingMeasured: There is no case, or no judge had anything to judge.
        UsageError: Fewer than two runs are requested.
    """
    _refuse_too_few(request.runs)
    source = choose(open_suite(request.suite), request.cases, None).suite
    judging = request.judging
    if judging.llm.cassette is None:
        # Each repetition asks the model again, or it would agree with itself.
        judging = replace(judging, llm=replace(judging.llm, cassette_mode="record"))
    plan = judge_plan(judging, judging.judges or DEFAULT_JUDGES, environ)
    judges = plan.load()
    trials: dict[str, list[TrialOutcome]] = {}
    recorded_once = 0
    measured, error = False, ""
    for case in _cases(source, judges):
        recorded = [case.of_trial(number) for number in range(case.trial_count)] if case.trials else []
        results = [judge(judges, trial, trial.recorded) for trial in recorded or [case] * request.runs]
        recorded_once += not case.trials
        measured |= any(result.outcome not in (Outcome.SKIPPED, Outcome.ERROR) for result in results)
        # The reason of the first error.
        errors = (each.reason for row in results for each in row.verdicts if each.outcome is Outcome.ERROR)
        error = error or one_line(next(errors, ""), limit=200).rstrip(".")
        trials[case.case_id] = [_outcome(result.outcome, result.hard_failed) for result in results]
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
    report = stability(
        trials,
        dataset_id=source.header.dataset_id,
        execution_mode=RECORDED_MODE,
        judge_names=plan.names,
    )
    if recorded_once:
        note = (
            f"{recorded_once} of {len(trials)} cases were recorded once: their trace was judged "
            f"{request.runs} times, which says nothing of the agent. Record several trials, or give "
            "an agent to run."
        )
        report = report.model_copy(update={"notes": [note]})
    return _written(report, request)


def check_agent(
    request: StabilityRequest,
    *,
    environ: Mapping[str, str],
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> StabilityResult:
    """Run an agent over the suite several times.

    Raises:
        InvalidInput: Suite, judge or configuration is invalid; nothing has been run.
        NothingMeasured: There is no case.
        NotEvaluable: The agent cannot be run or is never reached, or a limit ended a run early.
        UsageError: Fewer than two runs are requested, or the agent's tools are to be recorded.
    """
    _refuse_too_few(request.runs)
    agent = request.agent
    if agent is None:
        raise ValueError("the request names no agent")
    if agent.resume or (agent.cassette is not None and agent.cassette_mode != "replay"):
        raise UsageError(
            "several runs cannot share one recording of tools, and are not resumed",
            remedy="Leave out --resume, and --tools beside --cassette.",
        )
    trials: dict[str, list[TrialOutcome]] = {}
    dataset_id = ""
    with TemporaryDirectory(prefix="agent-eval-stability-") as directory:
        for number in range(request.runs):
            run = RunSpec(
                suite=request.suite,
                output=Output(pack=Path(directory) / str(number), layout="compact"),
                cases=request.cases,
                agent=agent,
                judging=request.judging,
                limits=request.limits,
                identity=Identity(run_id=f"stability-{number}"),
            )
            result = run_agent(run, environ=environ, on_progress=on_progress)
            if result.stopped:
                raise NotEvaluable(
                    f"run {number + 1} of {request.runs} ended early: {result.stopped}",
                    remedy="Raise the limit, or ask for fewer runs.",
                )
            dataset_id = result.config.dataset_id
            pack = open_pack(result.pack)
            refuse_incomplete(pack.name, pack.manifest)
            refuse_unreachable(result.pack, result.summary, request.suite)
            refuse_unjudged(result.pack, result.summary, name=str(request.suite), remedy=CHECK_THE_AGENT)
            for row in pack.results():
                trials.setdefault(row["case_id"], []).append(_outcome(row["outcome"], row["hard_failed"]))
    report = stability(
        trials,
        dataset_id=dataset_id,
        execution_mode=LOOP_MODE,
        judge_names=judge_names(request.judging),
    )
    return _written(report, request)


def _cases(source: SuiteSource, judges: Sequence[Judge]) -> Iterator[Case]:
    ids = array("Q")
    for shard in source.shards:
        for raw_case, case in source.read(shard):
            ids.append(id_hash(case.case_id))
            refuse_unjudgeable(judges, raw_case, case, source.path)
            yield case
    refuse_duplicates(source, ids)


def _outcome(outcome: str, hard_failed: bool) -> TrialOutcome:
    return TrialOutcome(outcome == Outcome.PASSED, hard_failed, judged=outcome != Outcome.SKIPPED)


def _refuse_too_few(runs: int) -> None:
    if runs < FEWEST_RUNS:
        raise UsageError(
            f"{runs} run cannot disagree with itself",
            remedy=f"Ask for at least {FEWEST_RUNS} with --runs.",
            field="runs",
        )


def _written(report: StabilityReport, request: StabilityRequest) -> StabilityResult:
    if request.out is not None:
        write_output(request.out, dumps(report.to_json(), indent=True))
    return StabilityResult(report, request.out)
