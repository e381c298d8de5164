"""Tell where a change loosens what it is held to: options, policy, waivers, quarantine and tiers.

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
from agent_eval.gate.looks import LOOKS

_UNREVIEWED = "is not on the base branch, so it does not count."
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
    return [*sentences, *unreviewed_exceptions(base, head, now=now)]


def unreviewed_exceptions(base: GatePolicy, head: GatePolicy, *, now: datetime) -> list[str]:
    """List the cases that a policy excepts, and the judges it is softer on, unlike the base branch's.

    Args:
        base: The base branch's policy.
        head: The change's.
        now: The time of the decision; a quarantine that is over excuses nothing.
    """
    quarantine = [entry for entry in head.quarantine if not _is_reviewed_quarantine(entry, base, now)]
    return [
        *_softened_judges(base, head),
        *(
            f"`quarantine` of case {code(entry.case_id)} until {code(entry.expires_at or 'ever')} "
            f"{_UNREVIEWED}"
            for entry in quarantine
        ),
        *(
            f"`{key}` of case {code(case_id)} {_UNREVIEWED}"
            for key in ("tracked", "expected_fail")
            for case_id in dict.fromkeys(getattr(head, key))
            if case_id not in base.never_blocking
        ),
    ]


def without_unreviewed(base: GatePolicy, head: GatePolicy, *, now: datetime) -> GatePolicy:
    """Copy a change's policy without the exceptions that the base branch's does not have.

    A case that the change puts into quarantine, tracks or expects to fail counts like any other until that is
    on the base branch; a judge without tolerance for which it asks for softer terms blocks at once.

    Example:
        >>> from datetime import UTC
        >>> known, added = GatePolicy(tracked=["a"]), GatePolicy(tracked=["a", "b"])
        >>> without_unreviewed(known, added, now=datetime.now(UTC)).tracked
        ['a']

    Args:
        base: The base branch's policy.
        head: The change's.
        now: The time of the decision.
    """
    return head.model_copy(
        update={
            "zero_tolerance_repeat": [
                judge_id for judge_id in head.zero_tolerance_repeat if _is_reviewed_repeat(judge_id, base)
            ],
            "zero_tolerance_ceiling": {
                judge_id: ceiling
                for judge_id, ceiling in head.zero_tolerance_ceiling.items()
                if _is_reviewed_ceiling(judge_id, ceiling, base)
            },
            "quarantine": [entry for entry in head.quarantine if _is_reviewed_quarantine(entry, base, now)],
            "tracked": [case_id for case_id in head.tracked if case_id in base.never_blocking],
            "expected_fail": [case_id for case_id in head.expected_fail if case_id in base.never_blocking],
        }
    )


def unreviewed_waivers(base: Iterable[Waiver], head: Iterable[Waiver], *, now: datetime) -> list[str]:
    """List the waivers that hold and that the base branch does not have, as sentences.

    Args:
        base: Waivers of the base branch's registry for the baseline that its settings name.
        head: Those of the change's.
        now: The time of the decision.
    """
    head = list(head)
    counted = reviewed_waivers(base, head)
    return [
        f"waiver {code(waiver.waiver_id)} ({_scope(waiver)}) {_UNREVIEWED}"
        for waiver in head
        if waiver.revoked_at is None and not is_over(waiver.ends_at, now) and waiver not in counted
    ]


def reviewed_waivers(base: Iterable[Waiver], head: Iterable[Waiver]) -> list[Waiver]:
    """Select the waivers that the base branch has as well, for as much and as long; only these count.

    Args:
        base: Waivers of the base branch's registry for the baseline that its settings name.
        head: Those of the change's.
    """
    known = {waiver.waiver_id: waiver for waiver in base if waiver.revoked_at is None}
    return [waiver for waiver in head if _is_reviewed(waiver, known.get(waiver.waiver_id))]


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


def _capped(before: float | None, after: float | None) -> bool:
    return after is not None and (before is None or after < before)


def _trials(before: int | str, after: int | str) -> bool:
    """Tell whether fewer trials may be run: `auto` may end after its first look, and goes on to its last.

    The comparison sees where one number takes the place of another.
    """
    if isinstance(after, str):
        return before != after
    return isinstance(before, str) and after < LOOKS[-1]


_LOOSER: dict[Loosens, Callable[[Any, Any], bool]] = {
    "higher": _higher,
    "lower": _lower,
    "on": lambda before, after: bool(after and not before),
    "off": lambda before, after: bool(before and not after),
    "other": lambda before, after: bool(before != after),
    "fewer": lambda before, after: bool(set(before) - set(after)),
    "capped": _capped,
    "trials": _trials,
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
    sentences = [
        f"`zero_tolerance_repeat` of {code(judge_id)} {_UNREVIEWED}"
        for judge_id in sorted(head.repeated)
        if not _is_reviewed_repeat(judge_id, base)
    ]
    for judge_id, ceiling in sorted(head.ceilings.items()):
        if not _is_reviewed_ceiling(judge_id, ceiling, base):
            name = f"`zero_tolerance_ceiling` of {code(judge_id)}"
            before = base.ceilings.get(judge_id)
            sentences.append(f"{name} was {_value(before)} and is now {_value(ceiling)}.")
    return sentences


def _is_reviewed_repeat(judge_id: str, base: GatePolicy) -> bool:
    # A judge that blocks in no way on the base branch only gets stricter.
    return judge_id in base.repeated or judge_id not in base.zero_tolerance


def _is_reviewed_ceiling(judge_id: str, ceiling: float, base: GatePolicy) -> bool:
    return ceiling <= base.ceilings.get(judge_id, 0) or judge_id not in base.zero_tolerance


def _is_reviewed_quarantine(entry: Quarantine, base: GatePolicy, now: datetime) -> bool:
    """Tell whether the base branch has a case in quarantine for as long; one that is over excuses nothing."""
    known = (other for other in base.quarantine if other.case_id == entry.case_id)
    return is_over(entry.expires_at, now) or any(
        _ends_by(entry.expires_at, other.expires_at) for other in known
    )


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
