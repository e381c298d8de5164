"""The archive that `ci` leaves: the next `ci` reads it whatever the agent said; none of an altered pack."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES
from agent_eval.cli.main import main
from agent_eval.storage.archive import DEFAULT_ARCHIVE_LIMITS
from tests.e2e.program import agent_eval


def test_repetitive_agent_is_compared_with_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = {"idx": 0, "actor": "agent", "type": "final_output", "output": "I cannot do that. " * 400}
    cases = [
        {"case_id": f"c{number}", "input": number, "trace": [answer], "regex_patterns": ["cannot"]}
        for number in range(200)
    ]
    Path("suite.json").write_text(json.dumps({"dataset_id": "d", "cases": cases}))
    first = ["ci", "--suite", "suite.json", "--out", "first", "--min-pass-rate", "1"]
    then = ["ci", "--suite", "suite.json", "--baseline", "first/evidence.zip", "--max-regressed-cases", "0"]
    for arguments in (first, then):
        assert main(arguments) == 0
    with zipfile.ZipFile("first/evidence.zip") as archive:
        events = archive.getinfo("d/run/events.jsonl")
    assert events.file_size > 200 * events.compress_size  # that it is dense is the point


def test_what_is_downloaded_is_what_is_read() -> None:
    assert DEFAULT_ARCHIVE_LIMITS.max_packed_bytes == MAX_ARCHIVE_BYTES


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
