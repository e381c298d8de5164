"""`gate`: decide on a comparison, or on one run alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

from agent_eval.config.project_file import CONFIG_FILE
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy, Preset
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, UsageError
from agent_eval.evidence.derived import STDOUT, clear_unfinished, write_output
from agent_eval.gate.decide import decide, decide_by_policy, decide_without_baseline
from agent_eval.gate.policy_file import parse_policy, parse_thresholds, with_keys
from agent_eval.gate.procedure import Material
from agent_eval.judges.catalog import known_judges
from agent_eval.operations import clock
from agent_eval.operations.compare import PackSources, find_compared
from agent_eval.operations.decision_material import counts_of, is_recorded, material_of_packs
from agent_eval.operations.packs import (
    DEFAULT_PATH_IN_PACK,
    comparison_file,
    open_run,
    parse_decision,
    parse_settings,
    path_in_pack,
    read_comparison,
    view,
)
from agent_eval.registry.store import RegistryStore
from agent_eval.registry.waivers import check_baseline_name, list_waivers
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, dumps

DECISION_NAME = "gate_decision.json"
"""The decision's file name, beside the comparison it was made on."""

RUN_DECISION_NAME = "run_decision.json"
"""The decision's file name. Beside it may be that on a comparison, which it must not replace."""


@dataclass(frozen=True)
class WaiverSource:
    """The registry that has waivers, and the name of the baseline that they belong to."""

    registry: Path
    baseline_name: str


@dataclass(frozen=True)
class Rules:
    """What a decision is made by.

    Attributes:
        thresholds: They override those of `policy`. Without a policy they alone decide, to the letter.
        policy: With it, what the job ran again is taken from the candidate's pack.
        waived: None to apply no waivers.
    """

    thresholds: Thresholds
    policy: GatePolicy | None = None
    waived: WaiverSource | None = None

    @classmethod
    def stated(
        cls,
        limits: Mapping[str, float | int | None],
        *,
        policy: Path | None = None,
        preset: Preset | None = None,
        config: Path | None = None,
        own: Mapping[str, Any] | None = None,
        waived: WaiverSource | None = None,
    ) -> Rules:
        """Read the rules that flags name.

        A preset replaces that of the policy's file. A `config` may hold all keys of a policy, or thresholds
        alone; what it says, and `own` keys, come before the policy.

        Raises:
            InvalidInput: A file cannot be read, or a threshold is out of range.
        """
        chosen = read_policy(policy) if policy is not None else None
        if preset is not None:
            chosen = (chosen or GatePolicy()).model_copy(update={"preset": preset})
        if config is not None:
            values = parse_settings(read_bytes(config, max_bytes=DEFAULT_LIMITS.max_bytes), str(config))
            chosen = with_keys(chosen or GatePolicy(), values, source=str(config))
        if own:
            chosen = with_keys(chosen or GatePolicy(), own, source=CONFIG_FILE)
        return cls(parse_thresholds(limits), chosen, waived)


@dataclass(frozen=True)
class GateResult:
    """A decision, the file it was written to, and the comparison it was made on; None for a run alone."""

    decision: GateDecision
    path: Path
    comparison: Comparison | None
    chosen: tuple[str, ...] = ()
    """The sides whose pack nothing but the comparison's file names; see `ComparedPacks`."""

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        if self.decision.not_evaluated:
            return ExitCode.NOT_EVALUABLE
        if not self.decision.blocks:
            return ExitCode.OK
        return ExitCode.NO if self.decision.gate_status is GateStatus.FAILED else ExitCode.INCONCLUSIVE


def decide_on(
    comparison: Path,
    rules: Rules,
    *,
    packs: PackSources | None = None,
    out: Path | None = None,
    environ: Mapping[str, str],
) -> GateResult:
    """Decide on a comparison and write the decision.

    Args:
        comparison: The file that `compare` wrote, or the pack that holds it; that pack must be the candidate.
        packs: The two packs, from which the comparison must follow; None to look them up by what it says.
        out: File to write; None for `gate_decision.json` beside the comparison.

    Raises:
        InvalidInput: Something cannot be read or found, is out of range, or does not follow from the packs.
        InvalidPack: A pack does not verify, or the one that holds the comparison is another run's.
        UsageError: Neither a threshold nor a policy: nothing checked is not a pass. Or a release of which
            only the file of the comparison names the packs. Or the job's decision would be replaced, which
            rests on terms of its own.
    """
    now, policy, waivers = clock.timestamp(environ), rules.policy, list[Waiver]()
    if rules.waived is not None:
        store, name = RegistryStore(rules.waived.registry), rules.waived.baseline_name
        # A missing registry has no waivers, but a user who asks for waivers expects some: refuse.
        if not store.path.exists():
            raise InvalidInput(
                f"there is no registry at {store.path}, so no waiver can be applied",
                remedy="Name it with --registry-path, or leave --apply-waivers out.",
                file=str(store.path),
            )
        check_baseline_name(store, name)
        # Includes expired ones, with which the decision reports why a case counts again.
        waivers = list_waivers(store, at=now, baseline_name=name)
    comparison = comparison_file(comparison)
    path = out if out is not None else comparison.with_name(DECISION_NAME)
    clear_unfinished(path)
    read = read_comparison(comparison)
    try:
        runs = (read.comparison.baseline, read.comparison.candidate)
        refuse_unknown_judges(policy, waivers, chain(*(run.summary.judge_counts for run in runs)))
        is_release = policy is not None and policy.is_release
        compared = find_compared(comparison, read, packs or PackSources(), is_release=is_release)
        if policy is None:
            decision = decide(
                compared.comparison,
                rules.thresholds,
                generated_at=now,
                comparison_sha256=read.sha256,
                waivers=waivers,
            )
        else:
            material = material_of_packs(
                compared.candidate,
                compared.baseline,
                compared.comparison,
                comparison_sha256=read.sha256,
                waivers=waivers,
            )
            decision = decide_by_policy(material, policy.with_thresholds(rules.thresholds), generated_at=now)
    except InvalidInput as error:
        error.message = f"{comparison}: {error.message}"
        error.details.setdefault("file", str(comparison))
        raise
    _refuse_to_replace(path, decision)
    write_output(path, dumps(decision.to_json(), indent=True))
    return GateResult(decision, path, read.comparison, compared.chosen)


def decide_on_run(
    run: Path, rules: Rules, *, out: Path | None = None, environ: Mapping[str, str]
) -> GateResult:
    """Decide on a run that is compared with none, and write the decision.

    `out` is the file to write; None for `compare/run_decision.json` in the pack.

    Raises:
        UsageError: No rule can be held against a run alone, or an archive is to be written into.
        InvalidInput: There is no pack.
    """
    path = out if out is not None else path_in_pack(run, DEFAULT_PATH_IN_PACK.with_name(RUN_DECISION_NAME))
    clear_unfinished(path)
    pack = open_run(run)
    now, reference = clock.timestamp(environ), view(pack).reference()
    if rules.policy is None:
        decision = decide_without_baseline(reference, rules.thresholds, generated_at=now)
    else:
        material = Material(
            run=reference, comparison=None, counts=counts_of(pack, None), is_recorded=is_recorded(pack)
        )
        policy = rules.policy.with_thresholds(rules.thresholds)
        decision = decide_by_policy(material, policy, generated_at=now)
    if decision.gate_status is GateStatus.NO_BASELINE and not any(rule.applied for rule in decision.rules):
        raise UsageError(
            "no rule can be held against a run alone, so nothing can be decided",
            remedy="Set --min-pass-rate or `policy.max_hard_fail_rate`; or compare with a baseline and give "
            "the comparison with --compare.",
        )
    write_output(path, dumps(decision.to_json(), indent=True))
    return GateResult(decision, path, None)


def _refuse_to_replace(path: Path, decision: GateDecision) -> None:
    """Refuse to write over a decision that rests on more than this one does.

    That is a job's, where it broke terms of the job's own, or rests on reruns or main's runs, as this does
    not.
    """
    if path == STDOUT or not path.is_file():
        return
    try:
        before = parse_decision(path)
    except AgentEvalError:
        return
    own = sorted({rule.rule for rule in before.rules if rule.rule not in Thresholds.model_fields})
    more = f"breaks the job's own rule {own[0][:60]}" if own else None
    for before_sha256, now_sha256, what in (
        (before.reruns_sha256, decision.reruns_sha256, "what the job ran again"),
        (before.history_sha256, decision.history_sha256, "main's last runs"),
    ):
        more = f"rests on {what}, which this one does not" if before_sha256 and not now_sha256 else more
    if more is not None:
        raise UsageError(
            f"{path} would be replaced: the decision there {more}",
            remedy="Write this decision to another file with --out.",
            file=str(path),
            field="out",
        )


def refuse_unknown_judges(
    policy: GatePolicy | None, waivers: Sequence[Waiver], judge_ids: Iterable[str]
) -> None:
    """Refuse a policy or a waiver that names a judge that neither the runs nor the catalog know.

    Revoked waivers may name anything. `judge_ids` are the ids under which the runs' judges give verdicts.

    Raises:
        InvalidInput: There is no such judge; names the nearest one.
    """
    named = [(name, "the policy's safety") for name in (policy.safety if policy else ())]
    named += [
        (waiver.judge_id, f"waiver {waiver.waiver_id}")
        for waiver in waivers
        if waiver.judge_id is not None and waiver.revoked_at is None
    ]
    known = set(judge_ids)
    for name, where in named:
        if name not in known and name not in known_judges():
            every = sorted(known.union(known_judges()))
            near = get_close_matches(name, every, n=1)
            raise InvalidInput(
                f"{where} names the judge {name[:200]!r}, and there is none",
                remedy=f"Did you mean {near[0]}?" if near else f"Known judges: {', '.join(every)}.",
                field="judge_id" if where.startswith("waiver") else "safety",
            )


def read_policy(path: Path) -> GatePolicy:
    """Read a policy from a JSON or YAML file."""
    return parse_policy_file(read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes), str(path))


def parse_policy_file(data: bytes, source: str) -> GatePolicy:
    """Parse the bytes of a policy file, by the format of the name `source`."""
    return parse_policy(parse_settings(data, source), source=source)
