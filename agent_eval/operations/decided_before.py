"""What the decision of a job rests on, which deciding again must not leave out without a word.

A job knows more than a comparison: fresh trials, earlier runs of the base branch, its own rules. A decision
that is made again without them may come out otherwise, so it neither replaces that of the job nor is made
without being asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_eval.config.rules import find_rule
from agent_eval.contracts import GateDecision
from agent_eval.contracts.gate import PooledEvidence
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.evidence.derived import STDOUT, enclosing_pack
from agent_eval.operations.confirmation import CONFIRMATION
from agent_eval.operations.packs import decision_in, listed_digests, parse_decision
from agent_eval.operations.pool import NO_POOL, POOL, pooled_by_job, pooled_in
from agent_eval.operations.provenance import ComparedPacks
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

NO_CONFIRMATION = Path("none")
"""As the path of a confirmation: decide by the first run alone, although the job ran cases again."""

_NAMED = 3
_NAME_LIMIT = 60


@dataclass(frozen=True)
class GateInputs:
    """What `gate` was given beside the comparison.

    Example:
        >>> GateInputs(None, Path("compare/pool.jsonl"), by_policy=True).pools
        True

    Attributes:
        confirmation: Record of fresh trials; None for none, `NO_CONFIRMATION` where left out on purpose.
        pool: Records of pooled runs; None for none, `NO_POOL` where it is left out on purpose.
        by_policy: Whether a policy decides, not thresholds alone.
    """

    confirmation: Path | None
    pool: Path | None
    by_policy: bool

    @property
    def confirms(self) -> bool:
        """Whether there are fresh trials to decide by."""
        return self.confirmation is not None and self.confirmation != NO_CONFIRMATION

    @property
    def pools(self) -> bool:
        """Whether there are pooled runs to decide by."""
        return self.pool is not None and self.pool != NO_POOL


def refuse_without_policy(*, confirmation: Path | None, pool: Path | None) -> None:
    """Refuse what thresholds alone do not know.

    Raises:
        UsageError: There is a confirmation or a pool.
    """
    for field, value, what in (("confirmation", confirmation, "fresh trials"), ("pool", pool, "pooled runs")):
        if value is not None:
            raise UsageError(
                f"--{field} needs a policy: thresholds alone do not know {what}",
                remedy="Add --preset pull-request, or --policy.",
                field=field,
            )


def refuse_to_replace(path: Path, beside: Path, inputs: GateInputs) -> None:
    """Refuse to write over a decision that rests on more than the inputs of this one.

    Args:
        path: Where the decision is to be written. What is no decision may be replaced, and any file that
            is neither in a pack nor beside the comparison.
        beside: Path of the decision beside the comparison.
        inputs: What this decision is made from.

    Raises:
        UsageError: The decision there rests on fresh trials, pooled runs, or rules of the job itself.
    """
    before = _decision_at(path)
    if before is None or (enclosing_pack(path) is None and path.absolute() != beside.absolute()):
        return
    pooled = pooled_in(before)
    if pooled is not None and not inputs.pools:
        raise _replaces(path, f"was held against {_runs(pooled)}", "pool", f"--pool {POOL}")
    if before.confirmation_sha256 is not None and not inputs.confirms:
        raise _replaces(
            path, "rests on fresh trials of both sides", "confirmation", f"--confirmation {CONFIRMATION}"
        )
    own = sorted({rule.rule for rule in before.rules if find_rule(rule.rule) is None})
    if own:
        raise _replaces(path, f"breaks the job's own rule {one_line(own[0], limit=_NAME_LIMIT)}", "out", "")


def left_out(packs: ComparedPacks, inputs: GateInputs) -> list[str]:
    """Say what the job decided on and is left out on purpose, a line each for the decision's explanation.

    Raises:
        UsageError: A policy is to decide without what the job decided on, and no input asks for that.
    """
    if not inputs.by_policy:
        return []
    return [line for line in (_trials_left_out(packs, inputs), _pool_left_out(packs, inputs)) if line]


def _trials_left_out(packs: ComparedPacks, inputs: GateInputs) -> str:
    if inputs.confirms:
        return ""
    candidate = packs.candidate
    decision = decision_in(candidate)
    of_this = decision is not None and decision.baseline_manifest_sha256 == packs.baseline.manifest_sha256
    confirmed = of_this and decision is not None and decision.confirmation_sha256 is not None
    is_kept = CONFIRMATION.as_posix() in listed_digests(candidate)
    if not confirmed and not (is_kept and decision is None):
        return ""
    if inputs.confirmation is None:
        raise UsageError(
            "the job ran what newly fails again by both agents, and without these trials another decision "
            "may come out",
            remedy=f"Give their record with --confirmation {CONFIRMATION} of that pack; --confirmation none "
            "with --out decides by the first run alone.",
            file=candidate.name,
            field="confirmation",
        )
    return "the first run alone: the job's fresh trials of both sides are left out by --confirmation none"


def _pool_left_out(packs: ComparedPacks, inputs: GateInputs) -> str:
    if inputs.pools:
        return ""
    candidate = packs.candidate
    pooled = pooled_by_job(candidate, packs.baseline.manifest_sha256)
    is_kept = POOL.as_posix() in listed_digests(candidate)
    is_lost = is_kept and decision_in(candidate) is None
    if inputs.pool is None and (pooled is not None or is_lost):
        against = _runs(pooled) if pooled is not None else "several runs of the base branch"
        records = f"Give their records with --pool {POOL} of that pack" if is_kept else "They are not kept"
        raise UsageError(
            f"the job held this run against {against}, and without them another decision may come out",
            remedy=f"{records}; --pool none with --out holds it against the one baseline.",
            file=candidate.name,
            field="pool",
        )
    if pooled is None:
        return ""
    return f"one run: the job held this one against {_runs(pooled)}, which --pool none leaves out"


def _decision_at(path: Path) -> GateDecision | None:
    if path == STDOUT or not path.is_file():
        return None
    try:
        return parse_decision(path)
    except AgentEvalError:
        return None


def _runs(pooled: PooledEvidence) -> str:
    """Count the pooled runs and name the newest."""
    names = [one_line(run_id, limit=_NAME_LIMIT) for run_id in pooled.run_ids[:_NAMED]]
    more = ", …" if len(pooled.run_ids) > _NAMED else ""
    return f"{count(pooled.runs, 'run')} of the base branch ({', '.join(names)}{more})"


def _replaces(path: Path, what: str, field: str, flag: str) -> UsageError:
    other = "write this decision to another file with --out"
    return UsageError(
        f"{path} would be replaced by another decision: the one there {what}",
        remedy=f"Decide by the same with {flag}, or {other}." if flag else f"{other[:1].upper()}{other[1:]}.",
        file=str(path),
        field=field,
    )
