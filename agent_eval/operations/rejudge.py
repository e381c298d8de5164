"""Judge stored trajectories again, without running an agent, and say what is judged otherwise.

`rejudge` writes a new pack. `replay` and `verify` judge a pack again to compare the verdicts. A pack is data:
of the judges that it names, only built-in ones that start no program run, unless somebody vouches for others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from agent_eval.config.spec import Identity, Judging, Output
from agent_eval.contracts import Case, CaseResultRow, RejudgedFrom, SuiteHeader, TrialResult, canonical_json
from agent_eval.contracts.replay import CaseMismatch, ReplayedVerdict, TraceMismatch
from agent_eval.contracts.trials import ALL
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.engine.scoring import score_suite
from agent_eval.engine.shard import judge_trials
from agent_eval.errors import NothingMeasured, UsageError
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.evidence.writer import result_row
from agent_eval.judges.catalog import load_judges, validate_case
from agent_eval.judges.code import code_digests
from agent_eval.operations import clock
from agent_eval.operations.environment import pinned_environment, redactor_for
from agent_eval.operations.models import kept_replies, reuse_rulings
from agent_eval.operations.packs import open_run
from agent_eval.operations.resume import refuse_to_lose
from agent_eval.operations.run import RunResult, checked_run_id, configs_of, judge_plan
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules
from agent_eval.suites.aui import JUDGES as OF_CONVERSATIONS
from agent_eval.suites.document import Document, Place, RawCase, Shard, whole_shards
from agent_eval.suites.reader import SuiteSource

JudgesFrom = Literal["pack", "signed pack", "command line"]

EVENT_FIELDS = ("idx", "actor", "type", "tool", "input", "output", "error")
"""Fields of an event that must be equal. `ts`, `latency_ms`, call ids and attributes may differ."""

RESULT_FIELDS = tuple(name for name in TrialResult.model_fields if name not in ("verdicts", "score"))
"""Fields of a case's result that must be equal: all but the verdicts, which are compared judge by judge, and
the score, which follows from them and from today's weights of the judges."""

_MOST_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class RejudgeRequest:
    """Request for `rejudge`.

    Attributes:
        judging: Never from the pack; without judges, those of a suite of conversations if the pack is of one.
        identity: Its `run_id` is the id of the new run; the rest is ignored, since the agent is the pack's.
    """

    pack: Path
    output: Output
    judging: Judging
    identity: Identity = field(default_factory=Identity)
    redaction: RedactionRules = NO_RULES


class PackDocument(Document):
    """A suite whose cases are the trajectories of a pack."""

    is_evidence = True

    def __init__(self, path: Path, pack: Pack) -> None:
        self.path = path
        self.digest = pack.config.suite_digest or pack.manifest_sha256
        self.raw_header = {"dataset_id": pack.config.dataset_id, "metadata": pack.config.dataset_metadata}
        self.header_line = None
        self.problems = []
        self._ids = pack.case_ids()
        self._pack = pack
        self.shards = whole_shards(len(self._ids))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        for position in range(shard.first, shard.first + shard.count):
            case_id = self._ids[position]
            raw, artifacts = self._pack.raw_trajectory(case_id), self._pack.artifacts(case_id)
            yield RawCase(Place(position), raw, artifacts=artifacts)

    def source(self) -> SuiteSource:
        """Return the suite as a run takes one."""
        return SuiteSource(self, SuiteHeader.model_validate(self.raw_header))


def rejudge(request: RejudgeRequest, *, environ: Mapping[str, str]) -> RunResult:
    """Judge every trajectory of a pack with the named judges, and seal the result as a new run.

    Args:
        environ: May pin clock and run id; values of variables whose names look secret are not written.

    Raises:
        InvalidPack: The pack does not verify, or its run is not complete.
        InvalidInput: A judge or its configuration is invalid; nothing has been written.
        UsageError: No judge is named; or `out` is the pack itself, or something that is not an evidence pack.
    """
    if os.path.realpath(request.output.pack) == os.path.realpath(request.pack):
        raise UsageError(
            f"{request.output.pack} is the pack to judge again",
            remedy="Give --out another path; the pack stays as it is.",
            file=str(request.output.pack),
        )
    refuse_to_lose(request.output)
    redactor = redactor_for(environ, *request.judging.llm.secrets, rules=request.redaction)
    pack = open_run(request.pack)
    # The new pack states that it has every case of the run.
    refuse_incomplete(pack.name, pack.manifest)
    output, judging, stated = request.output, request.judging, pack.config
    names = judging.judges
    if not names:  # those that a pack names are never used
        if stated.dataset_metadata.get("format") != "aui":
            raise UsageError(
                "no judge is named",
                remedy="Name at least one with --judge; the judges that the pack names are not used.",
                field="judges",
            )
        names = (*OF_CONVERSATIONS, EXECUTION)
    plan = judge_plan(replace(judging, case_policy=_case_policy(pack)), names, environ)
    reuse_rulings(plan, pack)
    # The agent is that of the old pack.
    origin = RejudgedFrom(run_id=stated.run_id, manifest_sha256=pack.manifest_sha256)
    changes = {
        "run_id": checked_run_id(request.identity.run_id, environ),
        "started_at": clock.timestamp(environ),
        "judges": list(plan.names),
        "judge_configs": {name: plan.configs[name] for name in plan.names if name in plan.configs},
        "execution_config": stated.execution_config.model_copy(
            update={"rejudged_from": origin, "judge_code": code_digests(plan.load()) or None}
        ),
        "pinned_env": pinned_environment(),
    }
    config = stated.model_copy(update=changes)
    source = PackDocument(request.pack, pack).source()
    with kept_replies(plan, redactor):
        summary = score_suite(source, plan, config, output.pack, layout=output.layout, redactor=redactor)
    return RunResult(config, summary, output.pack)


def _case_policy(pack: Pack) -> str:
    """A case passes as in the run: whether all of its trials must is no question of the judges."""
    return pack.config.execution_config.case_policy or ALL.text


@dataclass(frozen=True)
class JudgesAgain:
    """The judges of a replay, their configuration, and on whose word they run."""

    names: tuple[str, ...]
    configs: Mapping[str, Any]
    source: JudgesFrom = "pack"


def judges_for(judging: Judging, pack: Pack, source: JudgesFrom) -> JudgesAgain:
    """Choose the judges of a replay: those that the user names, else the pack's, on the word of `source`."""
    if judging.judges:
        return JudgesAgain(judging.judges, configs_of(judging), "command line")
    if judging.judge_config is not None:
        raise UsageError(
            "--judge-config goes with --judge",
            remedy="Name the judges, or leave the configuration to the pack.",
            field="judge_config",
        )
    return JudgesAgain(tuple(pack.config.judges), pack.config.judge_configs, source)


def judge_again(
    pack: Pack, judges: JudgesAgain, *, environ: Mapping[str, str]
) -> Callable[[Case], CaseResultRow]:
    """Load the judges of a pack's replay; return what judges one of its cases, and writes nothing.

    Judges that are models only take the pack's own rulings. Judges from an unsigned pack must be built in,
    and run no command.

    Raises:
        InvalidInput: They are not, or their configuration is invalid; or later, a case cannot be judged.
        NothingMeasured: The pack has no cases.
    """
    if not pack.manifest.case_count:
        raise NothingMeasured(
            f"{pack.name}: has no cases, so nothing would be judged", remedy="Name the pack of another run."
        )
    if judges.source == "pack":
        load_judges(judges.names, judges.configs, allow_plugins=False)
    judging = Judging(judges=judges.names, configs=judges.configs, case_policy=_case_policy(pack))
    plan = judge_plan(judging, judges.names, environ)
    reuse_rulings(plan, pack, only_kept=True)
    loaded = plan.load()

    def result_of(case: Case) -> CaseResultRow:
        validate_case(loaded, case)
        return result_row(judge_trials(loaded, case, case.recorded, plan.case_policy))

    return result_of


def case_mismatch(saved: CaseResultRow, replayed: CaseResultRow) -> CaseMismatch | None:
    """Describe how the verdicts on a case differ; None if they do not.

    Compares the outcome and the kind of failure of every judge in every trial, and every field of the case's
    result (`RESULT_FIELDS`) that both packs have.
    """
    trials: list[Sequence[Mapping[str, Any]]] = [row.get("trials") or [row] for row in (saved, replayed)]
    judges = []
    for trial, sides in enumerate(zip(*trials, strict=False)):
        before, after = (
            {
                verdict["judge_id"]: verdict["outcome"]
                + (f" ({verdict['failure']})" if verdict["failure"] else "")
                for verdict in side["verdicts"]
            }
            for side in sides
        )
        judges += [
            ReplayedVerdict(
                trial=trial,
                judge_id=judge_id,
                saved=before.get(judge_id, "absent"),
                replayed=after.get(judge_id, "absent"),
            )
            for judge_id in dict.fromkeys([*before, *after])
            if before.get(judge_id) != after.get(judge_id)
        ]
    old: Mapping[str, Any] = saved
    new: Mapping[str, Any] = replayed
    # A pack of an older version may not have the field.
    fields = [name for name in RESULT_FIELDS if name in old and name in new and old[name] != new[name]]
    if not fields and not judges and len(trials[0]) == len(trials[1]):
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


def trace_mismatch(saved: Mapping[str, Any], replayed: Mapping[str, Any]) -> TraceMismatch | None:
    """Describe how two trajectories of a case differ; None if they do not.

    Compares the events (`EVENT_FIELDS`) of every trial, the selected attempt, and the agent's answer in each
    attempt.
    """
    before, after = ([case, *(case.get("trials") or [])] for case in (saved, replayed))
    differences = enumerate(_difference(old, new) for old, new in zip(before, after, strict=False))
    first = next(((trial, text) for trial, text in differences if text is not None), None)
    if first is None and len(before) != len(after):
        first = min(len(before), len(after)), f"has {len(before)} trials, now {len(after)}"
    if first is None:
        return None
    trial, difference = first
    old, new = (side[min(trial, len(side) - 1)] for side in (before, after))
    return TraceMismatch(
        case_id=saved["case_id"],
        trial=trial,
        saved_selected_attempt=_attempts(old)[0],
        replayed_selected_attempt=_attempts(new)[0],
        saved_event_count=len(old.get("trace") or []),
        replayed_event_count=len(new.get("trace") or []),
        difference=difference,
    )


def _attempts(trial: Mapping[str, Any]) -> tuple[int | None, list[Any]]:
    """Read which attempt of a trial was selected, and what the agent answered in each."""
    metadata = trial.get("metadata") or {}
    selected, history = metadata.get("selected_attempt"), metadata.get("attempt_history")
    attempts = history if isinstance(history, list) else []
    answers = [attempt.get("response") if isinstance(attempt, dict) else None for attempt in attempts]
    return selected if isinstance(selected, int) else None, answers


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say the first difference of two recordings of a trial, as a clause."""
    events, events_now = before.get("trace") or [], now.get("trace") or []
    for number, (event, other) in enumerate(zip(events, events_now, strict=False)):
        for name in EVENT_FIELDS:
            was, is_now = event.get(name), other.get(name)
            if canonical_json(was) != canonical_json(is_now):
                return f"event {number}: {name} was {_short(was)}, now {_short(is_now)}"
    if len(events) != len(events_now):
        return f"had {len(events)} events, now {len(events_now)}"
    (selected, answers), (selected_now, answers_now) = _attempts(before), _attempts(now)
    if selected != selected_now:
        return f"attempt {selected} was selected, now {selected_now}"
    for number, (answer, answer_now) in enumerate(zip(answers, answers_now, strict=False)):
        if answer != answer_now:
            return f"attempt {number}: the agent answered {_short(answer)}, now {_short(answer_now)}"
    if len(answers) != len(answers_now):
        return f"took {len(answers)} attempts, now {len(answers_now)}"
    return None


def _short(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
