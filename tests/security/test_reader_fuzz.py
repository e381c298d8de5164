"""Every reader refuses what it cannot read with an error of its own, whatever the bytes.

`benchmarks/fuzz_readers.py` tries a million inputs; `benchmarks/results/fuzz_readers.json` has the result.
"""

import pytest

from tests.extent import amount
from tests.security.reader_fuzz import Reader, crash_of, readers

INPUTS = amount(40, 500, 2_000)
"""Inputs of each reader."""

NAMES = [
    *("json", "yaml", "suite.json", "suite.jsonl", "suite.yaml", "validate", "import-trace"),
    *("import-trace lines", "agent's answer", "cassette", "journal", "gate policy", "gate policy, JSON",
        "agent-eval.yml"),
    *("judge configs", "registry", "audit log", "comparison", "reruns", "main's runs", "replay report",
        "bundle", "envelope"),
    *("statement", "public key", "private key", "archive", "manifest", "redaction"),
    *(f"pack: run/{name}" for name in ("config.json", "summary.json", "index.jsonl", "events.jsonl")),
    *(f"pack: cases/a/{name}.json" for name in ("trajectory", "verdicts")),
]  # fmt: skip


@pytest.fixture(scope="module")
def all_readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {reader.name: reader for reader in readers(tmp_path_factory.mktemp("fuzz"))}


def test_every_reader_reads_what_is_valid(all_readers: dict[str, Reader]) -> None:
    assert set(NAMES) <= set(all_readers)
    for reader in all_readers.values():
        for seed in reader.seeds:
            reader.read(seed)


@pytest.mark.parametrize("name", NAMES)
def test_no_input_makes_a_reader_fail_but_by_refusing(name: str, all_readers: dict[str, Reader]) -> None:
    crashes = [crash_of(all_readers[name], seed) for seed in range(INPUTS)]
    assert [crash for crash in crashes if crash] == []
