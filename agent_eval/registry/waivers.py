"""Waivers: accepted regressions, with a scope, a reason and an approver; revoked, never deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_eval.contracts import digest
from agent_eval.contracts.base import instant, is_over
from agent_eval.contracts.registry import Waiver, default_end
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.registry.store import RegistryStore, checked, path_from_registry
from agent_eval.text.spelling import nearest

_MISSPELT_BASELINE = 0.75
"""Likeness beyond which a name is a misspelling: two of its four letters are swapped."""
_MISSPELT_CASE = 0.85
"""Likeness beyond which an id is a misspelling: two letters of ten are swapped."""
_MOST_NAMED = 20
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def add_waiver(
    store: RegistryStore,
    *,
    baseline_name: str,
    approved_by: str,
    reason: str,
    at: str,
    case_id: str | None = None,
    judge_id: str | None = None,
    regression_key: str | None = None,
    expires_at: str | None = None,
) -> Waiver:
    """Accept a regression against a baseline.

    More than six parameters: they are the fields of the waiver that is recorded.

    Args:
        regression_key: Key of the regression, as in a comparison, to which it is limited; None for any.
        expires_at: A day, through whose end in UTC it holds, or an ISO 8601 time with its offset, after `at`;
            None for 90 days after `at`.

    Raises:
        UsageError: There is no scope, a text is empty, or the expiry is unreadable, without offset or past.
        InvalidInput: The baseline's name is a misspelling of a registered one's.
    """
    scopes = {"case_id": case_id, "judge_id": judge_id, "regression_key": regression_key}
    if all(scope is None for scope in scopes.values()):
        raise UsageError(
            "a waiver without a scope would waive everything",
            remedy="Give --case-id or --judge-id.",
            field="case_id",
        )
    for field, scope in scopes.items():
        if scope == "":
            remedy = f"Leave --{field.replace('_', '-')} out."
            raise UsageError(f"{field} is empty", remedy=remedy, field=field)
    name = checked(baseline_name, "baseline_name")
    check_baseline_name(store, name)
    fields = {
        "baseline_name": name,
        **scopes,
        "reason": checked(reason, "reason"),
        "approved_by": checked(approved_by, "approved_by"),
        "created_at": at,
        "expires_at": default_end(at) if expires_at is None else _checked_expiry(expires_at, at),
    }
    with store.change("waiver-add", at=at) as (registry, details):
        identity = digest([registry.audit_length, registry.audit_head, fields])[:12]
        details.update({"waiver_id": f"w-{identity}", **fields})
        waiver = Waiver.model_validate(details)
        registry.waivers.append(waiver)
    return waiver


def _checked_expiry(expires_at: str, at: str) -> str:
    end = f"{expires_at}T23:59:59+00:00" if _DAY.fullmatch(expires_at) else expires_at
    try:
        if instant(end) > instant(at):
            return end
        problem, wanted = "it is over already", f"a time after now, which is {at}"
    except ValueError as error:
        problem, wanted = str(error), "a day, such as 2027-01-31, or a time with its offset"
    raise UsageError(
        f"the expiry {expires_at[:80]!r} cannot be used: {problem}",
        remedy=f"Give --expires-at {wanted}.",
        field="expires_at",
    )


def check_baseline_name(store: RegistryStore, baseline_name: str) -> None:
    """Refuse a name that only resembles those of registered baselines: waivers of it would apply to nothing.

    A name that resembles none of them, or that waivers have already, may be that of a baseline to come.
    """
    registry = store.read()
    known = {*registry.baselines, *(waiver.baseline_name for waiver in registry.waivers)}
    if baseline_name in known or _meant(baseline_name, registry.baselines, _MISSPELT_BASELINE) is None:
        return
    registered = sorted(registry.baselines)
    more = f" and {len(registered) - _MOST_NAMED} more" if len(registered) > _MOST_NAMED else ""
    raise InvalidInput(
        f"{baseline_name[:200]!r} is not a registered baseline. "
        f"Registered: {', '.join(registered[:_MOST_NAMED])}{more}",
        remedy="Name one of these, or register it first with `registry baseline-set`.",
        file=str(store.path),
        field="baseline_name",
    )


def check_case_id(store: RegistryStore, baseline_name: str, case_id: str) -> bool | None:
    """Tell whether a case that is to be waived exists; None if neither pack nor suite is there to tell.

    Raises:
        InvalidInput: There is no such case, and one of nearly that name.
    """
    registry, known = store.read(), set[str]()
    if (baseline := registry.baselines.get(baseline_name)) is not None:
        pack = path_from_registry(baseline.run_path, store.path)
        if pack.exists():
            known.update(open_pack(pack).case_ids())
        # And of the registered suite that it is a run of.
        dataset = registry.datasets.get(baseline.dataset_id)
        suite = path_from_registry(dataset.suite_path, store.path) if dataset is not None else None
        if suite is not None and suite.exists():
            from agent_eval.suites.reader import open_suite  # few waivers need it

            known.update(case.case_id for _, case in open_suite(suite).cases())
    if not known or case_id in known:
        return True if known else None
    near = _meant(case_id, known, _MISSPELT_CASE)
    if near is None:
        return False
    raise InvalidInput(
        f"baseline {baseline_name!r} has no case {case_id[:200]!r}",
        remedy=f"Did you mean {near!r}? Of a new case, `registry dataset-add` registers the suite.",
        file=str(store.path),
        field="case_id",
    )


def _meant(name: str, known: Iterable[str], likeness: float) -> str | None:
    """Find what a misspelt name means; one with another number is another case or baseline."""
    digits = [char for char in name if char.isdigit()]
    alike = [each for each in known if [char for char in each if char.isdigit()] == digits]
    return nearest(name[:200], alike, likeness)


def revoke_waiver(store: RegistryStore, waiver_id: str, *, revoked_by: str, at: str) -> Waiver:
    """End a waiver now. The registry keeps it, marked as revoked.

    Raises:
        InvalidInput: There is no waiver of that id, or it was revoked before.
    """
    revoker = checked(revoked_by, "revoked_by")
    with store.change("waiver-revoke", at=at) as (registry, details):
        for waiver in registry.waivers:
            if waiver.waiver_id == waiver_id and waiver.revoked_at is None:
                waiver.revoked_at, waiver.revoked_by = at, revoker
                details.update(waiver_id=waiver_id, revoked_by=revoker)
                break
        else:
            raise InvalidInput(
                f"there is no waiver {waiver_id!r} that could be revoked",
                remedy="`registry list` shows those that can.",
                file=str(store.path),
                field="waiver_id",
            )
    return waiver


def list_waivers(
    store: RegistryStore, *, at: str, baseline_name: str | None = None, active_only: bool = False
) -> list[Waiver]:
    """List the waivers of a baseline or of all, newest first; with `active_only` those that hold then."""
    now = instant(at)
    return [
        waiver
        for waiver in reversed(store.read().waivers)
        if (baseline_name is None or waiver.baseline_name == baseline_name)
        and not (active_only and (waiver.revoked_at is not None or is_over(waiver.ends_at, now)))
    ]
