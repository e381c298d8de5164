"""Waivers: accepted regressions, with a scope, a reason and an approver; revoked, never deleted."""

from __future__ import annotations

from difflib import get_close_matches

from agent_eval.contracts import digest
from agent_eval.contracts.base import instant, is_over
from agent_eval.contracts.registry import Registry, Waiver, default_end
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.registry.store import RegistryStore, checked, path_from_registry
from agent_eval.text.spelling import nearest


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
        store: The registry.
        baseline_name: Baseline against which the regression is accepted.
        approved_by: Person who accepts it.
        reason: Reason for people.
        at: ISO 8601 time of the change.
        case_id: Case to which the waiver is limited; None for any.
        judge_id: Judge to which the waiver is limited; None for any.
        regression_key: Key of the regression, as in a comparison, to which it is limited; None for any.
        expires_at: ISO 8601 time with its offset, after `at`; None for 90 days after `at`.

    Raises:
        UsageError: There is no scope, a text is empty, or the expiry is unreadable, without offset or past.
        InvalidInput: The baseline's name is a misspelling of a registered one's.
        StorageError: The registry could not be written.
    """
    scopes = {"case_id": case_id, "judge_id": judge_id, "regression_key": regression_key}
    if all(scope is None for scope in scopes.values()):
        raise UsageError(
            "a waiver without a scope would waive everything",
            remedy="Give --case-id, --judge-id or --regression-key.",
            field="case_id",
        )
    for field, scope in scopes.items():
        if scope is not None and not scope:
            raise UsageError(
                f"{field} is empty", remedy=f"Leave --{field.replace('_', '-')} out.", field=field
            )
    name = checked(baseline_name, "baseline_name")
    check_baseline_name(store, name)
    fields = {
        "baseline_name": name,
        **scopes,
        "reason": checked(reason, "reason"),
        "approved_by": checked(approved_by, "approved_by"),
        "created_at": at,
        "expires_at": _checked_expiry(expires_at, at) or default_end(at),
    }
    made: list[Waiver] = []

    def edit(registry: Registry) -> tuple[str, dict[str, object]]:
        identity = digest([registry.audit_length, registry.audit_head, fields])[:12]
        waiver = Waiver.model_validate({"waiver_id": f"w-{identity}", **fields})
        registry.waivers.append(waiver)
        made.append(waiver)
        return "waiver-add", {"waiver_id": waiver.waiver_id, **fields}

    store.change(edit, at=at)
    return made[0]


def check_baseline_name(store: RegistryStore, baseline_name: str) -> None:
    """Refuse a name that only resembles those of registered baselines: waivers of it would apply to nothing.

    A name that resembles none of them, or that waivers have already, may be that of a baseline to come.

    Raises:
        InvalidInput: The name is a misspelling of a registered baseline's.
    """
    registry = store.read()
    if baseline_name in registry.baselines or any(
        waiver.baseline_name == baseline_name for waiver in registry.waivers
    ):
        return
    # Another number is another baseline, not a misspelling.
    alike = [name for name in registry.baselines if _digits(name) == _digits(baseline_name)]
    if nearest(baseline_name[:200], alike, _MISSPELT_BASELINE) is None:
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


_MISSPELT_BASELINE = 0.75
"""Likeness beyond which a name is a misspelling: two of its four letters are swapped."""

_MOST_NAMED = 20

_MISSPELT = 0.85
"""Likeness beyond which an id is a misspelling: two letters of ten are swapped."""


def check_case_id(store: RegistryStore, baseline_name: str, case_id: str) -> bool | None:
    """Check that a case which is to be waived exists, as far as the registry knows the cases.

    They are those of the baseline's pack, and of a registered suite of the same dataset.

    Args:
        store: The registry.
        baseline_name: Baseline against which the regression is accepted.
        case_id: The case.

    Returns:
        Whether the case exists; None if neither the pack nor the suite is there to tell.

    Raises:
        InvalidInput: There is no such case, and one of nearly that name.
    """
    known = _known_cases(store, baseline_name)
    if not known or case_id in known:
        return True if known else None
    # Another number is another case, not a misspelling.
    alike = [name for name in known if _digits(name) == _digits(case_id)]
    near = get_close_matches(case_id, alike, n=1, cutoff=_MISSPELT)
    if not near:
        return False
    raise InvalidInput(
        f"baseline {baseline_name!r} has no case {case_id[:200]!r}",
        remedy=f"Did you mean {near[0]!r}? Of a new case, `registry dataset-add` registers the suite.",
        file=str(store.path),
        field="case_id",
    )


def _digits(case_id: str) -> str:
    return "".join(filter(str.isdigit, case_id))


def _known_cases(store: RegistryStore, baseline_name: str) -> frozenset[str]:
    """Read the ids of the cases of a baseline, and of the registered suite that it is a run of."""
    registry = store.read()
    baseline = registry.baselines.get(baseline_name)
    if baseline is None:
        return frozenset()
    pack = path_from_registry(baseline.run_path, store.path)
    known = frozenset(open_pack(pack).case_ids()) if pack.exists() else frozenset()
    dataset = registry.datasets.get(baseline.dataset_id)
    suite = path_from_registry(dataset.suite_path, store.path) if dataset is not None else None
    if suite is None or not suite.exists():
        return known
    from agent_eval.suites.reader import open_suite  # few waivers need it

    return known | frozenset(case.case_id for _, case in open_suite(suite).cases())


def revoke_waiver(store: RegistryStore, waiver_id: str, *, revoked_by: str, at: str) -> Waiver:
    """End a waiver now. The registry keeps it, marked as revoked.

    Raises:
        InvalidInput: There is no waiver of that id, or it was revoked before.
        StorageError: The registry could not be written.
    """
    revoker = checked(revoked_by, "revoked_by")
    made: list[Waiver] = []

    def edit(registry: Registry) -> tuple[str, dict[str, object]]:
        for place, waiver in enumerate(registry.waivers):
            if waiver.waiver_id == waiver_id and waiver.revoked_at is None:
                revoked = waiver.model_copy(update={"revoked_at": at, "revoked_by": revoker})
                registry.waivers[place] = revoked
                made.append(revoked)
                return "waiver-revoke", {"waiver_id": waiver_id, "revoked_by": revoker}
        raise InvalidInput(
            f"there is no waiver {waiver_id!r} that could be revoked",
            remedy="`registry waiver-list --active-only` shows those that can.",
            file=str(store.path),
            field="waiver_id",
        )

    store.change(edit, at=at)
    return made[0]


def list_waivers(
    store: RegistryStore, *, at: str, baseline_name: str | None = None, active_only: bool = False
) -> list[Waiver]:
    """List waivers, newest first.

    Args:
        store: The registry.
        at: ISO 8601 time with which expiries are compared.
        baseline_name: Baseline whose waivers are listed; None for all.
        active_only: Whether to leave out revoked and expired waivers.
    """
    now = instant(at)
    return [
        waiver
        for waiver in reversed(store.read().waivers)
        if (baseline_name is None or waiver.baseline_name == baseline_name)
        and not (active_only and (waiver.revoked_at is not None or is_over(waiver.ends_at, now)))
    ]


def _checked_expiry(expires_at: str | None, at: str) -> str | None:
    if expires_at is None:
        return None
    try:
        over = instant(expires_at) <= instant(at)
    except ValueError as error:
        raise _bad_expiry(expires_at, str(error), "a time with its offset") from None
    if over:
        raise _bad_expiry(expires_at, "it is over already", f"a time after now, which is {at}")
    return expires_at


def _bad_expiry(expires_at: str, problem: str, wanted: str) -> UsageError:
    return UsageError(
        f"the expiry {expires_at[:80]!r} cannot be used: {problem}",
        remedy=f"Give --expires-at {wanted}.",
        field="expires_at",
    )
