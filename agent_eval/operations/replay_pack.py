"""`replay`: judge a pack again, and compare verdicts, summary and environment with the pack's.

A pack is data: of the judges that it names, only built-in ones that start no program run. Others run if the
user names them, or if the user trusts the pack's commands and its signature was verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from agent_eval.attestations.files import Trust
from agent_eval.attestations.keys import PublicKey
from agent_eval.config.spec import Identity, Judging, Output
from agent_eval.contracts import REPLAY_CONTRACT, CaseResultRow, RunConfig, Tally, TrialResult, canonical_json
from agent_eval.contracts.replay import (
    CaseMismatch,
    EnvironmentMismatch,
    PinnedDifference,
    ReplayedVerdict,
    ReplayReport,
    TraceMismatch,
)
from agent_eval.errors import ExitCode, UsageError
from agent_eval.evidence.derived import clear_unfinished, write_output
from agent_eval.evidence.reader import Pack, refuse_incomplete, written_results
from agent_eval.evidence.redacted import without_secrets
from agent_eval.judges.catalog import load_judges
from agent_eval.operations import clock
from agent_eval.operations.environment import pinned_environment, redactor_for
from agent_eval.operations.packs import open_run
from agent_eval.operations.rejudge import RejudgeRequest, rejudge
from agent_eval.operations.run import read_settings
from agent_eval.operations.trusted_packs import open_trusted
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json import dumps

REPORT = Path("compare") / "replay_report.json"

JudgesFrom = Literal["pack", "signed pack", "command line"]

_OF_THE_AGENT = (
    *("agent_version", "model", "seed", "git_commit", "git_dirty", "dependency_lock_hash"),
    *("container_image", "prompt_hash", "policy_hash", "suite_digest"),
)
"""Pins in the configuration of a run that concern the agent and its inputs."""


EVENT_FIELDS = ("idx", "actor", "type", "tool", "input", "output", "error")
"""Fields of an event that must be equal. `ts`, `latency_ms`, call ids and attributes may differ."""

RESULT_FIELDS = tuple(name for name in TrialResult.model_fields if name not in ("verdicts", "score"))
"""Fields of a case's result that must be equal: all but the verdicts, which are compared judge by judge, and
the score, which follows from them and from today's weights of the judges."""

_MOST_CHARACTERS = 200


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


@dataclass(frozen=True)
class ReplayResult:
    """A report, and the file it was written to; None if it was not written. Returned by `replay`."""

    report: ReplayReport
    path: Path | None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return ExitCode.OK if self.report.replay_passed else ExitCode.NO


def replay(request: ReplayRequest, *, environ: Mapping[str, str]) -> ReplayResult:
    """Judge a pack again, and compare every verdict, the summary and the pinned environment.

    Raises:
        InvalidPack: The pack does not verify, or its run is not complete.
        UntrustedPack: None of the keys signed it.
        InvalidInput: A judge is unknown, or one of the pack runs code that is not trusted.
        UsageError: A key of `allowed_drift` is no pin; or commands are to be trusted without a public key.
    """
    if request.trust_commands and not request.public_keys:
        raise UsageError(
            "--trust-pack-commands runs what the pack names, so its signature must be verified first",
            remedy="Give the signer's public key with --public-key.",
            field="trust_pack_commands",
        )
    out = request.out or (request.pack / REPORT if request.pack.is_dir() else None)
    if out is not None:
        clear_unfinished(out)
    if request.public_keys:
        pack = open_trusted(request.pack, Trust(keys=request.public_keys)).pack
    else:
        pack = open_run(request.pack)
    refuse_incomplete(pack.name, pack.manifest)
    judges = judges_for(request.judging, pack, "signed pack" if request.trust_commands else "pack")
    saved, current = (_of_judges(env, judges) for env in (pack.config.pinned_env, pinned_environment()))
    drift = list(_drift(saved, current, request.allowed_drift))
    report = _report(pack, request.pack, judges, drift, environ)
    report = report.model_copy(update={"env_drift_allowed": list(request.allowed_drift)})
    report = without_secrets(report, redactor_for(environ))
    if out is not None:
        write_output(out, dumps(report.to_json(), indent=True))
    return ReplayResult(report, out)


def judges_for(judging: Judging, pack: Pack, source: JudgesFrom) -> JudgesAgain:
    """Choose the judges of a replay: those that the user names, else the pack's, on the word of `source`."""
    if judging.judges:
        configs = read_settings(judging.judge_config) if judging.judge_config else {}
        return JudgesAgain(judging.judges, configs, "command line")
    if judging.judge_config is not None:
        raise UsageError(
            "--judge-config goes with --judge",
            remedy="Name the judges, or leave the configuration to the pack.",
            field="judge_config",
        )
    return JudgesAgain(tuple(pack.config.judges), pack.config.judge_configs, source)


@dataclass(frozen=True)
class JudgesAgain:
    """The judges of a replay, their configuration, and on whose word they run."""

    names: tuple[str, ...]
    configs: Mapping[str, Any]
    source: JudgesFrom = "pack"


def judged_again(
    pack: Pack, path: Path, judges: JudgesAgain, directory: Path, *, environ: Mapping[str, str]
) -> Path:
    """Judge the trajectories of a pack again into a new pack, which is this process's own; return its path.

    Judges from an unsigned pack must be built in, and run no command. `directory` must be empty.
    """
    if judges.source == "pack":
        load_judges(judges.names, judges.configs, allow_plugins=False)
    judge_config = directory / "judges.json"
    write_file(judge_config, dumps(dict(judges.configs)))
    judging = Judging(judges=judges.names, judge_config=judge_config)
    output = Output(pack=directory / "pack", layout="compact")
    identity = Identity(run_id=pack.config.run_id)
    request = RejudgeRequest(pack=path, output=output, judging=judging, identity=identity)
    return rejudge(request, environ=environ, only_kept=True, opened=pack).pack


def mismatching_cases(saved: Pack, replayed: Path) -> Iterator[CaseMismatch]:
    """Yield the cases on which a verdict or another part of the result differs, in suite order."""
    for row, (again, _) in zip(saved.results(), written_results(replayed), strict=True):
        mismatch = case_mismatch(row, again)
        if mismatch is not None:
            yield mismatch


def _report(
    pack: Pack,
    path: Path,
    judges: JudgesAgain,
    drift: list[PinnedDifference],
    environ: Mapping[str, str],
) -> ReplayReport:
    before, after = Tally(), Tally()
    with TemporaryDirectory(prefix="agent-eval-replay-") as directory:
        replayed = judged_again(pack, path, judges, Path(directory), environ=environ)
        cases = list(mismatching_cases(pack, replayed))
        for tally, rows in ((before, pack.results()), (after, (row for row, _ in written_results(replayed)))):
            for row in rows:
                tally.add_row(row)
            # What no judge looks at follows from cases and judges; older packs do not say.
            tally.fields_not_judged.clear()
            tally.answers_not_checked = 0
            tally.judging.clear()  # kept rulings cost nothing the second time
    config = pack.config
    summaries = [tally.summary(config.run_id, config.dataset_id) for tally in (before, after)]
    same = summaries[0] == summaries[1]
    counted = [difference for difference in drift if not difference.allowed]
    return ReplayReport(
        run_id=config.run_id,
        dataset_id=config.dataset_id,
        manifest_sha256=pack.manifest_sha256,
        generated_at=clock.timestamp(environ),
        judges=list(judges.names),
        judges_from=judges.source,
        cases=summaries[0].total_cases,
        replay_passed=same and not cases and not counted,
        summary_match=same,
        saved_summary=summaries[0],
        replayed_summary=summaries[1],
        case_mismatches=cases,
        env_match=not drift,
        env_mismatches=drift,
        pins=_of_judges(config.pinned_env, judges),
        pins_of_agent=_pins_of_agent(pack, config),
        redacted_cases=config.execution_config.redacted_cases or 0,
    )


def _pins_of_agent(pack: Pack, config: RunConfig) -> dict[str, Any]:
    stated = config.to_json()
    pins = {name: stated[name] for name in _OF_THE_AGENT if stated.get(name) not in (None, "unknown")}
    reported = sorted({model for row in pack.index() for model in row["models"]})
    return {**pins, "models_reported": reported} if reported else pins


def _of_judges(environment: Mapping[str, Any], judges: JudgesAgain) -> dict[str, Any]:
    """Copy a pinned environment without the versions of judges that do not judge."""
    versions = environment.get("judges")
    if not isinstance(versions, Mapping):
        return dict(environment)
    judging = {REPLAY_CONTRACT, *judges.names}
    return {**environment, "judges": {name: versions[name] for name in versions if name in judging}}


def _drift(
    saved: Mapping[str, Any], current: Mapping[str, Any], allowed: Iterable[str]
) -> Iterator[PinnedDifference]:
    keys = tuple(allowed)
    known = {*_pins(saved), *_pins(current)}
    for key in keys:
        if not any(_covers(key, pin) for pin in known):
            raise UsageError(
                f"--allow-env-drift {key}: there is no such pin",
                remedy=f"Name one of {', '.join(sorted({pin.partition('.')[0] for pin in known}))}; "
                "or one package or judge, as packages.orjson.",
                field="allow_env_drift",
            )
    for difference in environment_mismatches(dict(saved), dict(current)):
        may_differ = any(_covers(key, difference.field) for key in keys)
        yield PinnedDifference(**difference.to_json(), allowed=may_differ)


def _pins(environment: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from _pins(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _covers(key: str, pin: str) -> bool:
    return pin == key or pin.startswith(f"{key}.")


def case_mismatch(saved: CaseResultRow, replayed: CaseResultRow) -> CaseMismatch | None:
    """Describe how the verdicts on a case differ; None if they do not.

    Compares the outcome and the kind of failure of every judge in every trial, and every field of the case's
    result (`RESULT_FIELDS`) that both packs have.
    """
    judges = [
        ReplayedVerdict(trial=trial, judge_id=judge_id, saved=before, replayed=after)
        for trial, (first, second) in enumerate(zip(_trials(saved), _trials(replayed), strict=False))
        for judge_id, before, after in _judges(first, second)
    ]
    fields = [name for name in RESULT_FIELDS if _differs(name, saved, replayed)]
    if not fields and not judges and len(_trials(saved)) == len(_trials(replayed)):
        return None
    return CaseMismatch(
        case_id=saved["case_id"],
        saved_passed=saved["passed"],
        replayed_passed=replayed["passed"],
        saved_hard_failed=saved["hard_failed"],
        replayed_hard_failed=replayed["hard_failed"],
        judges=judges,
        fields=fields,
    )


def _differs(name: str, saved: Mapping[str, Any], replayed: Mapping[str, Any]) -> bool:
    # A pack of an older version may not have the field.
    return name in saved and name in replayed and saved[name] != replayed[name]


def trace_mismatch(saved: Mapping[str, Any], replayed: Mapping[str, Any]) -> TraceMismatch | None:
    """Describe how two trajectories of a case differ; None if they do not.

    Compares the events (`EVENT_FIELDS`) of every trial, the selected attempt, and the agent's answer in each
    attempt.
    """
    before, after = _recordings(saved), _recordings(replayed)
    for trial, (first, second) in enumerate(zip(before, after, strict=False)):
        difference = _difference(first, second)
        if difference:
            return _trace_mismatch(saved, trial, first, second, difference)
    if len(before) != len(after):
        trial = min(len(before), len(after))
        difference = f"has {len(before)} trials, now {len(after)}"
        return _trace_mismatch(saved, trial, before[-1], after[-1], difference)
    return None


def environment_mismatches(saved: Any, current: Any, place: str = "") -> Iterator[EnvironmentMismatch]:
    """Yield every difference between two pinned environments."""
    if isinstance(saved, dict | None) and isinstance(current, dict | None):
        before, now = saved or {}, current or {}
        for name in sorted(before.keys() | now.keys()):
            inner = f"{place}.{name}" if place else name
            yield from environment_mismatches(before.get(name), now.get(name), inner)
    elif saved != current:
        yield EnvironmentMismatch(field=place, saved=saved, current=current)


def _trials(row: CaseResultRow) -> Sequence[Mapping[str, Any]]:
    return row.get("trials") or [row]


def _judges(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    before, after = _outcomes(first), _outcomes(second)
    for judge_id in dict.fromkeys([*before, *after]):
        if before.get(judge_id) != after.get(judge_id):
            yield judge_id, before.get(judge_id, "absent"), after.get(judge_id, "absent")


def _outcomes(trial: Mapping[str, Any]) -> dict[str, str]:
    """Map each judge to its outcome, with the kind of failure."""
    return {
        verdict["judge_id"]: verdict["outcome"] + (f" ({verdict['failure']})" if verdict["failure"] else "")
        for verdict in trial["verdicts"]
    }


def _recordings(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the trials of a case; each has `trace` and `metadata`."""
    return [case, *(case.get("trials") or [])]


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    before, after = _events(first), _events(second)
    for number, (event, other) in enumerate(zip(before, after, strict=False)):
        for name in EVENT_FIELDS:
            if canonical_json(event.get(name)) != canonical_json(other.get(name)):
                return f"event {number}: {name} was {_short(event.get(name))}, now {_short(other.get(name))}"
    if len(before) != len(after):
        return f"had {len(before)} events, now {len(after)}"
    if _selected(first) != _selected(second):
        return f"attempt {_selected(first)} was selected, now {_selected(second)}"
    answers, answers_now = _answers(first), _answers(second)
    for number, (answer, answer_now) in enumerate(zip(answers, answers_now, strict=False)):
        if answer != answer_now:
            return f"attempt {number}: the agent answered {_short(answer)}, now {_short(answer_now)}"
    return f"took {len(answers)} attempts, now {len(answers_now)}" if len(answers) != len(answers_now) else ""


def _trace_mismatch(
    case: Mapping[str, Any],
    trial: int,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    difference: str,
) -> TraceMismatch:
    return TraceMismatch(
        case_id=case["case_id"],
        trial=trial,
        saved_selected_attempt=_selected(first),
        replayed_selected_attempt=_selected(second),
        saved_event_count=len(_events(first)),
        replayed_event_count=len(_events(second)),
        difference=difference,
    )


def _events(recording: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(recording.get("trace") or [])


def _selected(recording: Mapping[str, Any]) -> int | None:
    selected = (recording.get("metadata") or {}).get("selected_attempt")
    return selected if isinstance(selected, int) else None


def _answers(recording: Mapping[str, Any]) -> list[Any]:
    history = (recording.get("metadata") or {}).get("attempt_history")
    attempts = history if isinstance(history, list) else []
    return [attempt.get("response") if isinstance(attempt, dict) else None for attempt in attempts]


def _short(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
