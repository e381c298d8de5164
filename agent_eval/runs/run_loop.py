"""`run-loop`, and `run --agent`: run an agent over a suite, judge what it does, and seal the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.agents.cassette import Cassette, Mode, open_cassette
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.options import AgentOptions
from agent_eval.agents.protocol import Agent, AttemptLimits, Tools
from agent_eval.agents.tool_server import open_tool_server
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case, RunConfig, RunSummary
from agent_eval.contracts.trials import case_policy
from agent_eval.engine.execute import Execution, ExecutionPlan, execute
from agent_eval.engine.limits import RunLimits, TrialLimits
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.progress import Standing
from agent_eval.engine.redacted import written_config
from agent_eval.engine.repair import TrialPlan
from agent_eval.engine.retries import Retries
from agent_eval.engine.score import score_suite
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.destination import may_be_replaced
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.judges.execution import EXECUTION
from agent_eval.runs import clock
from agent_eval.runs.resume import journal_path, open_journal
from agent_eval.runs.run import RunRequest, read_judge_configs, run_config, stated_policy
from agent_eval.runs.secrets import redactor_for
from agent_eval.runs.select import choose
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json_writer import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource, open_suite

LOOP_MODE = "propose_execute_repair"
"""`RunConfig.execution_mode` of every run of an agent."""

MOST_PARALLEL = 256


@dataclass(frozen=True, kw_only=True)
class AgentRequest:
    """Which agent is run, and how.

    Attributes:
        agent: What is tested, in one of the forms of `agents.catalog`.
        options: Settings of the agent.
        trials: How often each case is run.
        max_repairs: Attempts after the first one.
        attempt: What each attempt may use.
        trial: What all attempts of a case may use.
        run: What the whole run may use.
        strict_side_effects: Whether a tool call without an answer fails the attempt.
        share_expected_output: Whether the agent is handed the expected output.
        tool_server: Live tools, as `module:function` or an address.
        cassette: File of recorded answers of live tools, and what is done with it.
        parallel: How many cases at once; None for as many as the provider takes.
        resume: Whether to go on with what an earlier start left.
    """

    agent: str
    options: AgentOptions = field(default_factory=AgentOptions)
    trials: int = 1
    max_repairs: int = 0
    attempt: AttemptLimits = field(default_factory=AttemptLimits)
    trial: TrialLimits = field(default_factory=TrialLimits)
    run: RunLimits = field(default_factory=RunLimits)
    strict_side_effects: bool = False
    share_expected_output: bool = False
    tool_server: str | None = None
    cassette: tuple[Mode, Path] | None = None
    parallel: int | None = 1
    resume: bool = False


@dataclass(frozen=True)
class RunLoopResult:
    """A run of an agent: its configuration and summary, its pack, and why it ended early, if it did."""

    config: RunConfig
    summary: RunSummary
    pack: Path
    stopped: str
    standing: Standing

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.config.run_id


def run_agent(
    request: RunRequest,
    how: AgentRequest,
    *,
    environ: Mapping[str, str],
    redactor: Redactor | None = None,
    source: SuiteSource | None = None,
    on_progress: Callable[[Standing], None] = lambda _: None,
) -> RunLoopResult:
    """Run an agent over a suite and write the pack, sealed.

    What has finished is in a journal beside the pack (`resume.journal_path`) until the pack is complete.

    Args:
        request: What to run, and what to record of it.
        how: The agent.
        environ: The environment variables; they may pin clocks and run id.
        redactor: Knows the secrets; those of `environ` by default.
        source: The suite, where it is open already.
        on_progress: Called several times a second. May raise, as Ctrl-C does.

    Raises:
        InvalidInput: Suite, judge or configuration is wrong; nothing has been run.
        UsageError: There is no such agent; `out` is no pack of ours; an earlier start was of something else,
            or is not to be resumed.
        NothingMeasured: There is no case, or a limit was reached before one was done.
        NotEvaluable: The agent cannot be run at all; the disk is full.
    """
    redactor = redactor or redactor_for(environ)
    source, chosen = choose(source or open_suite(request.suite), request.cases, request.shard)
    names = judge_names(request)
    configs = read_judge_configs(request.judge_config, names) if request.judge_config else {}
    policy = case_policy(request.case_policy)
    plan = JudgePlan(names=names, configs=configs, case_policy=policy)
    agent = open_agent(how.agent, how.options)
    stated = {**chosen, **stated_policy(policy), **execution_config(how, agent)}
    config = run_config(request, source, names, configs, environ, execution_config=stated)
    config = written_config(config.model_copy(update={"execution_mode": LOOP_MODE}), redactor)
    may_be_replaced(request.out)
    named = request.run_id or environ.get(clock.RUN_ID_VARIABLE, "").strip() or None
    journal, config = open_journal(request.out, config, resume=how.resume, run_id=named)
    with journal:
        with _tools(how) as tools:
            trial = TrialPlan(
                agent=agent,
                judges=plan.load(),
                tools=tools,
                max_repairs=how.max_repairs,
                attempt_limits=how.attempt,
                limits=how.trial,
                share_expected_output=how.share_expected_output,
                clocks=clock.clocks(environ),
            )
            done = execute(
                source,
                ExecutionPlan(
                    trial=trial,
                    trials=how.trials,
                    policy=plan.case_policy,
                    parallel=how.parallel,
                    limits=how.run,
                    retries=Retries(),
                    redactor=redactor,
                ),
                journal,
                on_progress=on_progress,
            )
        summary = score_suite(
            done.suite,
            plan,
            config,
            request.out,
            layout=request.layout,
            workers=request.workers,
            redactor=redactor,
            complete=done.complete,
        )
        if request.summary_json is not None:
            write_output(request.summary_json, dumps(summary.to_json(), indent=True))
        if done.complete:
            journal.remove()
    return _result(config, summary, request, done)


def _result(config: RunConfig, summary: RunSummary, request: RunRequest, done: Execution) -> RunLoopResult:
    return RunLoopResult(config, summary, request.out, done.stopped, done.standing)


def judge_names(request: RunRequest) -> tuple[str, ...]:
    """The judges of a run of an agent: those asked for, and whether it came to its end."""
    names = request.judges or DEFAULT_JUDGES
    return names if EXECUTION in names else (*names, EXECUTION)


def execution_config(how: AgentRequest, agent: Agent) -> dict[str, Any]:
    """What a pack says of how an agent was run: what decides its verdicts, no secrets.

    How many cases ran at once and what the whole run might use are left out: they decide none.
    """
    return {
        "agent": agent.describe(),
        "trials": how.trials,
        "max_repairs": how.max_repairs,
        "strict_side_effects": how.strict_side_effects,
        "share_expected_output": how.share_expected_output,
        "attempt_limits": {
            name: getattr(how.attempt, name)
            for name in ("seconds", "output_bytes", "steps", "tool_calls", "tokens")
        },
        "case_limits": how.trial.to_json(),
        **({"tool_server": how.tool_server} if how.tool_server else {}),
        **({"cassette": how.cassette[0]} if how.cassette else {}),
    }


@contextmanager
def _tools(how: AgentRequest) -> Iterator[Callable[[Case], Tools]]:
    """What answers tool calls; what was recorded is written in the end, also of a run that was ended."""
    live = open_tool_server(how.tool_server, headers=how.options.headers) if how.tool_server else None
    cassette: Cassette | None = None
    if how.cassette is not None:
        mode, path = how.cassette
        if mode == "record" and how.resume and path.exists():
            mode = "update"
        cassette = open_cassette(path, mode, live)
    elif live is not None:
        cassette = Cassette("record", live=live)

    def tools(case: Case) -> Tools:
        beyond = cassette.attempt(case.case_id) if cassette is not None else None
        return CaseTools(case, strict=how.strict_side_effects, beyond=beyond)

    try:
        yield tools
    finally:
        if how.cassette is not None and cassette is not None and how.cassette[0] != "replay":
            write_file(how.cassette[1], cassette.to_bytes())


def resume_hint(out: Path) -> str:
    """Where what was done is kept, for a run that was ended."""
    path = journal_path(out)
    return f"What has finished is in {path}; the same command with --resume goes on." if path.exists() else ""
