"""Recorded cases that are judged into a pack, in the working directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run import run_suite
from agent_eval.storage.redaction_rules import NO_RULES
from tests.factories import make_suite


def judged(
    name: str, *cases: dict[str, Any], environ: Mapping[str, str] | None = None, **judging: Any
) -> Pack:
    """Judge cases by the judge `regex`, or as `Judging` is told, and open the pack of that name."""
    suite, config = Path(f"{name}.json"), Path(f"{name}-judges.json")
    suite.write_text(json.dumps(make_suite(*cases)))
    config.write_text(json.dumps(judging.pop("configs", {})))
    rules = judging.pop("redaction", NO_RULES)
    how = Judging(**{"judges": ("regex",), "judge_config": config, **judging})
    spec = RunSpec(suite=suite, output=Output(pack=Path(name)), judging=how, redaction=rules)
    run_suite(spec, environ=environ or {})
    return open_pack(Path(name))
