"""`bless`: accept an intended change as the new baseline, after every difference was read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent_eval.contracts import Comparison, digest
from agent_eval.contracts.registry import Approval
from agent_eval.errors import InvalidInput, NotEvaluable, UsageError
from agent_eval.evidence.reader import Pack
from agent_eval.operations.compare import compared
from agent_eval.operations.packs import open_run, paired
from agent_eval.registry.baselines import promote_baseline, resolve_baseline
from agent_eval.registry.store import RegistryStore

DIGEST_LENGTH = 12


@dataclass(frozen=True)
class Difference:
    """One case that the new baseline has otherwise than the old."""

    case_id: str
    kind: str
    before: str | None
    now: str | None
    reason: str = ""


@dataclass(frozen=True)
class Blessing:
    """The differences between a registered baseline and the run that is to take its place.

    Attributes:
        dataset_id: Dataset of the baseline, which stays that of the name.
        differences: Every case that differs, sorted by kind and id.
        digest: Identifies both packs and the differences between them.
        pack: The run, opened.
        approval: None where the differences were only shown.
    """

    name: str
    run_id: str
    dataset_id: str
    differences: tuple[Difference, ...]
    digest: str
    pack: Pack
    approval: Approval | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints."""
        return {
            "baseline": self.name,
            "run_id": self.run_id,
            "differences": list(map(asdict, self.differences)),
            "digest": self.digest,
            "approval": None if self.approval is None else self.approval.to_json(),
        }


@dataclass(frozen=True)
class Acceptance:
    """What accepts differences that were shown: their digest, and who approves them and why."""

    digest: str
    approved_by: str
    rationale: str

    @classmethod
    def stated(cls, accept: str | None, approved_by: str | None, rationale: str | None) -> Acceptance | None:
        """Return what the options accept; None where they only ask to be shown.

        Raises:
            UsageError: Some of the three are missing.
        """
        if accept is None:
            if not approved_by and not rationale:
                return None
            raise UsageError(
                "nothing is accepted without --accept",
                remedy="Call it without approver and reason, read the differences, and add --accept DIGEST.",
                field="accept",
            )
        for field, value in (("approved-by", approved_by), ("rationale", rationale)):
            if not value:
                raise UsageError(
                    f"--accept needs --{field}",
                    remedy=f"Add --{field}: the log states who and why.",
                    field=field,
                )
        return cls(accept, approved_by or "", rationale or "")


def changes(store: RegistryStore, name: str, run: Path, *, at: str) -> Blessing:
    """Show what a run changes against the registered baseline of a name.

    Raises:
        InvalidInput: There is no such baseline.
        InvalidPack: A pack does not verify, or the run is not complete.
        NotEvaluable: The run could not judge a case, has uncommitted changes, or lacks its model or commit.
    """
    registered = resolve_baseline(store, name)
    if registered.entry is None:
        raise InvalidInput(
            f"there is no baseline {name[:200]!r} in the registry",
            remedy="Register one with `agent-eval registry baseline-promote`.",
            field="name",
        )
    before, after = open_run(registered.path), open_run(run)
    registered.check(before.manifest_sha256)
    refuse_unfit(after)
    comparison = compared(before, after, generated_at=at, with_traces=False)
    differences = tuple(differences_of(comparison, paired(before, after), after))
    identity = digest([before.manifest_sha256, after.manifest_sha256, list(map(asdict, differences))])
    dataset_id, short = before.config.dataset_id, identity[:DIGEST_LENGTH]
    return Blessing(name, after.config.run_id, dataset_id, differences, short, after)


def bless(
    store: RegistryStore, blessing: Blessing, run: Path, acceptance: Acceptance, *, at: str
) -> Blessing:
    """Make a run the baseline, with exactly the differences that were read.

    Raises:
        UsageError: Another digest is accepted than that of the differences.
    """
    if acceptance.digest != blessing.digest:
        raise UsageError(
            f"--accept {acceptance.digest[:40]!r} is not the digest of these differences, {blessing.digest}",
            remedy="Read the differences again, and accept the digest blessing with them.",
            field="accept",
        )
    _, approval = promote_baseline(
        store,
        blessing.name,
        run,
        approved_by=acceptance.approved_by,
        rationale=f"{acceptance.rationale} (differences {blessing.digest})",
        at=at,
        dataset_id=blessing.dataset_id,
        opened=blessing.pack,
    )
    return replace(blessing, approval=approval)


def refuse_unfit(pack: Pack) -> None:
    """Refuse a run that is no baseline."""
    config, summary = pack.config, pack.summary
    problems = [
        (bool(config.execution_config.selected_cases), "it ran only the cases that were asked for"),
        (config.execution_config.shard is not None, "it is one part of a divided run"),
        (summary.error_cases > 0, f"{summary.error_cases} of its cases ended in an error"),
        ((config.execution_config.damaged_records or 0) > 0, "records of its trials were damaged"),
        (bool(config.git_dirty), "it was made of changes that are not committed"),
        (config.git_commit is None, "it does not know its commit"),
        (
            config.model == "unknown" and not any(row["models"] for row in pack.index_by_id().values()),
            "neither --model nor its traces name its model",
        ),
    ]
    stated = [problem for holds, problem in problems if holds]
    if stated:
        raise NotEvaluable(
            f"run {config.run_id!r} cannot be a baseline: {'; '.join(stated)}",
            remedy="Run the suite again from one commit, with --model, until every case is judged.",
        )


def differences_of(comparison: Comparison, before: Pack, after: Pack) -> list[Difference]:
    """List every case that differs: by its result, by its definition, or because only one side has it."""
    was, is_now = before.results_by_id(), after.results_by_id()
    listed = []
    for row in comparison.case_regressions:
        kind = "regressed" if row.regressed else "fixed" if row.improved else "judged otherwise"
        worst = next((judge for judge in row.judges if judge.reason), None)
        reason = "" if worst is None else f"{worst.judge_id}: {worst.reason}"
        outcomes = (row.baseline_outcome.value, row.candidate_outcome.value)
        listed.append(Difference(row.case_id, kind, *outcomes, reason))
    sets = comparison.cases
    for kind, names in (("new", sets.new), ("removed", sets.removed), ("asks something else", sets.changed)):
        for case_id in names:
            first, second = was.get(case_id), is_now.get(case_id)
            listed.append(Difference(case_id, kind, first and first["outcome"], second and second["outcome"]))
    order = ("regressed", "removed", "asks something else", "judged otherwise", "new", "fixed")
    return sorted(listed, key=lambda each: (order.index(each.kind), each.case_id))
