"""An agent that rewrites the sealed pack of an earlier suite of the same job, with a seal that holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.program import agent_eval

AGENT = """
import hashlib, json, pathlib, sys
json.load(sys.stdin)
pack = pathlib.Path("results/shop").resolve()
if pack.exists():
    for verdicts in pack.glob("cases/*/verdicts.json"):
        verdicts.write_bytes(verdicts.read_bytes().replace(b'"reason": "', b'"reason": "Surely, '))
    manifest = json.loads((pack / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        data = (pack / entry["path"]).read_bytes()
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    (pack / "manifest.json").write_text(json.dumps(manifest))
print(json.dumps({"final_output": "Refunded."}))
"""


def test_the_job_ends_with_an_error_that_names_the_file_and_archives_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT.replace('"results/shop"', repr(str(tmp_path / "results/shop"))))
    for name in ("shop", "travel"):
        case = {"case_id": "one", "input": "Refund it.", "expected_output": "Refunded."}
        (tmp_path / f"{name}.json").write_text(json.dumps({"dataset_id": name, "cases": [case]}))
    ended = agent_eval(
        *("ci", "--suite", "shop.json", "--suite", "travel.json", "--set", "judges=final_output"),
        *("--min-pass-rate", "0", "--out", "results"),
        *("--agent-command", f"{sys.executable} {tmp_path / 'agent.py'}"),
        cwd=tmp_path,
    )
    assert ended.code == 4
    assert "A sealed pack was altered while the job ran: `shop/cases/one/verdicts.json`." in ended.out
    assert not list((tmp_path / "results").glob("*.zip"))
