"""`replay-exec`: run the agent of a pack again, and compare its traces and verdicts with the pack's.

A program, module or address that a pack names is never run on the pack's word alone. The user names the agent
on the command line, or the pack was made on this machine, or the user names the digest of a pack to trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import agent_from_description
from agent_eval.config.assembly import values_from_record
from agent_eval.config.spec import AgentSpec, Identity, Judging, Limits, Output, RunSpec
from agent_eval.contracts import AgentDescription, ExecutionConfig, SuiteHeader, Tally
from agent_eval.contracts.replay import ReplayExecReport
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, UsageError
from agent_eval.evidence.derived import clear_unfinished, write_output
from agent_eval.evidence.layout import MANIFEST
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.judges.catalog import load_judges
from agent_eval.operations import clock
from agent_eval.operations.agent_setup import agent_options
from agent_eval.operations.environment import pinned_environment
from agent_eval.operations.packs import open_run
from agent_eval.operations.rejudge import PackDocument
from agent_eval.operations.replacing import LOOP_MODE, refuse_unreachable
from agent_eval.operations.replay_pack import (
    case_mismatch,
    environment_mismatches,
    judges_for,
    trace_mismatch,
)
from agent_eval.operations.run_agent import run_agent
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import MARKERS
from agent_eval.suites.reader import SuiteSource

REPORT = Path("compare") / "replay_exec_report.json"
COMMAND_LINE, MADE_HERE, NAMED_DIGEST, NOTHING_RUN = (
    "command line",
    "made here",
    "named digest",
    "nothing run",
)


@dataclass(frozen=True, kw_only=True)
class ReplayExecRequest:
    """Request for `replay_exec`.

    Attributes:
        out: File of the report; None for its default path in the pack.
        agent: The agent to run; if it names none, the agent that a trusted pack names is run. Of its other
            settings, only `tools`, `replay` and `parallel` count; the rest is the pack's.
        trusted_digest: sha256 of the manifest of a pack whose agent may be run.
        cases: Ids of the cases to run; all if empty.
        ignore_environment: Whether differences of the environment are only reported.
    """

    pack: Path
    out: Path | None = None
    agent: AgentSpec = field(default_factory=AgentSpec)
    trusted_digest: str | None = None
    judging: Judging = field(default_factory=Judging)
    cases: tuple[str, ...] = ()
    ignore_environment: bool = False


@dataclass(frozen=True)
class ReplayExecResult:
    """A report, and the file it was written to; None if it was not written."""

    report: ReplayExecReport
    path: Path | None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return ExitCode.OK if self.report.execution_replay_passed else ExitCode.NO


def replay_exec(
    request: ReplayExecRequest,
    *,
    environ: Mapping[str, str],
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> ReplayExecResult:
    """Run the agent on the cases of a pack, and compare traces and verdicts.

    Raises:
        InvalidInput: The pack is not of a run of an agent, or its judges may not be used.
        UsageError: The pack's agent is not trusted, and the request names none.
        NotEvaluable: The agent cannot be run, or is never reached.
    """
    out = request.out or (request.pack / REPORT if request.pack.is_dir() else None)
    if out is not None:
        clear_unfinished(out)
    pack = open_run(request.pack)
    execution, described = _recorded_execution(request.pack, pack)
    trusted_by = _trust(request, pack, described, environ)
    judges = judges_for(request.judging, pack, "pack")
    if judges.source == "pack":  # an untrusted one gets only built-in judges that run no program
        trusted = trusted_by in (MADE_HERE, NAMED_DIGEST)
        load_judges(judges.names, judges.configs, allow_plugins=trusted)
    agent, options = _agent(request, execution, described, trusted_by, environ)
    document = PackDocument(request.pack, pack)
    source = SuiteSource(document, SuiteHeader.model_validate(document.raw_header))
    with TemporaryDirectory(prefix="agent-eval-replay-") as directory:
        judge_config = Path(directory) / "judges.json"
        write_file(judge_config, dumps(dict(judges.configs)))
        spec = RunSpec(
            suite=request.pack,
            output=Output(pack=Path(directory) / "pack", layout="compact"),
            cases=request.cases,
            agent=agent,
            judging=Judging(
                judges=judges.names,
                judge_config=judge_config,
                case_policy=execution.case_policy or "all",
                llm=request.judging.llm,
            ),
            limits=Limits(attempt=execution.attempt_limits, trial=execution.case_limits),
            identity=Identity(run_id=pack.config.run_id, seed=pack.config.seed),
        )
        done = run_agent(
            spec,
            environ=environ,
            source=source,
            options=options,
            on_progress=on_progress,
            baseline=pack,
        )
        replayed = open_pack(done.pack)
        refuse_unreachable(replayed, request.pack)
        report = _compared(request, pack, replayed, environ)
    report = report.model_copy(update={"trusted_by": trusted_by})
    if out is not None:
        write_output(out, dumps(report.to_json(), indent=True))
    return ReplayExecResult(report, out)


def _recorded_execution(run: Path, pack: Pack) -> tuple[ExecutionConfig, AgentDescription]:
    """Read the execution config and the agent's description from a pack."""
    if pack.config.execution_mode != LOOP_MODE:
        raise InvalidInput(
            f"{run} holds recorded traces: no agent was run, so none can be run again",
            remedy="Name the pack of run-loop, or of run --agent.",
            file=str(run),
        )
    execution = pack.config.execution_config
    if execution.agent is None:
        raise InvalidInput(
            f"{run} does not say how its agent was run: it has no execution_config.agent",
            remedy="Run the agent again with this version.",
            file=str(run),
            field="execution_config.agent",
        )
    return execution, execution.agent


def _trust(
    request: ReplayExecRequest, pack: Pack, described: AgentDescription, environ: Mapping[str, str]
) -> str:
    """Return the reason why the agent may be run."""
    digest = pack.manifest_sha256
    if request.trusted_digest is not None:
        if request.trusted_digest.lower() != digest:
            raise UsageError(
                f"{request.pack} is not the pack that --trust-pack names",
                remedy="Give the sha256 of the manifest.json that you have checked.",
                file=str(request.pack),
                manifest_sha256=digest,
            )
        return NAMED_DIGEST
    if is_own(digest, environ):
        return MADE_HERE
    if request.agent.names_one:
        return COMMAND_LINE
    if described.kind == "recorded":
        return NOTHING_RUN
    raise UsageError(
        f"{request.pack} was not made here, so the agent that it names is not run",
        remedy="Name the agent with --agent-command or --agent; or, if you trust the pack's source, give "
        "--trust-pack with its manifest_sha256.",
        file=str(request.pack),
        agent=described.to_json(),
        manifest_sha256=digest,
    )


def _agent(
    request: ReplayExecRequest,
    execution: ExecutionConfig,
    described: AgentDescription,
    trusted_by: str,
    environ: Mapping[str, str],
) -> tuple[AgentSpec, AgentOptions]:
    """Choose the agent and its settings: those of the pack, except for what the request sets."""
    agent = request.agent
    options = agent_options(agent, environ)
    if not agent.names_one:
        name, options = recorded_agent(described.to_json(), options)
        agent = replace(agent, name=name)
    server = agent.tools
    if server is None and agent.replay is None:
        server = execution.tool_server if trusted_by in (MADE_HERE, NAMED_DIGEST) else None
        if server is None and (execution.cassette or execution.tool_server):
            raise UsageError(
                "the agent's tools were live or recorded, and the pack does not hold their answers",
                remedy="Give --replay with the file of recorded answers, or --tools.",
                field="replay",
            )
    recorded = {
        place.removeprefix("agent."): value
        for place, value in values_from_record(execution).items()
        if place.startswith("agent.")
    }
    return replace(agent, **{**recorded, "tools": server}), options


def recorded_agent(described: Mapping[str, Any], options: AgentOptions) -> tuple[str, AgentOptions]:
    """Make the name and options of a pack's agent from its description: the inverse of `Agent.describe`.

    Args:
        described: `execution_config.agent` of a trusted pack, or of one whose agent is `recorded`.
        options: Options from the command line, which override the description.
    """
    try:
        if MARKERS.search(dumps(dict(described))):
            raise ValueError("a secret in it was not written")
        return agent_from_description(described, options)
    except (KeyError, TypeError, ValueError) as problem:
        raise UsageError(
            f"the agent cannot be run from what the pack says of it: {problem}",
            remedy="Name it with --agent-command or --agent.",
            field="execution_config.agent",
        ) from None


def _compared(
    request: ReplayExecRequest, saved: Pack, replayed: Pack, environ: Mapping[str, str]
) -> ReplayExecReport:
    rows = {row["case_id"]: row for row in saved.results()}
    before, after = Tally(), Tally()
    cases, traces = [], []
    for row in replayed.results():
        case_id = row["case_id"]
        before.add_row(rows[case_id])
        after.add_row(row)
        cases.append(case_mismatch(rows[case_id], row))
        traces.append(trace_mismatch(saved.raw_trajectory(case_id), replayed.raw_trajectory(case_id)))
    # What no judge looks at follows from cases and judges, not from the agent; older packs do not say.
    # Judging again costs less where rulings are kept.
    for tally in (before, after):
        tally.fields_not_judged.clear()
        tally.judging.clear()
    names = saved.config.run_id, saved.config.dataset_id
    agent = replayed.config.execution_config.agent
    summaries = before.summary(*names), after.summary(*names)
    environment = list(environment_mismatches(saved.config.pinned_env, pinned_environment()))
    case_mismatches = [mismatch for mismatch in cases if mismatch is not None]
    trace_mismatches = [mismatch for mismatch in traces if mismatch is not None]
    same = summaries[0] == summaries[1] and not case_mismatches and not trace_mismatches
    passed = same and (not environment or request.ignore_environment)
    return ReplayExecReport(
        run_id=names[0],
        dataset_id=names[1],
        manifest_sha256=saved.manifest_sha256,
        generated_at=clock.timestamp(environ),
        agent=agent.to_json() if agent is not None else {},
        trusted_by="",
        cases=len(cases),
        execution_replay_passed=passed,
        replay_passed=passed,
        summary_match=summaries[0] == summaries[1],
        saved_summary=summaries[0],
        replayed_summary=summaries[1],
        case_mismatches=case_mismatches,
        trace_mismatches=trace_mismatches,
        env_mismatches=environment,
        environment_counts=not request.ignore_environment,
    )


MOST_OWN_PACKS = 2_000
"""Maximum number of digests in the list of own packs; the oldest are removed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 20


def own_packs_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file with the digests of packs made on this machine; None without a home directory."""
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "agent-eval" / "own_packs"
    home = environ.get("HOME", "")
    return Path(home) / ".local" / "state" / "agent-eval" / "own_packs" if home.startswith("/") else None


def remember_pack(pack: Path, environ: Mapping[str, str]) -> None:
    """Add a pack to the list of packs made on this machine. Errors are ignored: the list is a convenience."""
    file = own_packs_file(environ)
    if file is None:
        return
    with suppress(AgentEvalError, OSError):
        digest, _ = sha256_file(pack / MANIFEST)
        known = [line for line in _digests(file) if line != digest]
        write_file(file, "".join(f"{line}\n" for line in [*known, digest][-MOST_OWN_PACKS:]).encode())


def is_own(manifest_sha256: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the pack with this manifest was made on this machine."""
    file = own_packs_file(environ)
    return file is not None and manifest_sha256 in _digests(file)


def _digests(file: Path) -> list[str]:
    try:
        lines = read_bytes(file, max_bytes=_LARGEST).decode("ascii", "replace").splitlines()
    except (AgentEvalError, OSError):
        return []
    return [line for line in lines if _DIGEST.fullmatch(line)]
