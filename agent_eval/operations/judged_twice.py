"""Judge the trajectories of two packs by each other's definitions and judges, where these differ.

An expectation that was loosened must not hide a regression, and one that was drawn tighter, or a judge that
was added, must not make an unchanged agent look worse. So the baseline's trajectories are judged by today's
definitions and judges, and the candidate's by the baseline's. Only built-in judges that run no command are
used: a pack is data, never code.

Packs are redacted after they were judged. What a rule for redaction replaces in the candidate alone could be
what the baseline's definition looks for, so a verdict on that is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from agent_eval.comparison.compare import JudgedTwice
from agent_eval.comparison.compatibility import judge_ids
from agent_eval.comparison.facts import trials_of
from agent_eval.contracts import (
    Case,
    CaseResultRow,
    Comparison,
    Outcome,
    RunConfig,
    Verdict,
    asked_digest,
    case_policy,
    case_result,
    definition_of,
    digest,
    trials_result,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.suite import RECORDED_METADATA
from agent_eval.errors import InvalidInput
from agent_eval.evidence.layout import HISTORY_USED
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import Counts, Material
from agent_eval.history.records import DEFINITION_LENGTH, case_record, decode_used, record_of
from agent_eval.operations.packs import decision_in, listed_digests
from agent_eval.operations.reruns import read_reruns
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import count_markers

if TYPE_CHECKING:
    from agent_eval.judges.base import Judge

_RECORDED = RECORDED_METADATA | {"usage", "cost_usd"}
"""Keys of a case's metadata that say what an agent did, and stay with its trace."""


def judge_twice(before: Pack, after: Pack) -> JudgedTwice | None:
    """Judge both packs by each other's definitions and judges; None where nothing differs."""
    if not _anything_differs(before, after):
        return None
    judges = _Judges.of(before, after)
    return _Crossing(before, after, judges).results()


def _anything_differs(before: Pack, after: Pack) -> bool:
    """Tell whether the judges, their configuration, the case policy or a case of both packs differ.

    Mostly nothing does, and no judge need be loaded to see it.
    """
    old, new = before.config, after.config
    if old.judges != new.judges or any(_config(old, name) != _config(new, name) for name in new.judges):
        return True
    if old.execution_config.case_policy != new.execution_config.case_policy:
        return True
    rows = after.index_by_id()
    return any(
        case_id in rows and row["definition_digest"] != rows[case_id]["definition_digest"]
        for case_id, row in before.index_by_id().items()
    )


@dataclass(frozen=True, kw_only=True)
class _Judges:
    """The judges of two runs, by what can be done about their differences.

    Attributes:
        todays: Judges with today's configuration that the baseline was not judged by.
        baselines: Those of them that the baseline has too, with its configuration, and those only it has.
        every: All built-in judges of both runs, with today's and with the baseline's configuration.
        apart: Ids of the judges that differ and cannot judge stored trajectories.
        gone: Ids of the judges that only the baseline has.
        plug_ins: Whether both runs have a judge that cannot judge stored trajectories.
    """

    todays: Sequence[Judge]
    baselines: Sequence[Judge]
    every: tuple[Sequence[Judge], Sequence[Judge]]
    apart: frozenset[str]
    gone: frozenset[str]
    plug_ins: bool

    @classmethod
    def of(cls, before: Pack, after: Pack) -> _Judges:
        old, new = before.config, after.config
        both = [name for name in new.judges if name in old.judges]
        changed = [name for name in both if _config(old, name) != _config(new, name)]
        added = [name for name in new.judges if name not in old.judges]
        gone = [name for name in old.judges if name not in new.judges]
        loaded = {name: (_load(name, old), _load(name, new)) for name in {*both, *added}}
        can = {name for name, (_, todays) in loaded.items() if todays is not None}
        can -= {name for name in both if loaded[name][0] is None}
        seen = (before.summary.judge_counts, after.summary.judge_counts)
        cannot = [name for name in (*changed, *added) if name not in can]
        usable = [name for name in both if name in can]
        dropped = [judge for name in gone if (judge := _load(name, old))]
        return cls(
            todays=[judge for name in (*changed, *added) if name in can and (judge := loaded[name][1])],
            baselines=[
                *(judge for name in changed if name in can and (judge := loaded[name][0])),
                *dropped,
            ],
            every=(
                [judge for name in (*usable, *added) if name in can and (judge := loaded[name][1])],
                [*(judge for name in usable if (judge := loaded[name][0])), *dropped],
            ),
            apart=judge_ids(cannot, [*old.judges, *new.judges], *seen),
            gone=judge_ids(gone, [*old.judges, *new.judges], seen[0]) - judge_ids(new.judges, [], seen[1]),
            plug_ins=len(usable) < len(both),
        )

    @property
    def differ(self) -> bool:
        return bool(self.todays or self.apart or self.gone)


def _config(run: RunConfig, name: str) -> str:
    return digest(run.judge_configs.get(name))


def _load(name: str, run: RunConfig) -> Judge | None:
    from agent_eval.judges.base import AsksModel  # only where something differs
    from agent_eval.judges.catalog import load_judges

    configs = {name: run.judge_configs[name]} if name in run.judge_configs else {}
    try:
        judge = load_judges([name], configs, allow_plugins=False)[0]
    except InvalidInput:
        return None
    # A judge that is a model is asked only where its calls are wanted and paid for.
    return None if isinstance(judge, AsksModel) else judge


class _Crossing:
    """Judges the cases of two packs that differ in definition, judges or case policy."""

    def __init__(self, before: Pack, after: Pack, judges: _Judges) -> None:
        self.before, self.after, self.judges = before, after, judges
        stated = [pack.config.execution_config.case_policy or "all" for pack in (before, after)]
        self.old_policy, self.new_policy = map(case_policy, stated)
        self.policies_differ = stated[0] != stated[1]
        self.baseline: dict[str, CaseResultRow] = {}
        self.candidate: dict[str, CaseResultRow] = {}
        self.by_baseline: dict[str, CaseResultRow] = {}

    def results(self) -> JudgedTwice | None:
        """Judge every case that differs."""
        old, new = self.before.index_by_id(), self.after.index_by_id()
        for case_id in self.before.case_ids():
            if case_id not in new:
                continue
            if old[case_id]["definition_digest"] != new[case_id]["definition_digest"]:
                self._changed_case(case_id)
            elif self.judges.differ or self.policies_differ:
                self._same_case(case_id)
        if not self.baseline and not self.candidate and not self.by_baseline:
            return None
        return JudgedTwice(
            baseline=self.baseline,
            candidate=self.candidate,
            by_baseline=self.by_baseline,
            apart=self.judges.apart,
        )

    def _same_case(self, case_id: str) -> None:
        """Judge a case whose definition is the same: only by the judges that differ."""
        judges = self.judges
        todays = {judge.judge_id for judge in judges.todays}
        old, new = self.before.results_by_id()[case_id], self.after.results_by_id()[case_id]
        dropped = judges.gone | judges.apart | todays
        raw = self.before.raw_trajectory(case_id) if judges.todays else {}
        self.baseline[case_id] = _Rejudging(raw, judges.todays, self.new_policy).row(
            old, lambda judge_id: judge_id not in dropped
        )
        if judges.apart:
            self.candidate[case_id] = _Rejudging({}, (), self.new_policy).row(
                new, lambda judge_id: judge_id not in judges.apart
            )
        if judges.baselines or self.policies_differ:
            raw = self.after.raw_trajectory(case_id) if judges.baselines else {}
            redacted = bool(judges.baselines) and self._is_newly_redacted(case_id)
            self.by_baseline[case_id] = _Rejudging(raw, judges.baselines, self.old_policy, redacted).row(
                new, lambda judge_id: judge_id not in judges.apart | todays
            )

    def _changed_case(self, case_id: str) -> None:
        """Judge a case that expects something else of the same input, if every judge can."""
        old_raw, new_raw = self.before.raw_trajectory(case_id), self.after.raw_trajectory(case_id)
        if self.judges.plug_ins or asked_digest(old_raw) != asked_digest(new_raw):
            return
        todays, baselines = self.judges.every
        named = {judge.judge_id for judge in (*todays, *baselines)} | self.judges.gone | self.judges.apart
        old, new = self.before.results_by_id()[case_id], self.after.results_by_id()[case_id]
        try:
            baseline = _Rejudging(_crossed(old_raw, new_raw), todays, self.new_policy)
            redacted = self._is_newly_redacted(case_id)
            by_baseline = _Rejudging(_crossed(new_raw, old_raw), baselines, self.old_policy, redacted)
        except (InvalidInput, ValidationError):
            return
        self.baseline[case_id] = baseline.row(old, lambda judge_id: judge_id not in named)
        self.by_baseline[case_id] = by_baseline.row(new, lambda judge_id: judge_id not in named)
        if self.judges.apart:
            self.candidate[case_id] = _Rejudging({}, (), self.new_policy).row(
                new, lambda judge_id: judge_id not in self.judges.apart
            )

    def _is_newly_redacted(self, case_id: str) -> bool:
        """Whether more was replaced in a trial of the candidate than in one of the baseline, on average."""
        old, new = (_replacements(pack, case_id) for pack in (self.before, self.after))
        return new > old


def _replacements(pack: Pack, case_id: str) -> float:
    raw = pack.raw_trajectory(case_id)
    traces = {key: raw[key] for key in ("trace", "trials") if key in raw}
    return count_markers(dumps(traces)) / len(trials_of(pack.results_by_id()[case_id]))


def _crossed(recorded: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    """Make the case that has the trace of one case and the definition of another."""
    crossed = definition_of(defined)
    did = {key: value for key, value in (recorded.get("metadata") or {}).items() if key in _RECORDED}
    asked = {key: value for key, value in (crossed.get("metadata") or {}).items() if key not in _RECORDED}
    trials: dict[str, Any] = {key: recorded[key] for key in ("trace", "trials") if key in recorded}
    return {**crossed, **trials, "metadata": {**asked, **did}}


class _Rejudging:
    """Judges a case with some judges, and keeps the stored verdicts of others.

    Where its text was redacted since, the judges cannot tell.
    """

    def __init__(
        self, raw: dict[str, Any], judges: Sequence[Judge], policy: Any, is_redacted: bool = False
    ) -> None:
        self._judges, self._policy, self._is_redacted = judges, policy, is_redacted
        self._ids = {judge.judge_id for judge in judges}
        self._case = Case.model_validate(raw, context=EARLIER) if judges else None
        if self._case is not None:
            from agent_eval.judges.catalog import validate_case  # as in `_load`

            validate_case(judges, self._case)

    def row(self, stored: CaseResultRow, keeps: Callable[[str], bool]) -> CaseResultRow:
        """Return the result of the case: of every trial the kept verdicts, and the new ones."""
        results = []
        for number, trial in enumerate(trials_of(stored)):
            verdicts = [
                Verdict.model_validate(verdict) for verdict in trial["verdicts"] if keeps(verdict["judge_id"])
            ]
            verdicts += self._verdicts(number)
            results.append(case_result(stored["case_id"], verdicts, trial=number))
        row: CaseResultRow = trials_result(results, self._policy).to_json()  # type: ignore[assignment]  # the same fields
        return row

    def _verdicts(self, number: int) -> list[Verdict]:
        if self._case is None:
            return []
        from agent_eval.judges.catalog import judge_case  # as in `_load`

        case = self._case.of_trial(number)
        verdicts = judge_case(self._judges, case, case.recorded)
        verdicts = [verdict for verdict in verdicts if verdict.judge_id in self._ids]
        return [_cannot_tell(verdict) for verdict in verdicts] if self._is_redacted else verdicts


def _cannot_tell(verdict: Verdict) -> Verdict:
    if verdict.outcome is Outcome.SKIPPED:
        return verdict
    why = "judged again on text of which a rule for redaction has replaced a part since"
    changes = {
        "outcome": Outcome.INCONCLUSIVE,
        "passed": False,
        "score": None,
        "failure": None,
        "reason": why,
    }
    return verdict.model_copy(update=changes)


class _Name(NamedTuple):
    """What a case is called now, and its definition by either name."""

    now: str
    before: str
    after: str


def counts_of(
    candidate: Pack,
    baseline: Pack | None,
    *,
    main: Sequence[RunRecord] = (),
    newest: RunRecord | None = None,
) -> Counts:
    """Count what a run, its baseline and main's runs say of each case.

    The baseline counts as today's judges judge it by today's definitions; a case that was only given another
    name keeps what it was counted under the old one.

    Args:
        baseline: What it is compared with, verified; None without one.
        main: Main's last runs at or before the base, the newest first.
        newest: Main's newest run of all.
    """
    own = record_of(candidate)
    if baseline is None:
        return Counts(own=own, main=main, newest=newest)
    names = _renamed(baseline, candidate)
    return Counts(
        own=own,
        main=[_with_names(run, names) for run in main],
        baseline=_with_names(baseline_record(baseline, candidate), names),
        newest=_with_names(newest, names) if newest is not None else None,
    )


def baseline_record(before: Pack, after: Pack) -> RunRecord:
    """Count what a baseline says of each case as the judges and definitions of a later run judge it."""
    record, twice = record_of(before), judge_twice(before, after)
    if twice is None:
        return record
    index, todays = before.index_by_id(), after.index_by_id()
    for case_id, row in twice.baseline.items():
        definition = todays[case_id]["definition_digest"]
        record.cases[case_id] = case_record(row, {**index[case_id], "definition_digest": definition})
    return record


def _renamed(before: Pack, after: Pack) -> dict[str, _Name]:
    """Match the cases that only one run has by what they ask and expect; by the name before."""
    sides = before.index_by_id(), after.index_by_id()
    gone, new = sides[0].keys() - sides[1].keys(), sides[1].keys() - sides[0].keys()
    if not gone or not new:
        return {}
    old_names, new_names = _by_definition(before, gone), _by_definition(after, new)
    return {
        old: _Name(
            new_names[key],
            sides[0][old]["definition_digest"][:DEFINITION_LENGTH],
            sides[1][new_names[key]]["definition_digest"][:DEFINITION_LENGTH],
        )
        for key, old in old_names.items()
        if key in new_names
    }


def _by_definition(pack: Pack, case_ids: set[str]) -> dict[str, str]:
    """Ids of cases by the digest of their definition without the id; two that are alike match nothing."""
    names_by_key: dict[str, list[str]] = {}
    for case_id in sorted(case_ids):
        definition = definition_of(pack.raw_trajectory(case_id))
        names_by_key.setdefault(digest({**definition, "case_id": None}), []).append(case_id)
    return {key: alike[0] for key, alike in names_by_key.items() if len(alike) == 1}


def _with_names(run: RunRecord, names: Mapping[str, _Name]) -> RunRecord:
    cases = dict(run.cases)
    for old, name in names.items():
        row = cases.get(old)
        if row is not None and row.definition == name.before:
            del cases[old]
            cases[name.now] = row.model_copy(update={"case_id": name.now, "definition": name.after})
    return RunRecord(run.run, cases)


def material_of_packs(
    candidate: Pack,
    baseline: Pack,
    comparison: Comparison,
    *,
    comparison_sha256: str,
    waivers: Sequence[Waiver] = (),
) -> Material:
    """Gather what there is to decide on.

    What a job ran again, and main's runs that it held the candidate against, are in the candidate's pack.
    They count where the job compared with the same baseline: with another one, the first run asks otherwise.
    """
    by_job = decision_in(candidate)
    is_same = by_job is not None and by_job.baseline_manifest_sha256 == baseline.manifest_sha256
    again = read_reruns(candidate) if is_same else None
    listed = listed_digests(candidate)
    digests = {"comparison_sha256": comparison_sha256}
    newest: RunRecord | None = None
    main: list[RunRecord] = []
    if is_same and HISTORY_USED in listed:
        source = f"{candidate.name}/{HISTORY_USED}"
        newest, main = decode_used(candidate.read(HISTORY_USED), source=source)
        digests["history_sha256"] = listed[HISTORY_USED]
    if again is not None:
        digests["reruns_sha256"] = again.sha256
    return Material(
        run=comparison.candidate,
        comparison=comparison,
        counts=counts_of(candidate, baseline, main=main, newest=newest),
        reruns=again.record if again is not None else None,
        waivers=waivers,
        seed=candidate.config.git_commit or "",
        may_rerun=again is not None,
        is_recorded=is_recorded(candidate),
        digests=digests,
    )


def is_recorded(pack: Pack) -> bool:
    """Whether a pack judges recorded traces, and no agent ran for it."""
    return pack.config.execution_config.agent is None
