"""Registries as bytes, for jobs that read them from a checkout or a base branch."""

from __future__ import annotations

import json
from typing import Any

NAME = ".agent_eval/registry.json"
NOW = "2026-01-01T00:00:00+00:00"


def waiver(case_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """A waiver of a case for the baseline `main`."""
    about = {"baseline_name": "main", "reason": "meant", "approved_by": "qa@example.com", "created_at": NOW}
    return {"waiver_id": f"w-{case_id}", "case_id": case_id, **about, **fields}


def registry(
    *waivers: dict[str, Any], baseline: str = "run-1", run_path: str = "run", sha256: str = "0" * 64
) -> bytes:
    """A registry with waivers and the baseline `main`."""
    run = {"run_path": run_path, "run_id": baseline, "dataset_id": "shop", "manifest_sha256": sha256}
    entry = {"name": "main", "set_at": NOW, **run}
    return json.dumps({"waivers": list(waivers), "baselines": {"main": entry}}).encode()
