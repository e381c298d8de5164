"""`replay` and `replay --run-agent`: judge a pack again, or run its agent again, and compare with the pack.

A program, module or address that a pack names is never run on the pack's word alone. The user names it on the
command line, or trusts the pack: for its signature (`replay`), or because it was made on this machine or has
the digest that the user names (`replay --run-agent`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import agent_from_description
from agent_eval.attestations.files import Trust
from agent_eval.attestations.keys import PublicKey
from agent_eval.config.assembly import values_from_record
from agent_eval.config.spec import AgentSpec, Identity, Judging, Limits, Output, RunSpec
from agent_eval.contracts import REPLAY_CONTRACT, AgentDescription, CaseResultRow, ExecutionConfig, Tally
from agent_eval.contracts.replay import EnvironmentMismatch, PinnedDifference, ReplayExecReport, ReplayReport
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, InvalidPack, UsageError
from agent_eval.evidence.derived import clear_unfinished, is_pack, write_output
from agent_eval.evidence.layout import MANIFEST
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.evidence.redacted import without_secrets
from agent_eval.judges.catalog import load_judges
from agent_eval.operations import clock
from agent_eval.operations.agent_setup import agent_options
from agent_eval.operations.environment import pinned_environment, redactor_for
from agent_eval.operations.packs import open_run
from agent_eval.operations.rejudge import (
    JudgesAgain,
    PackDocument,
    case_mismatch,
    judge_again,
    judges_for,
    trace_mismatch,
)
from agent_eval.operations.resume import LOOP_MODE, differences
from agent_eval.operations.run import Overrides
from agent_eval.operations.run_agent import run_agent
from agent_eval.operations.trust import open_trusted
from agent_eval.operations.unjudged import refuse_unreachable
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import MARKERS

REPORT = Path("compare") / "replay_report.json"
EXEC_REPORT = Path("compare") / "replay_exec_report.json"
COMMAND_LINE, MADE_HERE, NAMED_DIGEST, NOTHING_RUN = (
    "command line",
    "made here",
    "named digest",
    "nothing run",
)

EVERY_PIN = "all"
"""Key of `allowed_drift` that covers every pin."""

_OF_THE_AGENT = (
    *("agent_version", "model", "seed", "git_commit", "git_dirty", "dependency_lock_hash"),
    *("container_image", "prompt_hash", "policy_hash", "suite_digest"),
)
"""Pins in the configuration of a run that concern the agent and its inputs."""


@dataclass(frozen=True)
class ReplayResult:
    """A report, and the file it was written to; None if it was not written."""

    report: ReplayReport | ReplayExecReport
    path: Path | None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return ExitCode.OK if self.report.replay_passed else ExitCode.NO


def _report_path(pack: Path, out: Path | None, default: Path) -> Path | None:
    """Return where the report goes, without what an interrupted run left there; None for an archive."""
    out = out or (pack / default if pack.is_dir() else None)
    if out is not None:
        clear_unfinished(out)
    return out


def _written(report: ReplayReport | ReplayExecReport, out: Path | None) -> ReplayResult:
    if out is not None:
        write_output(out, dumps(report.to_json(), indent=True))
    return ReplayResult(report, out)


def _results(
    pack: Pack, pairs: Iterable[tuple[CaseResultRow, CaseResultRow]], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Compare stored with new results; return what both kinds of report say of it."""
    cases, tallies = [], (Tally(), Tally())
    for saved, now in pairs:
        for tally, row in zip(tallies, (saved, now), strict=True):
            tally.add_row(row)
        if (mismatch := case_mismatch(saved, now)) is not None:
            cases.append(mismatch)
    for tally in tallies:
        # What no judge looks at follows from cases and judges; older packs do not say.
        tally.fields_not_judged.clear()
        tally.nearly_forbidden.clear()
        tally.models.clear()  # kept rulings cost nothing the second time
    before, after = (tally.summary(pack.config.run_id, pack.config.dataset_id) for tally in tallies)
    return {
        "run_id": pack.config.run_id,
        "dataset_id": pack.config.dataset_id,
        "manifest_sha256": pack.manifest_sha256,
        "generated_at": clock.timestamp(environ),
        "cases": before.total_cases,
        "summary_match": before == after,
        "saved_summary": before,
        "replayed_summary": after,
        "case_mismatches": cases,
    }


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """Request for `replay`.

    Attributes:
        out: File of the report; None for its default path in the pack.
        allowed_drift: Keys of pins that may differ: `python`, or `packages` for every package, or
            `packages.orjson` for one.
        public_keys: Public keys, one of which must have signed the pack; empty not to check a signature.
        trust_commands: Whether judges of the pack may run commands and be imported; needs a public key.
    """

    pack: Path
    out: Path | None = None
    judging: Judging = field(default_factory=Judging)
    allowed_drift: tuple[str, ...] = ()
    public_keys: tuple[PublicKey, ...] = ()
    trust_commands: bool = False


@contextmanager
def _as_no_match(pack: Path) -> Iterator[None]:
    """Give a pack that is there and does not verify the exit code of one that replays otherwise."""
    try:
        yield
    except InvalidPack as error:
        if pack.is_file() or is_pack(pack):
            error.exit_code = ExitCode.NO
        raise


def replay(request: ReplayRequest, *, environ: Mapping[str, str]) -> ReplayResult:
    """Judge a pack again, and compare every verdict, the summary and the pinned environment.

    Raises:
        InvalidPack: The pack does not verify, which is no match; or its run is not complete.
        UntrustedPack: None of the keys signed it.
        InvalidInput: A judge is unknown, or one of the pack runs code that is not trusted.
        UsageError: A key of `allowed_drift` is no pin; or commands are to be trusted without a public key.
    """
    if request.trust_commands and not request.public_keys:
        raise UsageError(
            "--trust-pack signed runs what the pack names, so its signature must be verified first",
            remedy="Give the signer's public key with --public-key.",
            field="trust_pack",
        )
    out = _report_path(request.pack, request.out, REPORT)
    with _as_no_match(request.pack):
        if request.public_keys:
            pack = open_trusted(request.pack, Trust(keys=request.public_keys)).pack
        else:
            pack = open_run(request.pack)
    refuse_incomplete(pack.name, pack.manifest)
    judges = judges_for(request.judging, pack, "signed pack" if request.trust_commands else "pack")
    config, redactor = pack.config, redactor_for(environ)
    saved, current = (_of_judges(each, judges) for each in (config.pinned_env, pinned_environment()))
    drift = _drift(saved, current, request.allowed_drift)
    judge = judge_again(pack, judges, environ=environ)
    results = _results(pack, ((stored, judge(case)) for case, stored in pack.cases()), environ)
    stated = config.to_json()
    pins = {name: stated[name] for name in _OF_THE_AGENT if stated.get(name) not in (None, "unknown")}
    if reported := sorted({model for row in pack.index() for model in row["models"]}):
        pins["models_reported"] = reported
    is_same = results["summary_match"] and not results["case_mismatches"]
    report = ReplayReport(
        **results,
        judges=list(judges.names),
        judges_from=judges.source,
        replay_passed=is_same and all(difference.allowed for difference in drift),
        env_match=not drift,
        env_mismatches=drift,
        env_drift_allowed=list(request.allowed_drift),
        pins=saved,
        pins_of_agent=pins,
        redacted_cases=config.execution_config.redacted_cases or 0,
    )
    return _written(without_secrets(report, redactor), out)


def _of_judges(environment: Mapping[str, Any], judges: JudgesAgain) -> dict[str, Any]:
    """Copy a pinned environment without the versions of judges that do not judge."""
    versions = environment.get("judges")
    if not isinstance(versions, Mapping):
        return dict(environment)
    judging = {REPLAY_CONTRACT, *judges.names}
    return {**environment, "judges": {name: versions[name] for name in versions if name in judging}}


def _drift(saved: dict[str, Any], current: dict[str, Any], allowed: Iterable[str]) -> list[PinnedDifference]:
    def covers(key: str, pin: str) -> bool:
        return key == EVERY_PIN or pin == key or pin.startswith(f"{key}.")

    known, keys = {*_pins(saved), *_pins(current)}, tuple(allowed)
    for key in keys:
        if not any(covers(key, pin) for pin in known) and key != EVERY_PIN:
            raise UsageError(
                f"--allow-env-drift {key}: there is no such pin",
                remedy=f"Name one of {', '.join(sorted({pin.partition('.')[0] for pin in known}))}; "
                "or one package or judge, as packages.orjson; or all.",
                field="allow_env_drift",
            )
    return [
        PinnedDifference(field=pin, saved=was, current=now, allowed=any(covers(key, pin) for key in keys))
        for pin, was, now in differences(saved, current)
    ]


def _pins(environment: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Name every pin, also one whose value is null: a package that is not installed."""
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from _pins(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


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


def replay_exec(
    request: ReplayExecRequest,
    *,
    environ: Mapping[str, str],
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> ReplayResult:
    """Run the agent on the cases of a pack, and compare traces and verdicts.

    Raises:
        InvalidInput: The pack is not of a run of an agent, or its judges may not be used.
        UsageError: The pack's agent is not trusted, and the request names none.
        NotEvaluable: The agent cannot be run, or is never reached.
    """
    out = _report_path(request.pack, request.out, EXEC_REPORT)
    with _as_no_match(request.pack):
        pack = open_run(request.pack)
    execution, described = pack.config.execution_config, pack.config.execution_config.agent
    if pack.config.execution_mode != LOOP_MODE:
        raise InvalidInput(
            f"{request.pack} holds recorded traces: no agent was run, so none can be run again",
            remedy="Name the pack of a run with --agent.",
            file=str(request.pack),
        )
    if described is None:
        raise InvalidInput(
            f"{request.pack} does not say how its agent was run: it has no execution_config.agent",
            remedy="Run the agent again with this version.",
            file=str(request.pack),
            field="execution_config.agent",
        )
    trusted_by = _trust(request, pack, described, environ)
    judges = judges_for(request.judging, pack, "pack")
    if judges.source == "pack":  # an untrusted one gets only built-in judges that run no program
        trusted = trusted_by in (MADE_HERE, NAMED_DIGEST)
        load_judges(judges.names, judges.configs, allow_plugins=trusted)
    agent, options = _agent(request, execution, described, trusted_by, environ)
    with TemporaryDirectory(prefix="agent-eval-replay-") as directory:
        spec = RunSpec(
            suite=request.pack,
            output=Output(pack=Path(directory) / "pack", layout="compact"),
            cases=request.cases,
            agent=agent,
            judging=Judging(
                judges=judges.names,
                configs=judges.configs,
                case_policy=execution.case_policy or "all",
                llm=request.judging.llm,
            ),
            limits=Limits(attempt=execution.attempt_limits, trial=execution.case_limits),
            identity=Identity(run_id=pack.config.run_id, seed=pack.config.seed),
        )
        source = PackDocument(request.pack, pack).source()
        overrides = Overrides(source=source, options=options, baseline=pack)
        done = run_agent(spec, environ=environ, overrides=overrides, on_progress=on_progress)
        refuse_unreachable(done.pack, done.summary, request.pack)
        report = _compared(request, pack, open_pack(done.pack), trusted_by, environ)
    return _written(report, out)


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
    if server is None and agent.cassette is None:
        server = execution.tool_server if trusted_by in (MADE_HERE, NAMED_DIGEST) else None
        if server is None and (execution.cassette or execution.tool_server):
            raise UsageError(
                "the agent's tools were live or recorded, and the pack does not hold their answers",
                remedy="Give --cassette with the file of recorded answers, or --tools.",
                field="cassette",
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
    request: ReplayExecRequest, saved: Pack, replayed: Pack, trusted_by: str, environ: Mapping[str, str]
) -> ReplayExecReport:
    again, rows = replayed.results(), saved.results_by_id()
    results = _results(saved, ((rows[row["case_id"]], row) for row in again), environ)
    traces = [
        mismatch
        for case_id in (row["case_id"] for row in again)
        if (mismatch := trace_mismatch(saved.raw_trajectory(case_id), replayed.raw_trajectory(case_id)))
    ]
    environment = [
        EnvironmentMismatch(field=pin, saved=was, current=now)
        for pin, was, now in differences(saved.config.pinned_env, pinned_environment())
    ]
    same = results["summary_match"] and not results["case_mismatches"] and not traces
    passed = same and (not environment or request.ignore_environment)
    agent = replayed.config.execution_config.agent
    return ReplayExecReport(
        **results,
        agent=agent.to_json() if agent is not None else {},
        trusted_by=trusted_by,
        execution_replay_passed=passed,
        replay_passed=passed,
        trace_mismatches=traces,
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
        known = [line for line in _own_digests(environ) if line != digest]
        write_file(file, "".join(f"{line}\n" for line in [*known, digest][-MOST_OWN_PACKS:]).encode())


def is_own(manifest_sha256: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the pack with this manifest was made on this machine."""
    return manifest_sha256 in _own_digests(environ)


def _own_digests(environ: Mapping[str, str]) -> list[str]:
    file = own_packs_file(environ)
    try:
        data = b"" if file is None else read_bytes(file, max_bytes=_LARGEST)
    except (AgentEvalError, OSError):
        return []
    return [line for line in data.decode("ascii", "replace").splitlines() if _DIGEST.fullmatch(line)]
