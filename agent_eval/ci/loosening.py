"""Tell where a change loosens what it is held to: options, policy, waivers and quarantine.

A change may tighten these. What lets more pass is reviewed on the base branch first: until then it is said at
the top of the report, and the gate is not passed. The tables of options and rules say which way each loosens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, get_args

from agent_eval.ci.differences import code
from agent_eval.ci.inputs import INPUTS
from agent_eval.config.options import Loosens
from agent_eval.config.rules import POLICY, RULES, Rule
from agent_eval.contracts.base import instant, is_over
from agent_eval.contracts.policy import GatePolicy, Preset, Quarantine
from agent_eval.contracts.registry import Waiver

_UNREVIEWED = "is not on the base branch, so it is not reviewed."
_CHOICES: dict[str, tuple[str, ...]] = {
    "preset": get_args(Preset),
    "on_inconclusive": ("warn", "block"),
    "on_case_removed": ("warn", "fail"),
}
"""Choices of the policy's keys, in the order that `earlier` speaks of."""


def loosened_options(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[str]:
    """List the options of the job whose value lets more pass than the base branch's, as sentences.

    Args:
        base: Values by the option's name, with the base branch's `agent-eval.yml`.
        head: Values with the change's.
    """
    return [
        _sentence(row.name, base[row.name], head[row.name])
        for row in INPUTS
        if row.loosens and is_looser(row.loosens, base[row.name], head[row.name], row.choices)
    ]


def loosened_policy(base: GatePolicy, head: GatePolicy, *, now: datetime) -> list[str]:
    """List what a policy lets pass that the base branch's does not, as sentences.

    Example:
        >>> from datetime import UTC
        >>> loosened_policy(GatePolicy(), GatePolicy(margin=0.25), now=datetime.now(UTC))
        ['`margin` was `0.05` and is now `0.25`.']

    Args:
        base: The base branch's policy, with the flags and inputs that override it.
        head: The change's.
        now: The time of the decision; a quarantine that is over excuses nothing.
    """
    sentences = []
    for key, loosens in POLICY.items():
        before, after = _in_effect(base, key), _in_effect(head, key)
        if is_looser(loosens, before, after, _CHOICES.get(key, ())):
            sentences.append(_sentence(key, before, after))
    for rule in RULES:
        before, after = _limit(rule, base), _limit(rule, head)
        if is_looser(rule.loosens, before, after):
            sentences.append(_sentence(rule.field, before, after))
    return [
        *sentences,
        *_softened_judges(base, head),
        *_unreviewed_quarantine(base.quarantine, head.quarantine, now=now),
    ]


def unreviewed_waivers(base: Iterable[Waiver], head: Iterable[Waiver], *, now: datetime) -> list[str]:
    """List the waivers that hold and that the base branch does not have, as sentences.

    Args:
        base: Waivers of the base branch's registry for the baseline that its settings name.
        head: Those of the change's.
        now: The time of the decision.
    """
    reviewed = {waiver.waiver_id: waiver for waiver in base if waiver.revoked_at is None}
    return [
        f"waiver {code(waiver.waiver_id)} ({_scope(waiver)}) {_UNREVIEWED}"
        for waiver in head
        if waiver.revoked_at is None
        and not is_over(waiver.ends_at, now)
        and not _is_reviewed(waiver, reviewed.get(waiver.waiver_id))
    ]


def is_looser(loosens: Loosens, before: Any, after: Any, choices: tuple[str, ...] = ()) -> bool:
    """Tell whether a value lets more pass than the one before.

    Example:
        >>> is_looser("higher", 0.05, 0.25), is_looser("higher", 0.05, None), is_looser("lower", 0.9, 0.95)
        (True, True, False)

    Args:
        loosens: Which change lets more pass.
        before: The base branch's value; None for a number without a limit.
        after: The change's value.
        choices: The choices in their order, where `loosens` speaks of it.
    """
    compare = _LOOSER.get(loosens)
    if compare is not None:
        return compare(before, after)
    if loosens in ("earlier", "later") and before != after:
        return (choices.index(after) < choices.index(before)) == (loosens == "earlier")
    return False


def _higher(before: float | None, after: float | None) -> bool:
    return before is not None and (after is None or after > before)


def _lower(before: float | None, after: float | None) -> bool:
    return before is not None and (after is None or after < before)


_LOOSER: dict[Loosens, Callable[[Any, Any], bool]] = {
    "higher": _higher,
    "lower": _lower,
    "on": lambda before, after: bool(after and not before),
    "off": lambda before, after: bool(before and not after),
    "other": lambda before, after: bool(before != after),
    "fewer": lambda before, after: bool(set(before) - set(after)),
}


def _in_effect(policy: GatePolicy, key: str) -> Any:
    """Return the value by which a policy decides, whether it states it or its preset does."""
    if key == "margin":
        return policy.effective_margin
    if key == "on_inconclusive":
        return "block" if policy.blocks_on_inconclusive else "warn"
    return getattr(policy, key)


def _limit(rule: Rule, policy: GatePolicy) -> float | None:
    stated: float | None = getattr(policy.thresholds, rule.field)
    return rule.default if stated is None else stated


def _softened_judges(base: GatePolicy, head: GatePolicy) -> list[str]:
    """List the judges that block at once on the base branch, or by other terms, and do not now."""
    # A judge that has no tolerance there at all only gets stricter.
    strict = set(base.zero_tolerance)
    sentences = [
        f"`zero_tolerance_repeat` of {code(judge_id)} {_UNREVIEWED}"
        for judge_id in sorted(head.repeated - base.repeated)
        if judge_id in strict
    ]
    for judge_id, ceiling in sorted(head.ceilings.items()):
        before = base.ceilings.get(judge_id)
        if judge_id in strict and (before is None or ceiling > before):
            name = f"`zero_tolerance_ceiling` of {code(judge_id)}"
            sentences.append(f"{name} was {_value(before)} and is now {_value(ceiling)}.")
    return sentences


def _unreviewed_quarantine(
    base: Iterable[Quarantine], head: Iterable[Quarantine], *, now: datetime
) -> list[str]:
    reviewed: dict[str, list[Quarantine]] = {}
    for entry in base:
        reviewed.setdefault(entry.case_id, []).append(entry)
    return [
        f"`quarantine` of case {code(entry.case_id)} until {code(entry.expires_at or 'ever')} {_UNREVIEWED}"
        for entry in head
        if not is_over(entry.expires_at, now)
        and not any(_ends_by(entry.expires_at, known.expires_at) for known in reviewed.get(entry.case_id, ()))
    ]


def _is_reviewed(waiver: Waiver, known: Waiver | None) -> bool:
    """Tell whether the base branch's waiver of the same id excuses as much, for as long."""
    if known is None:
        return False
    scopes = [
        (excuse.baseline_name, excuse.case_id, excuse.judge_id, excuse.regression_key)
        for excuse in (waiver, known)
    ]
    return scopes[0] == scopes[1] and _ends_by(waiver.ends_at, known.ends_at)


def _ends_by(end: str | None, latest: str | None) -> bool:
    if latest is None:
        return True
    try:
        return end is not None and instant(end) <= instant(latest)
    except ValueError:
        return end == latest


def _scope(waiver: Waiver) -> str:
    parts = (("case", waiver.case_id), ("judge", waiver.judge_id), ("regression", waiver.regression_key))
    return ", ".join(f"{name} {code(value)}" for name, value in parts if value is not None)


def _sentence(name: str, before: Any, after: Any) -> str:
    return f"{code(name)} was {_value(before)} and is now {_value(after)}."


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return code("true" if value else "false")
    if isinstance(value, list | tuple):
        return code(", ".join(map(str, value)) or "nothing")
    return code("nothing" if value is None else str(value) or "nothing")
