"""A run without a baseline: decide on it by absolute rules, and read what a report of it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent_eval.contracts import CaseResultRow, GateDecision, GateStatus, RunReference
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.derived import clear_unfinished, write_output
from agent_eval.evidence.reader import Pack
from agent_eval.gate.decide import decide_by_policy, decide_without_baseline
from agent_eval.gate.policy_file import parse_thresholds
from agent_eval.gate.procedure import Material
from agent_eval.operations import clock
from agent_eval.operations.counts import counts_of
from agent_eval.operations.gate import GateResult, policy_with
from agent_eval.operations.material import is_recorded
from agent_eval.operations.packs import DEFAULT_PATH_IN_PACK, open_run, open_to_show, parse_decision, view
from agent_eval.storage.json import dumps

DECISION_NAME = "run_decision.json"
"""The decision's file name. Beside it may be that on a comparison, which it must not replace."""
MOST_FAILING = 1_000
"""Cases that did not pass which a report of a run is given."""


def decide_on_run(
    run: Path,
    limits: Mapping[str, float | int | None],
    *,
    config: Path | None = None,
    policy: GatePolicy | None = None,
    out: Path | None = None,
    environ: Mapping[str, str],
) -> GateResult:
    """Decide on a run that is compared with none, and write the decision.

    Args:
        run: Its pack, or an archive of it.
        limits: Thresholds by name; None for a rule that is not set.
        config: File with keys of a policy, which override those of `policy`.
        policy: Policy to decide by, whose thresholds `limits` override. Without it and `config` these alone
            decide, to the letter.
        out: File to write; None for `compare/run_decision.json` in the pack.
        environ: The environment variables; they may pin the clock.

    Raises:
        UsageError: No rule can be held against a run alone, or an archive is to be written into.
        InvalidInput: A file cannot be read, or a threshold is out of range.
        InvalidPack: The pack does not verify.

    Example:
        >>> from agent_eval.config.spec import Output, RunSpec
        >>> from agent_eval.demo.scaffold import scaffold
        >>> from agent_eval.operations.run import run_suite
        >>> suite, *_ = scaffold(Path(), platforms=())
        >>> _ = run_suite(RunSpec(suite=suite, output=Output(pack=Path("pack"))), environ={})
        >>> decide_on_run(Path("pack"), {"min_pass_rate": 0.95}, environ={}).decision.gate_status.value
        'passed'
    """
    rules, policy = parse_thresholds(limits), policy_with(policy, config)
    path = out if out is not None else _default_path(run)
    clear_unfinished(path)
    pack = open_run(run)
    now, reference = clock.timestamp(environ), view(pack).reference()
    if policy is None:
        decision = decide_without_baseline(reference, rules, generated_at=now)
    else:
        material = Material(
            run=reference, comparison=None, counts=counts_of(pack, None), is_recorded=is_recorded(pack)
        )
        decision = decide_by_policy(material, policy.with_thresholds(rules), generated_at=now)
    if decision.gate_status is GateStatus.NO_BASELINE and not any(rule.applied for rule in decision.rules):
        raise UsageError(
            "no rule can be held against a run alone, so nothing can be decided",
            remedy="Set --min-pass-rate or --max-hard-fail-rate, or compare the run with a baseline and give "
            "the comparison with --compare.",
        )
    write_output(path, dumps(decision.to_json(), indent=True))
    return GateResult(decision, path, None)


def _default_path(run: Path) -> Path:
    if run.is_file():
        raise UsageError(
            f"{run} is an archive, into which nothing can be written",
            remedy="Name the file with --out.",
            file=str(run),
        )
    return run / DEFAULT_PATH_IN_PACK.with_name(DECISION_NAME)


@dataclass(frozen=True)
class RunMaterial:
    """A run and the decision made on it alone, for a report. Returned by `read_run_material`.

    Attributes:
        run: The run.
        failing: Its first cases that did not pass, in suite order.
        decision: None without one.

    Example:
        `read_run_material(Path("runs/candidate")).run.summary.passed_cases`
    """

    run: RunReference
    failing: Sequence[CaseResultRow]
    decision: GateDecision | None


def read_run_material(run: Path, *, decision: Path | None = None) -> RunMaterial:
    """Read a run for a report, and check that the decision was made on it alone.

    Raises:
        InvalidInput: A file cannot be read, or the decision was made on a comparison or another run.
        InvalidPack: The pack does not verify.
    """
    pack = open_to_show(run)
    decided = decision_on(decision, pack) if decision is not None else None
    failing = islice((row for row in pack.results() if not row["passed"]), MOST_FAILING)
    return RunMaterial(view(pack).reference(), list(failing), decided)


def decision_on(path: Path, pack: Pack) -> GateDecision:
    """Read a decision that was made on this run alone.

    Raises:
        InvalidInput: The file cannot be read, or the decision was made on a comparison or another run.
    """
    decision = parse_decision(path)
    if decision.comparison_sha256 is not None or decision.candidate_manifest_sha256 != pack.manifest_sha256:
        raise InvalidInput(
            f"{path} was not decided on this run alone",
            remedy=f"Decide with `agent-eval gate --run {pack.name}`, or report a comparison with --compare.",
            file=str(path),
        )
    return decision
