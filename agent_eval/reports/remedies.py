"""What to do about a decision, by what keeps the change from passing and by whose fault it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_eval.contracts import GateStatus
from agent_eval.contracts.gate import JudgedCase
from agent_eval.contracts.reruns import Reruns
from agent_eval.reports.blocks import NAMED, code
from agent_eval.reports.causes import are_all_of, crashed
from agent_eval.reports.model import UNASKED, SuiteReport
from agent_eval.text.numbers import verb


def to_do(suite: SuiteReport) -> str:
    """Say what a person does about a decision; empty for nothing."""
    status = suite.decision.gate_status
    if status is GateStatus.FAILED:
        return _when_failed(suite)
    if status is GateStatus.INCONCLUSIVE:
        return _when_open(suite)
    if status is GateStatus.NO_BASELINE:
        if suite.nothing_shared:
            return "Check that every case is meant to change: once merged, this run is the baseline."
        if suite.lack == UNASKED:
            return "Nothing, if that is meant; else remove `baseline: none`, so that changes are compared."
        if suite.lack:
            return "Let main run, so that there is a run to compare with."
        return "Nothing: once this has run on main, changes are compared with that run."
    figures = suite.decision.figures
    rose = [_LIMITS[each.name] for each in figures if each.answer == "rose" and each.limit is None]
    return f"Nothing, unless it should be limited: set {' and '.join(rose)}." if rose else ""


_LIMITS = {"cost_usd": "`max_cost_increase`", "latency_ms": "`max_latency_increase`"}


_MISSING = re.compile(r"No module named '([\w.]+)'|Cannot find module '([\w@./-]+)'")


def _when_failed(suite: SuiteReport) -> str:
    decision = suite.decision
    blocking = [finding for finding in decision.safety if finding.answer == "blocks"]
    if blocking and not suite.blocking:
        return (
            f"Read what the agent did in {code(blocking[0].case_id)}. If that is right, a waiver that names "
            "case and judge lets it pass."
        )
    if suite.worse:
        return _about_cases(suite)
    if decision.suite is not None and decision.suite.answer == "worse":
        return "Look at what touches every case a little: model, prompt, tools. What fails now is below."
    if decision.release is not None and decision.release.answer == "worse":
        return "Look at what was merged since the last release: `agent-eval drift` shows since which run."
    if any(figure.answer == "breaks-limit" for figure in decision.figures):
        return "Find what takes longer or costs more, or change the limit in the policy."
    if suite.blocking:
        return "Fix the cases below."
    broken = [rule.rule for rule in decision.rules if rule.applied and not rule.passed]
    waiting = [rule.rule for rule in decision.rules if not rule.applied and not rule.passed]
    if waiting and not broken:
        return f"Name a baseline, which {code(waiting[0])} is measured against, or leave that limit out."
    limit = code(broken[0]) if broken else "the limit"
    if suite.comparison is not None:
        return f"Nothing got worse here: mend the cases below on main, or change {limit}."
    return f"Fix the failing cases below, or change {limit}."


def _about_cases(suite: SuiteReport) -> str:
    if are_all_of(suite.causes, "service"):
        return "Check network, quotas and the machine, then run again."
    if are_all_of(suite.causes, "judge"):
        return "Mend the judge, then run again: what the agent did was not judged."
    number, causes = len(suite.worse), len(suite.causes)
    if crashed(suite.worse):
        again = "with the command below" if suite.suite_path else "(`--case`)"
        missing = _MISSING.search(suite.worse[0].judges[0].reason) if suite.worse[0].judges else None
        install = f"Install {code(missing[1] or missing[2])} in `setup`, or repeat" if missing else "Repeat"
        which = verb(number, "it", "one of them")
        return f"{install} {which} {again}, and read what the agent writes to stderr."
    what = verb(number, "it", "them")
    if suite.is_recorded:
        settle = "record 8 trials a case, or let the job run the agent"
        return f"Look at {what}: what changed is below. To settle it, {settle}."
    if number > NAMED:
        what = "the cause" if causes == 1 else f"the {causes:,} causes"
    is_limit = all(cause.reason.is_of_amount for cause in suite.causes)
    intended = "Raise the limit" if is_limit else "Change what the case expects"
    return f"Fix {what}: what changed is below. Intended? {intended}, or have it waived."


def _when_open(suite: SuiteReport) -> str:
    decision, reruns = suite.decision, suite.reruns
    if not decision.sentence:
        return ""  # an earlier version asked for what the gate no longer has
    if suite.blocking or (decision.suite is not None and decision.suite.answer == "open"):
        return _about_reruns(reruns, suite.blocking)
    if unsafe := [finding for finding in decision.safety if finding.answer == "open"]:
        return f"Make {code(unsafe[0].judge_id)} able to judge what the agent did, then run the job again."
    if decision.release is not None and decision.release.answer == "open":
        return "Run the release with `trials: 4`, or with more cases."
    if any(figure.answer == "open" for figure in decision.figures):
        return "Run the job again."
    return "Read the cases named here: who merges this accepts what it expects of them."


_USED_UP = {
    "the time of the run": "`limits.run.seconds`",
    "the money of the run": "`limits.run.cost_usd`",
}
"""The limit that ended the reruns, by how what did begins."""


def _about_reruns(reruns: Reruns | None, cases: Sequence[JudgedCase]) -> str:
    if reruns is None:
        return "Run main again, then this change."
    if any("__pycache__/" in why for why in reruns.altered.values()):
        return (
            "Take what Python compiled out of git: `git rm -r --cached`, and `__pycache__/` in `.gitignore`."
        )
    if reruns.altered:
        return "Give each side a set-up of its own: nothing that one installs or writes may reach the other."
    if reruns.base_problem is not None:
        return "Mend the set-up that the base needs on main, then run this again."
    if reruns.cut is not None:
        limit = next((key for what, key in _USED_UP.items() if reruns.cut.startswith(what)), None)
        again = f"raise {limit}, or run the job again." if limit else "run the job again."
        if cases and not any(row.change is None or row.change.passed for row in cases):
            which = verb(len(cases), "the case does now: it", "the cases do now: they")
            return f"Look at what {which} never passed here. To settle it, {again}"
        return f"R{again[1:]}"
    if reruns.base_runs == "none":
        return "Set `base-agent`, so that the base runs beside this change."
    never = {row.case_id for row in (*reruns.cases, *reruns.late)}
    if cases and never.isdisjoint(row.case_id for row in cases):
        return "Run the job again."
    return "Run main again, then this change: what fails there too is not this change's."
