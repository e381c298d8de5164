"""Entries of the registry: datasets, baselines, approvals, waivers, and the audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import Field, StrictInt, StrictStr, model_validator

from agent_eval.contracts.base import SCHEMA_VERSION, Contract, instant

WAIVER_DAYS = 90
"""How long a waiver holds that does not say when it ends."""


def default_end(created_at: str) -> str:
    """Compute when a waiver ends that was made at a time and does not say so.

    A time that cannot be read is returned as it is, and such a waiver counts as over.
    """
    try:
        return (instant(created_at) + timedelta(days=WAIVER_DAYS)).isoformat()
    except (ValueError, OverflowError):
        return created_at


class DatasetEntry(Contract):
    """A registered suite, pinned by digest. `suite_path` is relative to the registry where possible."""

    dataset_id: StrictStr
    suite_path: StrictStr
    sha256: StrictStr
    description: StrictStr = ""
    tags: list[StrictStr] = Field(default_factory=list)
    case_count: StrictInt = Field(ge=0)
    registered_at: StrictStr


class BaselineEntry(Contract):
    """A named baseline, pinned by the digest of its pack's manifest."""

    name: StrictStr
    run_path: StrictStr
    run_id: StrictStr
    dataset_id: StrictStr
    manifest_sha256: StrictStr
    notes: StrictStr = ""
    set_at: StrictStr
    approval_id: StrictStr | None = None
    """The approval it was promoted with; null when it was set without one."""


class Approval(Contract):
    """Who promoted which run to a baseline, and why."""

    approval_id: StrictStr
    name: StrictStr
    run_id: StrictStr
    manifest_sha256: StrictStr
    approved_by: StrictStr
    rationale: StrictStr
    approved_at: StrictStr


class Waiver(Contract):
    """An accepted regression. Every scope that it names must match; it names at least one.

    `case_id` alone waives every judge on that case, `judge_id` alone that judge on every case,
    `regression_key` exactly the regression that carries it. Times are ISO 8601 with their offset; without
    `expires_at` it ends 90 days after it was made.
    """

    waiver_id: StrictStr
    baseline_name: StrictStr
    case_id: StrictStr | None = None
    judge_id: StrictStr | None = None
    regression_key: StrictStr | None = None
    reason: StrictStr = Field(min_length=1)
    approved_by: StrictStr = Field(min_length=1)
    created_at: StrictStr
    expires_at: StrictStr | None = None
    revoked_at: StrictStr | None = None
    revoked_by: StrictStr | None = None

    @property
    def ends_at(self) -> str:
        """When it ends: the stated time, else `WAIVER_DAYS` after it was made; ISO 8601 with an offset."""
        return self.expires_at or default_end(self.created_at)

    @model_validator(mode="after")
    def _has_a_scope(self) -> Waiver:
        if self.case_id is None and self.judge_id is None and self.regression_key is None:
            raise ValueError("a waiver names a case, a judge or a regression")
        return self


class AuditEntry(Contract):
    """One change of the registry. `hash` covers the entry and `previous`, the hash of the entry before it."""

    sequence: StrictInt = Field(ge=0)
    at: StrictStr
    action: StrictStr
    details: dict[str, Any] = Field(default_factory=dict)
    previous: StrictStr
    hash: StrictStr


class Registry(Contract):
    """`registry.json`: the current state. The audit log beside it has every change that led to it."""

    schema_version: StrictStr = SCHEMA_VERSION
    datasets: dict[str, DatasetEntry] = Field(default_factory=dict)
    baselines: dict[str, BaselineEntry] = Field(default_factory=dict)
    approvals: list[Approval] = Field(default_factory=list)
    waivers: list[Waiver] = Field(default_factory=list)
    audit_head: StrictStr = ""
    """Hash of the newest audit entry, empty before the first."""
    audit_length: StrictInt = Field(default=0, ge=0)
    audit_bytes: StrictInt = Field(default=0, ge=0)
    """Length of the audit log in bytes; what follows belongs to a change that was never completed."""
