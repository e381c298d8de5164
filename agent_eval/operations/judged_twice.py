"""Judge the trajectories of two packs by each other's definitions and judges, where these differ.

An expectation that was loosened must not hide a regression, and one that was drawn tighter, or a judge that
was added, must not make an unchanged agent look worse. So the baseline's trajectories are judged by today's
definitions and judges, and the candidate's by the baseline's. Only built-in judges that run no command are
used: a pack is data, never code.

Packs are redacted after they were judged. What a rule for redaction replaces in the candidate alone could be
what the baseline's definition looks for, so a verdict on that is inconclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agent_eval.comparison.compare import JudgedTwice
from agent_eval.comparison.compatibility import judge_ids
from agent_eval.comparison.facts import trials_of
from agent_eval.contracts import (
    Case,
    CaseResultRow,
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
from agent_eval.contracts.suite import RECORDED_METADATA
from agent_eval.contracts.trials import CasePolicy
from agent_eval.errors import InvalidInput
from agent_eval.evidence.reader import Pack
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import count_markers

if TYPE_CHECKING:
    from agent_eval.judges.base import Judge

_RECORDED = RECORDED_METADATA | {"usage", "cost_usd"}
"""Keys of a case's metadata that say what an agent did, and stay with its trace."""

_CANNOT_TELL = {
    "outcome": Outcome.INCONCLUSIVE,
    "passed": False,
    "score": None,
    "failure": None,
    "reason": "judged again on text of which a rule for redaction has replaced a part since",
}


def judge_twice(before: Pack, after: Pack) -> JudgedTwice | None:
    """Judge both packs by each other's definitions and judges; None where nothing differs.

    Mostly the judges, their configuration, the case policy and the cases of both packs are the same, and no
    judge need be loaded to see it.
    """
    old, new, rows = before.config, after.config, after.index_by_id()
    if (
        old.judges == new.judges
        and old.execution_config.case_policy == new.execution_config.case_policy
        and all(_config(old, name) == _config(new, name) for name in new.judges)
        and all(
            case_id not in rows or row["definition_digest"] == rows[case_id]["definition_digest"]
            for case_id, row in before.index_by_id().items()
        )
    ):
        return None
    return _Crossing(before, after).results()


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
    """Judges the cases of two packs that differ in definition, judges or case policy.

    Attributes:
        todays: Judges with today's configuration that the baseline was not judged by.
        baselines: Those of them that the baseline has too, with its configuration, and those only it has.
        every: All built-in judges of both runs, with today's and with the baseline's configuration.
        apart: Ids of the judges that differ and cannot judge stored trajectories.
        gone: Ids of the judges that only the baseline has.
        plug_ins: Whether both runs have a judge that cannot judge stored trajectories.
    """

    def __init__(self, before: Pack, after: Pack) -> None:
        self.before, self.after = before, after
        old, new = before.config, after.config
        names = [*old.judges, *new.judges]
        loaded = {name: (_load(name, old), _load(name, new)) for name in names}
        both = [name for name in new.judges if name in old.judges]
        usable = [name for name in both if all(loaded[name])]
        added = [name for name in new.judges if name not in old.judges]
        gone = [name for name in old.judges if name not in new.judges]
        changed = [name for name in both if _config(old, name) != _config(new, name)]
        can_change = [name for name in changed if name in usable]

        def judges(names: Sequence[str], side: int) -> Sequence[Judge]:
            return [judge for name in names if (judge := loaded[name][side])]

        self.todays = judges([*can_change, *added], 1)
        self.baselines = judges([*can_change, *gone], 0)
        self.every = judges([*usable, *added], 1), judges([*usable, *gone], 0)
        cannot = [name for name in changed if name not in usable]
        cannot += [name for name in added if not loaded[name][1]]
        before_ids, after_ids = before.summary.judge_counts, after.summary.judge_counts
        self.apart = judge_ids(cannot, names, before_ids, after_ids)
        self.gone = judge_ids(gone, names, before_ids) - judge_ids(new.judges, [], after_ids)
        self.plug_ins = len(usable) < len(both)
        stated = [run.execution_config.case_policy or "all" for run in (old, new)]
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
            elif self.todays or self.apart or self.gone or self.policies_differ:
                self._same_case(case_id)
        if not (self.baseline or self.candidate or self.by_baseline):
            return None
        return JudgedTwice(
            baseline=self.baseline, candidate=self.candidate, by_baseline=self.by_baseline, apart=self.apart
        )

    def _same_case(self, case_id: str) -> None:
        """Judge a case whose definition is the same: only by the judges that differ."""
        todays = {judge.judge_id for judge in self.todays}
        old, new = self.before.results_by_id()[case_id], self.after.results_by_id()[case_id]
        case = _checked(self.before.raw_trajectory(case_id), self.todays) if self.todays else None
        without = self.gone | self.apart | todays
        self.baseline[case_id] = _judged(old, self.new_policy, without, case, self.todays)
        self._without_apart(case_id, new)
        if self.baselines or self.policies_differ:
            case = _checked(self.after.raw_trajectory(case_id), self.baselines) if self.baselines else None
            redacted = bool(self.baselines) and self._is_newly_redacted(case_id)
            without = self.apart | todays
            self.by_baseline[case_id] = _judged(
                new, self.old_policy, without, case, self.baselines, is_redacted=redacted
            )

    def _changed_case(self, case_id: str) -> None:
        """Judge a case that expects something else of the same input, if every judge can."""
        old_raw, new_raw = self.before.raw_trajectory(case_id), self.after.raw_trajectory(case_id)
        if self.plug_ins or asked_digest(old_raw) != asked_digest(new_raw):
            return
        todays, baselines = self.every
        named = {judge.judge_id for judge in (*todays, *baselines)} | self.gone | self.apart
        old, new = self.before.results_by_id()[case_id], self.after.results_by_id()[case_id]
        try:
            as_now = _checked(_crossed(old_raw, new_raw), todays) if todays else None
            as_before = _checked(_crossed(new_raw, old_raw), baselines) if baselines else None
        except (InvalidInput, ValidationError):
            return
        redacted = self._is_newly_redacted(case_id)
        self.baseline[case_id] = _judged(old, self.new_policy, named, as_now, todays)
        self.by_baseline[case_id] = _judged(
            new, self.old_policy, named, as_before, baselines, is_redacted=redacted
        )
        self._without_apart(case_id, new)

    def _without_apart(self, case_id: str, row: CaseResultRow) -> None:
        if self.apart:
            self.candidate[case_id] = _judged(row, self.new_policy, self.apart)

    def _is_newly_redacted(self, case_id: str) -> bool:
        """Whether more was replaced in a trial of the candidate than in one of the baseline, on average."""
        shares = []
        for pack in (self.before, self.after):
            raw, trials = pack.raw_trajectory(case_id), trials_of(pack.results_by_id()[case_id])
            traces = {key: raw[key] for key in ("trace", "trials") if key in raw}
            shares.append(count_markers(dumps(traces)) / len(trials))
        return shares[1] > shares[0]


def _crossed(recorded: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    """Make the case that has the trace of one case and the definition of another."""
    crossed = definition_of(defined)
    did = {key: value for key, value in (recorded.get("metadata") or {}).items() if key in _RECORDED}
    asked = {key: value for key, value in (crossed.get("metadata") or {}).items() if key not in _RECORDED}
    trials: dict[str, Any] = {key: recorded[key] for key in ("trace", "trials") if key in recorded}
    return {**crossed, **trials, "metadata": {**asked, **did}}


def _checked(raw: Mapping[str, Any], judges: Sequence[Judge]) -> Case:
    from agent_eval.judges.catalog import validate_case  # as in `_load`

    case = Case.model_validate(raw, context=EARLIER)
    validate_case(judges, case)
    return case


def _judged(
    stored: CaseResultRow,
    policy: CasePolicy,
    without: Collection[str],
    case: Case | None = None,
    judges: Sequence[Judge] = (),
    *,
    is_redacted: bool = False,
) -> CaseResultRow:
    """Return a result with each trial's stored verdicts but those of some judges, and new ones on a case.

    Where its text was redacted since, the new ones cannot tell.
    """
    ids = {judge.judge_id for judge in judges}
    results = []
    for number, trial in enumerate(trials_of(stored)):
        verdicts = [
            Verdict.model_validate(row) for row in trial["verdicts"] if row["judge_id"] not in without
        ]
        if case is not None:
            from agent_eval.judges.catalog import judge_case  # as in `_load`

            of_trial = case.of_trial(number)
            for verdict in judge_case(judges, of_trial, of_trial.recorded):
                can_tell = not is_redacted or verdict.outcome is Outcome.SKIPPED
                if verdict.judge_id in ids:
                    verdicts.append(verdict if can_tell else verdict.model_copy(update=_CANNOT_TELL))
        results.append(case_result(stored["case_id"], verdicts, trial=number))
    row: CaseResultRow = trials_result(results, policy).to_json()  # type: ignore[assignment]  # the same fields
    return row
