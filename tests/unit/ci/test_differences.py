from __future__ import annotations

import json

from agent_eval.ci.differences import differences
from tests.unit.ci.registries import NAME, registry, waiver


def test_same__is_no_difference() -> None:
    assert differences("gate.yml", b"margin: 0.1\n", b"margin: 0.1\n") == []
    assert differences("gate.yml", b"margin: 0.1\n", b"# now\nmargin: 0.10\n") == []
    assert differences("gate.yml", None, None) == []


def test_values__are_told_before_and_after() -> None:
    before = b"margin: 0.02\nthresholds: {min_pass_rate: 0.9}\nzero_tolerance: [a, b]\n"
    after = b"margin: 0.2\nthresholds: {}\nzero_tolerance: []\npreset: release\n"
    assert differences("gate.yml", before, after) == [
        "`gate.yml`: `margin` was `0.02` and is now `0.2`.",
        "`gate.yml`: `preset` is now `release`.",
        "`gate.yml`: `thresholds.min_pass_rate` was `0.9` and is gone.",
        "`gate.yml`: `zero_tolerance` was `a, b` and is now `nothing`.",
    ]


def test_rows__are_told_by_what_they_are_about() -> None:
    after = b"quarantine:\n  - {case_id: a`b, reason: flaky}\nextra: [[1], 2]\n"
    assert differences("gate.yml", b"quarantine: []\n", after) == [
        "`gate.yml`: `extra[0]` is now `1`.",
        "`gate.yml`: `extra[1]` is now `2`.",
        "`gate.yml`: `quarantine` was `nothing` and is gone.",
        "`gate.yml`: `quarantine[a'b].case_id` is now `a'b`.",
        "`gate.yml`: `quarantine[a'b].reason` is now `flaky`.",
    ]


def test_files__that_are_new_or_gone_are_told_with_all_they_say() -> None:
    assert differences("gate.json", None, b'{"margin": 0.2}') == [
        "`gate.json` is new.",
        "`gate.json`: `margin` is now `0.2`.",
    ]
    assert differences("gate.json", b"{}", None) == ["`gate.json` was removed."]


def test_unreadable__has_changed_and_no_more_is_known() -> None:
    assert differences("gate.yml", b"margin: 0.1", b"{") == ["`gate.yml` changed."]
    assert differences("gate.yml", b"[]", b"{}") == ["`gate.yml` changed."]
    assert differences(NAME, b'{"waivers": 1}', b"{}", registry=True) == [f"`{NAME}` changed."]


def test_registry__tells_waivers_and_baselines_not_its_bookkeeping() -> None:
    before = registry()
    after = registry(waiver("order-1"), baseline="run-2")
    bookkeeping = json.dumps({**json.loads(before), "audit_length": 7, "audit_head": "x"}).encode()
    assert differences(NAME, before, bookkeeping, registry=True) == []
    assert differences(NAME, before, after, registry=True) == [
        f"`{NAME}`: `baseline main` was `run run-1, {'0' * 64}` and is now `run run-2, {'0' * 64}`.",
        f"`{NAME}`: `waiver w-order-1` is now `case order-1, for main, by qa@example.com, "
        "until 2026-04-01T00:00:00+00:00: meant`.",
    ]
    revoked = registry(
        {
            **waiver(
                "order-1", judge_id="policy", regression_key="k", expires_at="2027-01-31T00:00:00+00:00"
            ),
            "revoked_at": "2026-01-02T00:00:00+00:00",
            "revoked_by": "lead",
        }
    )
    [told] = [one for one in differences(NAME, after, revoked, registry=True) if "waiver" in one]
    assert "case order-1, judge policy, regression k, for main" in told
    assert "until 2027-01-31T00:00:00+00:00, revoked by lead: meant" in told


def test_endless__names_and_values_are_cut() -> None:
    [told] = differences("g.yml", b"{}", f"{'k' * 500}: {'v' * 5000}".encode())
    assert len(told) < 600
