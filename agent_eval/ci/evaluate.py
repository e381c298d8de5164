"""Score every suite, find its baseline, compare and decide. What comes out is said by `telling`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_eval.ci.baseline import Baseline, Search, from_path, from_registry, search
from agent_eval.ci.governance import JudgingRules
from agent_eval.ci.live import ProgressLines, agent_request, refuse_unreachable, run_live
from agent_eval.ci.platform import Platform
from agent_eval.ci.settings import Settings
from agent_eval.ci.setup import set_up
from agent_eval.ci.targets import ARCHIVE_NAME, Target, find_targets
from agent_eval.comparison.compare import compare
from agent_eval.comparison.gate import decide_without_baseline
from agent_eval.comparison.policy_gate import decide_by_policy, merge_thresholds
from agent_eval.comparison.view import RunView
from agent_eval.contracts import Comparison, GateDecision, GateStatus, RuleResult
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.bundle import write_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.pack import Pack, open_pack
from agent_eval.runs import clock
from agent_eval.runs.packs import view
from agent_eval.runs.run import RunRequest, run_suite
from agent_eval.runs.run_loop import AgentRequest
from agent_eval.storage.digests import sha256_bytes
from agent_eval.storage.json_writer import dumps
from agent_eval.storage.redaction import Redactor

COMPARISON = Path("compare") / "baseline_delta.json"
DECISION = Path("compare") / "gate_decision.json"


@dataclass(frozen=True, kw_only=True)
class SuiteEvaluation:
    """One suite, judged and decided on.

    `note` says why nothing was compared although there is a baseline; usually empty.
    """

    target: Target
    pack: Path
    candidate: RunView
    baseline: Baseline | None
    comparison: Comparison | None
    decision: GateDecision
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All suites, how the search for baselines went, and the archive of the evidence."""

    suites: list[SuiteEvaluation]
    search: Search
    archive: Path
    rules: JudgingRules


def evaluate(
    settings: Settings,
    platform: Platform,
    environ: Mapping[str, str],
    redactor: Redactor,
    rules: JudgingRules,
) -> Evaluation:
    """Do everything that leaves evidence, none of which holds a secret that `redactor` knows.

    Raises:
        AgentEvalError: A suite, judge, agent or named baseline is wrong (exit code 2); or the agent cannot be
            run, or the evidence cannot be written (exit code 4).
    """
    targets = find_targets(settings.suite)
    how = agent_request(settings, environ)
    if settings.agent is not None:
        set_up(settings.agent, environ, platform.say)
    packs = {target.slug: _score(target, settings, platform, environ, redactor, how) for target in targets}
    found = _baselines(settings, platform, list(packs), rules)
    suites = [
        _decide(target, packs[target.slug], found, settings, environ, redactor, rules) for target in targets
    ]
    archive = settings.out / ARCHIVE_NAME
    write_bundle({suite.target.slug: suite.pack for suite in suites}, archive)
    return Evaluation(suites=suites, search=found, archive=archive, rules=rules)


def _score(
    target: Target,
    settings: Settings,
    platform: Platform,
    environ: Mapping[str, str],
    redactor: Redactor,
    how: AgentRequest | None,
) -> Pack:
    """The evidence of one suite: its recorded traces judged, or `how` run and judged."""
    name = platform.context.run_name
    request = RunRequest(
        suite=target.path,
        out=settings.out / target.slug,
        run_id=f"{name}-{target.slug}" if name else None,
        git_commit=platform.context.head_sha,
        judges=settings.judges,
        judge_config=settings.judge_config,
        case_policy=settings.case_policy,
        model=(settings.agent.agent_model if settings.agent else "") or "unknown",
    )
    if how is None:
        run_suite(
            request,
            environ=environ,
            redactor=redactor,
            source=target.source,
            on_progress=ProgressLines(target.path.name, platform.say),
        )
        return open_pack(request.out)
    run_live(request, how, environ=environ, redactor=redactor, source=target.source, say=platform.say)
    pack = open_pack(request.out)
    refuse_unreachable(pack, target.path)
    return pack


def _baselines(settings: Settings, platform: Platform, slugs: list[str], rules: JudgingRules) -> Search:
    if settings.baseline == "none":
        return Search(notes=["No baseline is wanted (`baseline: none`)."])
    if settings.baseline != "auto":
        entry = rules.registry.baselines.get(settings.baseline)
        if entry is not None and not Path(settings.baseline).exists():
            return from_registry(entry, rules.registry_path, slugs)
        return from_path(Path(settings.baseline), slugs)
    return search(platform.candidates, slugs, demanded=settings.baseline_run_id is not None)


def _decide(
    target: Target,
    pack: Pack,
    found: Search,
    settings: Settings,
    environ: Mapping[str, str],
    redactor: Redactor,
    rules: JudgingRules,
) -> SuiteEvaluation:
    where = settings.out / target.slug
    now = clock.timestamp(environ)
    candidate = view(pack)
    comparison = _without_secrets(_compare(target, pack, candidate, found, now), redactor)
    data = dumps(comparison.to_json(), indent=True) if comparison is not None else b""
    note = ""
    if comparison is not None and comparison.overview.compared_cases:
        decision = decide_by_policy(
            comparison,
            rules.policy,
            generated_at=now,
            thresholds=settings.thresholds,
            comparison_sha256=sha256_bytes(data),
            waivers=rules.waivers,
        )
    else:
        thresholds = merge_thresholds(rules.policy.thresholds, settings.thresholds)
        decision = decide_without_baseline(candidate.reference(), thresholds, generated_at=now)
        if comparison is not None:
            note = "Every case is new or changed since the baseline, so nothing could be compared."
    decision = _with_own_rules(decision, comparison, settings, found)
    if data:
        write_output(where / COMPARISON, data)
    write_output(where / DECISION, dumps(decision.to_json(), indent=True))
    return SuiteEvaluation(
        target=target,
        pack=where,
        candidate=candidate,
        baseline=found.found.get(target.slug),
        comparison=comparison,
        decision=decision,
        note=note,
    )


def _compare(target: Target, pack: Pack, candidate: RunView, found: Search, now: str) -> Comparison | None:
    """The comparison with the suite's baseline, None without one.

    A baseline that contradicts itself shows only here. One that the user named is an error then; another is
    dropped, with a warning.
    """
    baseline = found.found.get(target.slug)
    if baseline is None:
        return None
    try:
        return compare(
            baseline.view,
            candidate,
            changed="exclude",
            generated_at=now,
            traces=lambda case_id: (baseline.pack.trajectory(case_id), pack.trajectory(case_id)),
        )
    except AgentEvalError as error:
        if baseline.demanded:
            raise
        del found.found[target.slug]
        found.warnings.append(
            f"The evidence of run {baseline.origin.run_id} cannot be compared with: {error.message}"
        )
        return None


def _without_secrets(comparison: Comparison | None, redactor: Redactor) -> Comparison | None:
    """An earlier run's evidence may hold what is known to be secret now."""
    if comparison is None:
        return None
    stated = comparison.to_json()
    if not redactor.finds(dumps(stated)):
        return comparison
    return Comparison.model_validate(redactor.redact_value(stated, numbers=False))


def _with_own_rules(
    decision: GateDecision,
    comparison: Comparison | None,
    settings: Settings,
    found: Search,
) -> GateDecision:
    """Add the job's own rules, where they are broken, to what the thresholds decided."""
    broken = [
        rule
        for rule in (
            _cases_removed(comparison, settings),
            _baseline_missing(comparison, settings),
        )
        if rule is not None
    ]
    unknown = _baseline_unknown(comparison, found)
    if not broken and unknown is None:
        return decision
    failed = bool(broken) or decision.gate_status is GateStatus.FAILED
    added = [*broken, *([unknown] if unknown is not None else [])]
    return decision.model_copy(
        update={
            "gate_status": GateStatus.FAILED if failed else GateStatus.INCONCLUSIVE,
            "passed": False,
            "blocks": True,
            "rules": [*decision.rules, *added],
            "failures": [*decision.failures, *(rule.message for rule in added)],
        }
    )


def _baseline_unknown(comparison: Comparison | None, found: Search) -> RuleResult | None:
    if not found.outage or comparison is not None:
        return None
    return RuleResult(
        rule="baseline_known",
        threshold=1,
        value=0,
        passed=False,
        message="The baseline could not be looked up, so nobody knows whether anything got worse.",
    )


def _cases_removed(comparison: Comparison | None, settings: Settings) -> RuleResult | None:
    removed = comparison.cases.removed if comparison is not None else []
    if settings.on_case_removed != "fail" or not removed:
        return None
    return RuleResult(
        rule="on_case_removed",
        threshold=0,
        value=len(removed),
        passed=False,
        message=f"{len(removed)} {'case was' if len(removed) == 1 else 'cases were'} removed from the suite, "
        "which `on-case-removed: fail` does not allow.",
    )


def _baseline_missing(comparison: Comparison | None, settings: Settings) -> RuleResult | None:
    if not settings.require_baseline or (comparison is not None and comparison.overview.compared_cases):
        return None
    return RuleResult(
        rule="require_baseline",
        threshold=1,
        value=0,
        passed=False,
        message="There is no baseline to compare with, and `require-baseline` asks for one.",
    )
