"""`run-loop`, and `run --agent`: run an agent over a suite, judge what it does, and seal the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_eval.agents.base import Agent, AgentOptions, Tools
from agent_eval.agents.cassette import Cassette, open_cassette
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.agents.tools import CaseTools
from agent_eval.config.assembly import recorded_fields
from agent_eval.config.spec import AgentSpec, Judging, RunSpec
from agent_eval.contracts import (
    AgentDescription,
    Case,
    CaseResultRow,
    ExecutionConfig,
    RunConfig,
    RunSummary,
    VerdictRow,
)
from agent_eval.contracts.trials import CasePolicy
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.engine.agent_run import Execution, ExecutionPlan, execute
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.scheduler import Retries
from agent_eval.engine.scoring import score_suite
from agent_eval.engine.shard import written_config
from agent_eval.engine.trial import TrialPlan
from agent_eval.errors import (
    FailureKind,
    InvalidInput,
    NotEvaluable,
    NothingMeasured,
    StorageError,
    UsageError,
)
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.layout import is_complete_pack, may_be_replaced
from agent_eval.evidence.reader import Pack
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.resume import open_journal
from agent_eval.operations.run import judge_plan, run_config, stated_policy
from agent_eval.processes.pool import SUPERVISORS
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes
from agent_eval.storage.journal import Journal
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.suites.select import ChosenCases, choose

LOOP_MODE = "propose_execute_repair"
"""`RunConfig.execution_mode` of every run of an agent."""


@dataclass(frozen=True)
class RunLoopResult:
    """A run of an agent: its configuration and summary, its pack, and why it ended early, if it did."""

    config: RunConfig
    summary: RunSummary
    pack: Path
    stopped: str
    progress: RunProgress

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.config.run_id


def run_agent(
    spec: RunSpec,
    *,
    environ: Mapping[str, str],
    redactor: Redactor | None = None,
    source: SuiteSource | None = None,
    options: AgentOptions | None = None,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    stop: Callable[[], str] = lambda: "",
) -> RunLoopResult:
    """Run an agent over a suite and write the pack, sealed.

    What has finished is in a journal beside the pack (`resume.journal_path`) until the pack is complete.

    More than six parameters: specification and environment are needed, each of the others replaces a default.

    Args:
        spec: What to run, the agent among it, and what to record of it.
        environ: The environment variables; they may pin clocks and run id.
        redactor: Knows the secrets; those of `environ` by default.
        source: The suite, where it is open already.
        options: Settings of the agent; those that `agent_options` makes of the specification by default.
        on_progress: Called several times a second. May raise, as Ctrl-C does.
        stop: Asked several times a second why the run shall end, in words; empty while it shall not. What has
            finished by then is in the pack.

    Raises:
        InvalidInput: Suite, judge or configuration is wrong; nothing has been run.
        UsageError: There is no such agent; `out` is no pack of ours; an earlier start was of something else,
            or is not to be resumed.
        NothingMeasured: There is no case, or a limit was reached before one was done.
        RunInterrupted: `stop` ended it, and there is no pack to show for it.
        NotEvaluable: The agent cannot be run at all; the disk is full.
    """
    how = spec.agent
    if how is None:
        raise ValueError("the specification names no agent")
    redactor = redactor or redactor_for(environ)
    options = options or agent_options(how, environ)
    chosen = choose(source or open_suite(spec.suite), spec.cases, spec.shard)
    plan = judge_plan(spec.judging, judge_names(spec.judging))
    with closing(open_agent(how.called(spec.identity.model), options)) as agent:
        stated = execution_config(spec, agent, chosen, plan.case_policy)
        config = run_config(spec, chosen.suite, plan, environ, execution_config=stated)
        config = written_config(config.model_copy(update={"execution_mode": LOOP_MODE}), redactor)
        may_be_replaced(spec.output.pack)
        named = spec.identity.run_id or environ.get(clock.RUN_ID_VARIABLE, "").strip() or None
        journal, config = open_journal(spec.output.pack, config, resume=how.resume, run_id=named)
        with journal, _nothing_left_of_nothing(journal):
            cassette = _cassette(how, options, is_resumed=not journal.is_empty)
            trial = TrialPlan(
                agent=agent,
                judges=plan.load(),
                tools=_tools(how, cassette),
                max_repairs=how.max_repairs,
                attempt_limits=spec.limits.attempt,
                limits=spec.limits.trial,
                share_expected_output=how.share_expected_output,
                clocks=clock.clocks(environ),
            )
            run = _Run(spec, how, plan, config, redactor, journal, cassette)
            return run.go(chosen.suite, trial, on_progress, stop)


def agent_options(agent: AgentSpec, environ: Mapping[str, str]) -> AgentOptions:
    """Read the texts and secrets that an agent's specification names.

    Raises:
        UsageError: A header's variable is not set.
        InvalidInput: The system prompt cannot be read.
    """
    return AgentOptions(
        environ=environ,
        repair_command=agent.repair_command,
        pass_on=agent.environment,
        headers={name: _stated(variable, environ) for name, variable in agent.headers},
        base_url=agent.base_url,
        system=read_prompt(agent.system_prompt) if agent.system_prompt is not None else None,
    )


def _stated(variable: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if not value:
        raise UsageError(
            f"agent-header names the environment variable {variable}, which is not set.",
            remedy="Set it to the value of the header.",
            field="agent-header",
        )
    return value


@contextmanager
def _nothing_left_of_nothing(journal: Journal) -> Iterator[None]:
    """Take away a journal without a single trial, where the run fails: there is nothing to go on with."""
    try:
        yield
    except BaseException:
        if journal.is_empty:
            with suppress(StorageError):
                journal.remove()
        raise


class RunInterrupted(NotEvaluable):
    """A run was ended by somebody before there was a pack to show for it."""

    code = "interrupted"


@dataclass(frozen=True)
class _Run:
    """A run that is about to begin."""

    spec: RunSpec
    how: AgentSpec
    plan: JudgePlan
    config: RunConfig
    redactor: Redactor
    journal: Journal
    cassette: Cassette | None

    def go(
        self,
        source: SuiteSource,
        trial: TrialPlan,
        on_progress: Callable[[RunProgress], None],
        stop: Callable[[], str],
    ) -> RunLoopResult:
        """Execute, then score what was executed."""
        output = self.spec.output
        plan = self._execution(trial)
        try:
            done = execute(source, plan, self.journal, on_progress=on_progress, stop=stop)
        except NothingMeasured as nothing:
            if why := stop():
                SUPERVISORS.end_children()
                raise RunInterrupted(f"{why} before any case was done") from nothing
            raise
        self._end_interrupted(done)
        self._write_cassette()
        summary = score_suite(
            done.suite,
            self.plan,
            self.config,
            output.pack,
            layout=output.layout,
            workers=self.spec.judging.workers,
            redactor=self.redactor,
            complete=done.complete,
        )
        if output.summary_json is not None:
            write_output(output.summary_json, dumps(summary.to_json(), indent=True))
        if done.complete:
            self.journal.remove()
        return RunLoopResult(self.config, summary, output.pack, done.stopped, done.progress)

    def _execution(self, trial: TrialPlan) -> ExecutionPlan:
        return ExecutionPlan(
            trial=trial,
            trials=self.how.trials,
            policy=self.plan.case_policy,
            parallel=None if self.how.parallel == "auto" else self.how.parallel,
            # Live tools may keep something between calls, which all trials of a run share.
            workers=1 if self.how.tools else self.spec.judging.workers,
            limits=self.spec.limits.run,
            retries=Retries(),
            redactor=self.redactor,
            keep_calls=self.cassette.keep if self.cassette is not None else lambda _: None,
        )

    def _end_interrupted(self, done: Execution) -> None:
        """After an interruption: end what was begun, and see that no better pack is lost.

        Raises:
            RunInterrupted: The pack of an earlier run that is complete stays where it is.
        """
        if not done.interrupted:
            return
        SUPERVISORS.end_children()
        if is_complete_pack(self.spec.output.pack):
            raise RunInterrupted(
                f"{done.stopped}; {done.progress.done:,} of {done.progress.total:,} trials were run, and the "
                f"complete pack of an earlier run at {self.spec.output.pack} was left as it is"
            )

    def _write_cassette(self) -> None:
        if self.how.cassette is not None and self.cassette is not None and self.cassette.mode != "replay":
            write_file(self.how.cassette[1], self.cassette.to_bytes())


def judge_names(judging: Judging) -> tuple[str, ...]:
    """The judges of a run of an agent: those asked for, and whether it came to its end."""
    names = judging.judges or DEFAULT_JUDGES
    return names if EXECUTION in names else (*names, EXECUTION)


def execution_config(spec: RunSpec, agent: Agent, chosen: ChosenCases, policy: CasePolicy) -> ExecutionConfig:
    """What a pack records of how an agent was run: what decides its verdicts, no secrets."""
    cassette = spec.agent.cassette if spec.agent is not None else None
    return ExecutionConfig(
        selected_cases=chosen.case_ids,
        shard=chosen.shard,
        case_policy=stated_policy(policy),
        agent=AgentDescription.model_validate(agent.describe()),
        cassette=cassette[0] if cassette is not None else None,
        **recorded_fields(spec),
    )


def _cassette(how: AgentSpec, options: AgentOptions, *, is_resumed: bool) -> Cassette | None:
    """What live tools answered, or answer now; None where there are none.

    What trials of an earlier start recorded is in the journal, whatever became of the file.
    """
    live = None
    if how.tools:
        live = open_tool_server(how.tools, headers=options.headers, retry=Retries())
    if how.cassette is None:
        return None if live is None else Cassette("record", live=live)
    mode, path = how.cassette
    if mode == "record" and is_resumed and live is not None:
        return Cassette(mode, live=live)
    return open_cassette(path, mode, live)


def _tools(how: AgentSpec, cassette: Cassette | None) -> Callable[[Case], Tools]:
    """What answers the tool calls of an attempt."""

    def tools(case: Case) -> Tools:
        beyond = cassette.attempt(case.case_id) if cassette is not None else None
        return CaseTools(case, strict=how.strict_side_effects, beyond=beyond)

    return tools


def refuse_unreachable(pack: Pack, suite: Path) -> None:
    """Refuse a run in which something between this program and the agent failed in every trial.

    Args:
        pack: What the run left, which stays where it is.
        suite: What to call the run in messages.

    Raises:
        NotEvaluable: It says nothing of the agent.
    """
    if may_be_unreachable(pack.summary) and all(map(_was_unreachable, pack.results())):
        raise NotEvaluable(
            f"{suite}: the agent could not be reached in any of {pack.summary.total_cases} cases.",
            remedy="Check that it runs and that its address is right; the evidence has each error.",
            file=str(suite),
        )


def may_be_unreachable(summary: RunSummary) -> bool:
    """Whether it is worth looking at the cases."""
    return summary.passed_cases == 0 and FailureKind.INFRASTRUCTURE.value in summary.failures


def _was_unreachable(row: CaseResultRow) -> bool:
    trials: Sequence[Mapping[str, Sequence[VerdictRow]]] = row.get("trials") or [row]  # type: ignore[assignment]
    return all(_says_so(trial["verdicts"]) for trial in trials)


def _says_so(verdicts: Sequence[VerdictRow]) -> bool:
    return any(
        verdict["judge_id"] == EXECUTION and verdict["failure"] == FailureKind.INFRASTRUCTURE
        for verdict in verdicts
    )


LARGEST_PROMPT = 1 << 20


def read_prompt(path: Path) -> str:
    """The text of a file.

    Raises:
        InvalidInput: It is missing, larger than a MiB, or not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes=LARGEST_PROMPT).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None
