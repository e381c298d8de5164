"""The archive that `ci` leaves is one that the next `ci` reads, whatever the agent said."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES
from agent_eval.cli.main import main
from agent_eval.storage.archive import DEFAULT_ARCHIVE_LIMITS


def test_an_agent_that_says_the_same_all_over_is_compared_with_its_own_archive(
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
