"""JSON Schemas of the files that cross a boundary, generated from the contracts.

The files in `agent_eval/schemas/` are these bytes; `make schemas` writes them and a test holds the two
equal. Validators in any language can use them: draft 2020-12, draft-07 for AUI suites, no references to other
files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from agent_eval.ci.config import SETTINGS
from agent_eval.config.table import OPTIONS
from agent_eval.contracts.aui import AuiSuite
from agent_eval.contracts.base import SCHEMA_VERSION
from agent_eval.contracts.comparison import Comparison
from agent_eval.contracts.gate import GateDecision, Thresholds
from agent_eval.contracts.history import CaseRecord, HistoryRun
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import AuditEntry, Registry
from agent_eval.contracts.replay import ReplayExecReport, ReplayReport
from agent_eval.contracts.reruns import Reruns
from agent_eval.contracts.run import CaseIndex, DerivedManifest, Manifest, RunConfig, RunSummary
from agent_eval.contracts.suite import Case, Suite, SuiteHeader
from agent_eval.contracts.trace import Event
from agent_eval.contracts.trials import StabilityReport
from agent_eval.contracts.verdict import CaseResult, Verdict
from scripts.file_schema import model_of

READ: Mapping[str, type[BaseModel]] = {
    "event": Event,
    "case": Case,
    "suite": Suite,
    "suite_header": SuiteHeader,
    "thresholds": Thresholds,
    "gate_policy": GatePolicy,
}
"""Files that people write and this program reads: fields with a default may be left out."""

WRITTEN: Mapping[str, type[BaseModel]] = {
    "verdict": Verdict,
    "case_result": CaseResult,
    "case_index": CaseIndex,
    "run_config": RunConfig,
    "run_summary": RunSummary,
    "comparison": Comparison,
    "gate_decision": GateDecision,
    "reruns": Reruns,
    "manifest": Manifest,
    "derived_manifest": DerivedManifest,
    "stability_report": StabilityReport,
    "replay_report": ReplayReport,
    "replay_exec_report": ReplayExecReport,
    "history_run": HistoryRun,
    "case_record": CaseRecord,
    "registry": Registry,
    "audit_entry": AuditEntry,
}
"""Files that this program writes: every field is there, apart from those a run's `execution_config` lacks."""

AUI_SUITE = "aui_suite"
"""Suites in the format of the AUI evaluator, whose schema is of draft-07, as there."""

_EXAMPLE = re.compile(r"^Example:\n(?: .*\n?)+\n?", re.MULTILINE)
"""That section of a docstring."""


def aui_schema() -> dict[str, Any]:
    """Build the JSON Schema of the format, in draft-07, which knows `definitions` and no `$defs`."""
    body = AuiSuite.model_json_schema(ref_template="#/definitions/{model}")
    definitions = body.pop("$defs")
    # What says nothing goes: titles made of names, and defaults that mean none.
    for definition in (body, *definitions.values()):
        for field in definition.get("properties", {}).values():
            field.pop("title", None)
            if not field.get("default", True):
                del field["default"]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **body, "definitions": definitions}


PROJECT_FILE = "project_file"
"""`agent-eval.yml`."""


def schema(name: str) -> dict[str, Any]:
    """Build a JSON Schema by its name: of `READ` or `WRITTEN`, `AUI_SUITE` or `PROJECT_FILE`."""
    if name == AUI_SUITE:
        named: dict[str, Any] = _without_examples(aui_schema())
        return {"$id": f"urn:agent-eval:schema:{SCHEMA_VERSION}:{name}", **named}
    if name == PROJECT_FILE:
        body = model_of((*OPTIONS, *SETTINGS)).model_json_schema()
    elif name in READ:
        body = READ[name].model_json_schema(mode="validation")
    else:
        body = WRITTEN[name].model_json_schema(mode="serialization", by_alias=False)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": f"urn:agent-eval:schema:{SCHEMA_VERSION}:{name}",
        **_without_examples(body),
    }


def _without_examples(body: Any) -> Any:
    """Cut the examples in Python out of descriptions, which readers in any language see."""
    if isinstance(body, dict):
        return {
            key: _EXAMPLE.sub("", value).rstrip()
            if key == "description" and isinstance(value, str)
            else _without_examples(value)
            for key, value in body.items()
        }
    return [_without_examples(value) for value in body] if isinstance(body, list) else body


def schema_files() -> dict[str, bytes]:
    """Encode every schema; return the bytes of its file by file name."""
    return {
        f"{name}.schema.json": json.dumps(schema(name), indent=2, sort_keys=True).encode() + b"\n"
        for name in sorted({**READ, **WRITTEN, AUI_SUITE: None, PROJECT_FILE: None})
    }
