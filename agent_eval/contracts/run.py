"""A run: its pinned configuration, its summary, and the index that comparison reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, StrictInt, StrictStr
from typing_extensions import override

from agent_eval.contracts.base import SCHEMA_VERSION, Contract, SparseContract
from agent_eval.contracts.execution import ExecutionConfig
from agent_eval.contracts.trials import PassCurve, pass_curve
from agent_eval.contracts.verdict import (
    FAULT,
    FIELDS_NOT_JUDGED,
    JUDGING,
    NEARLY_FORBIDDEN,
    SIMULATING,
    CaseResultRow,
    Outcome,
    count_trials,
    is_lost,
)


class RunConfig(Contract):
    """What was run, how it was judged, and where. `started_at` is ISO 8601 with its offset.

    `execution_mode` is `trace_score` for recorded traces. `pinned_env` records the interpreter and
    the versions of the judges and of the packages that judge. Digests and hashes are lower-case hexadecimal
    sha256.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    run_id: StrictStr = Field(min_length=1)
    dataset_id: StrictStr
    agent_version: StrictStr = "unknown"
    model: StrictStr = "unknown"
    started_at: StrictStr
    seed: int = 0
    judges: list[StrictStr]
    judge_configs: dict[str, Any] = Field(default_factory=dict)
    execution_mode: StrictStr = "trace_score"
    execution_config: ExecutionConfig = Field(default_factory=ExecutionConfig)
    pinned_env: dict[str, Any] = Field(default_factory=dict)
    suite_digest: StrictStr | None = None
    prompt_hash: StrictStr | None = None
    policy_hash: StrictStr | None = None
    container_image: StrictStr | None = None
    git_commit: StrictStr | None = None
    git_dirty: bool | None = None
    """Whether files that git knows differed from the commit; not written where that is not known."""
    dependency_lock_hash: StrictStr | None = None
    dataset_metadata: dict[str, Any] = Field(default_factory=dict)

    @override
    def to_json(self) -> dict[str, Any]:
        fields = super().to_json()
        if self.git_dirty is None:
            fields.pop("git_dirty", None)
        return fields


class JudgeCounts(Contract):
    """Number of a judge's verdicts by outcome."""

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    skipped: int = 0
    error: int = 0

    @property
    def judged(self) -> int:
        """Number of verdicts that are not skipped: the denominator of the judge's pass rate."""
        return self.passed + self.failed + self.inconclusive + self.error


class ModelsUse(SparseContract, frozen=True):
    """What models beside the agent took: calls, tokens and US dollars of all trials.

    Of a trial with repairs, it is what its last attempt took.
    """

    calls: int = 0
    """Replies that a model was asked for."""
    reused: int = 0
    """Kept replies that were taken instead: of a cassette, or of sealed evidence."""
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    """Cost of the calls, as far as it is known."""
    unpriced: int = 0
    """Calls whose cost is unknown."""
    saved_usd: float = 0.0
    """What the reused replies had cost."""
    scripted: int = 0
    """Verdicts by the `scripted` model: they are from a file, and no model gave them."""


class RunSummary(SparseContract, frozen=True):
    """The counts and rates of a run, which follow from its verdicts (`summarize`).

    Rates are from 0 to 1 over all cases; inconclusive, error and skipped cases count as not passed.
    `failed_cases` counts every case that did not pass.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    run_id: StrictStr
    dataset_id: StrictStr
    total_cases: int
    passed_cases: int
    failed_cases: int
    inconclusive_cases: int = 0
    error_cases: int = 0
    skipped_cases: int = 0
    hard_fail_cases: int
    pass_rate: float = Field(ge=0, le=1, allow_inf_nan=False)
    hard_fail_rate: float = Field(ge=0, le=1, allow_inf_nan=False)
    judge_pass_rates: dict[str, float] = Field(default_factory=dict)
    judge_counts: dict[str, JudgeCounts] = Field(default_factory=dict)
    failures: dict[str, int] = Field(default_factory=dict)
    """Number of failed and error verdicts by kind of failure."""
    flaky_cases: int | None = None
    """Cases of which some judged trials pass and some do not; null where every case has one of them."""
    pass_curve: list[PassCurve] = Field(default_factory=list)
    """For every k that all cases have judged trials for; empty where a case has one of them only."""
    fields_not_judged: dict[str, int] = Field(default_factory=dict)
    """Number of cases by field that no judge of the run looks at; not written where there is none."""
    nearly_forbidden: dict[str, int] = Field(default_factory=dict)
    """Number of cases by called tool whose name ends as that of a forbidden tool; not written where none."""
    judging: ModelsUse | None = None
    """What judges that are models took; not written where there are none."""
    simulating: ModelsUse | None = None
    """What models took that played users; not written where there are none."""
    trials: int = 0
    """Trials of all cases; written only with `lost_trials`."""
    lost_trials: dict[str, int] = Field(default_factory=dict)
    """Trials that say nothing of the agent, through no fault of it, by whose; not written where none is."""

    _writes_none: ClassVar[bool] = True


class Tally:
    """Counts case results one at a time, in constant memory. Tallies of parts of a run can be merged."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.hard_fail_cases = 0
        self.judges: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.failures: Counter[str] = Counter()
        self.trials: Counter[tuple[int, int, int]] = Counter()
        """Number of cases by `(passed trials, trials that count, trials)`."""
        self.fields_not_judged: Counter[str] = Counter()
        self.nearly_forbidden: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.models: Counter[tuple[str, str]] = Counter()
        """Sums of `models_in`: money is in billionths of a dollar, so that no order changes its sum."""

    def add_row(self, row: CaseResultRow, times: int = 1) -> None:
        """Count one case, or several with the same result, which is plain JSON that has been checked."""
        self.cases[row["outcome"]] += times
        self.hard_fail_cases += row["hard_failed"] * times
        trials = row.get("trials") or [row]
        self.trials[*count_trials([trial["outcome"] for trial in trials]), len(trials)] += times
        for verdict in row["verdicts"]:
            self.judges[verdict["judge_id"]][verdict["outcome"]] += times
            if verdict["failure"] is not None:
                self.failures[verdict["failure"]] += times
            if verdict["evidence"]:
                fields, tools = not_judged_in(verdict["evidence"])
                for name in fields:
                    self.fields_not_judged[name] += times
                for name in tools:
                    self.nearly_forbidden[name] += times
        for trial in trials:
            # An older version's summary does not know of lost trials, which its rows do not state.
            self.lost[(trial.get("fault") or "") if FAULT in trial and is_lost(trial) else ""] += times
            for verdict in trial["verdicts"]:
                for figure, number in models_in(verdict["evidence"]):
                    self.models[figure] += number * times

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.hard_fail_cases += other.hard_fail_cases
        counted = ("cases", "failures", "trials", "fields_not_judged", "nearly_forbidden", "lost", "models")
        for name in counted:
            getattr(self, name).update(getattr(other, name))
        for judge_id, counts in other.judges.items():
            self.judges[judge_id].update(counts)

    def summary(self, run_id: str, dataset_id: str, *, count_skipped: bool = False) -> RunSummary:
        """Build the summary of everything counted so far.

        Args:
            count_skipped: Count a trial without anything to judge as not passed, as older packs do.
        """
        trials: Counter[tuple[int, int]] = Counter()
        for (right, judged, recorded), cases in self.trials.items():
            trials[right, recorded if count_skipped else judged] += cases
        several = [number > 1 for _, number in trials]
        total = self.cases.total()
        passed = self.cases[Outcome.PASSED.value]
        counts = {name: JudgeCounts(**self.judges[name]) for name in sorted(self.judges)}
        models: dict[str, dict[str, float]] = {JUDGING: {}, SIMULATING: {}}
        for (member, name), value in sorted(self.models.items()):
            if value:
                models[member][name] = value / _BILLION if name.endswith("_usd") else value
        # Left out where they say nothing, so that packs of runs without them are as they were.
        not_judged: dict[str, Any] = {
            "fields_not_judged": dict(sorted(self.fields_not_judged.items())),
            "nearly_forbidden": dict(sorted(self.nearly_forbidden.items())),
            **{member: use and ModelsUse.model_validate(use) for member, use in models.items()},
            "lost_trials": {name: number for name, number in sorted(self.lost.items()) if name and number},
        }
        if not_judged["lost_trials"]:
            not_judged["trials"] = self.lost.total()
        return RunSummary(
            schema_version=SCHEMA_VERSION,
            run_id=run_id,
            dataset_id=dataset_id,
            total_cases=total,
            passed_cases=passed,
            failed_cases=total - passed,
            inconclusive_cases=self.cases[Outcome.INCONCLUSIVE.value],
            error_cases=self.cases[Outcome.ERROR.value],
            skipped_cases=self.cases[Outcome.SKIPPED.value],
            hard_fail_cases=self.hard_fail_cases,
            pass_rate=passed / total if total else 0.0,
            hard_fail_rate=self.hard_fail_cases / total if total else 0.0,
            judge_pass_rates={
                name: count.passed / count.judged for name, count in counts.items() if count.judged
            },
            judge_counts=counts,
            failures=dict(sorted(self.failures.items())),
            flaky_cases=sum(cases for (right, number), cases in trials.items() if 0 < right < number)
            if any(several)
            else None,
            pass_curve=pass_curve((*counts, cases) for counts, cases in sorted(trials.items()))
            if all(several)
            else [],
            **{name: value for name, value in not_judged.items() if value},
        )


_BILLION = 10**9
_MOST_USED = 2**53
"""A larger figure is no count of tokens, and no sum of money."""


def models_in(evidence: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], int], ...]:
    """Return what a verdict says that models took beside the agent: a number for each member and figure.

    The figures are those of `ModelsUse`; money is in billionths of a dollar. What is no figure is left out.
    """
    return tuple(
        ((member, name), round(figure * _BILLION) if name.endswith("_usd") else int(figure))
        for member in (JUDGING, SIMULATING)
        if isinstance(use := evidence.get(member), Mapping)
        for name in ModelsUse.model_fields
        if type(figure := use.get(name, 0)) in (int, float) and 0 < figure < _MOST_USED
    )


def not_judged_in(evidence: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the fields of a case that were not judged, and tools whose names end as a forbidden one."""
    listed = (evidence.get(member) for member in (FIELDS_NOT_JUDGED, NEARLY_FORBIDDEN))
    return tuple(
        tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
        for names in listed
    )


class CaseIndex(Contract):
    """What comparison needs to know of a case's trajectory; one line of `run/index.jsonl`.

    `calls` lists `[tool, digest of its arguments]` in call order. Tokens, cost (US dollars) and latency
    (milliseconds) are null when the trace does not say: unknown is never zero.
    """

    case_id: StrictStr
    definition_digest: StrictStr
    output_digest: StrictStr | None = None
    calls: list[tuple[StrictStr, StrictStr]] = Field(default_factory=list)
    models: list[StrictStr] = Field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = Field(default=None, allow_inf_nan=False)
    latency_ms: float | None = Field(default=None, allow_inf_nan=False)


SHARD_CASES = 250
"""Number of cases in a file of the compact layout, and in the unit of work of a cluster."""


class FileEntry(Contract):
    """A regular file: its path relative to the pack in POSIX form, its size in bytes and its sha256."""

    path: StrictStr
    size: StrictInt = Field(ge=0)
    sha256: StrictStr = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Contract):
    """`manifest.json`: the exact set of files of the run part, written last.

    `case_directories` maps a case id to its directory below `cases/` (files layout only).
    """

    schema_version: StrictStr = SCHEMA_VERSION
    kind: Literal["run"] = "run"
    layout: Literal["files", "compact"]
    run_id: StrictStr
    dataset_id: StrictStr
    complete: bool = True
    case_count: StrictInt = Field(ge=0)
    case_directories: dict[str, str] = Field(default_factory=dict)
    files: list[FileEntry]


class DerivedManifest(Contract):
    """`derived.json`: the files that were written into a pack after it was sealed.

    `run_manifest_sha256` is the sha256 of the bytes of `manifest.json`, so a derived part cannot be
    moved to another run.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    kind: Literal["derived"] = "derived"
    run_manifest_sha256: StrictStr = Field(pattern=r"^[0-9a-f]{64}$")
    files: list[FileEntry]
