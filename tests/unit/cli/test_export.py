"""`agent-eval export-junit` and `export-csv`: files, messages and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.cli.main import COMMANDS, main
from tests.factories import make_pack, make_result
from tests.unit.cli.shell import Shell

FORMATS = [("export-junit", "junit.xml", "test_suites", 2), ("export-csv", "run.csv", "rows", 12)]
EXPORTS = [name for name in COMMANDS if name.startswith("export ")]


@pytest.fixture
def pack() -> str:
    make_pack(Path("pack"), [make_result("a"), make_result("b", failed="policy")])
    return "pack"


@pytest.mark.parametrize(("command", "out", "what", "number"), FORMATS)
def test_a_pack_is_written_and_counted(
    pack: str, command: str, out: str, what: str, number: int, cli: Shell
) -> None:
    written = cli.json(command, "--run", pack, "--out", f"reports/{out}")
    assert written == {"out": f"reports/{out}", what: number}
    assert Path("reports", out).read_bytes()


@pytest.mark.parametrize("command", EXPORTS)
def test_a_changed_pack_is_refused_and_nothing_is_written(pack: str, command: str, cli: Shell) -> None:
    Path(pack, "run", "summary.json").write_text("{}")
    assert cli.error(*command.split(), "--run", pack, "--out", "x")["code"] == "invalid_pack"
    assert not Path("x").exists()


@pytest.mark.parametrize("command", EXPORTS)
def test_a_file_within_the_pack_leaves_it_whole(pack: str, command: str) -> None:
    assert main([*command.split(), "--run", pack, "--out", f"{pack}/exported"]) == 0
    assert main(["pack", "verify", "--run", pack]) == 0
    assert main([*command.split(), "--run", pack, "--out", f"{pack}/run/summary.json"]) == 2


@pytest.mark.parametrize(("protocol", "first"), [("jsonl", "attributes"), ("otlp-json", "resourceSpans")])
def test_opentelemetry_is_written_as_json_lines(pack: str, protocol: str, first: str, cli: Shell) -> None:
    export = ("--run", pack, "--protocol", protocol, "--out")
    written = cli.json("export-otel", *export, "o.jsonl")
    lines = Path("o.jsonl").read_text().splitlines()
    assert written == {"out": "o.jsonl", "lines": len(lines)}
    assert first in json.loads(lines[0])
    said = cli.out("export", "otel", *export, "o.json")
    assert f"Wrote {len(lines)} lines, each a JSON object, to o.json" in said


@pytest.mark.parametrize(
    "option", [("--endpoint", "https://otel.example"), ("--header", "X=Y"), ("--plain-http",)]
)
def test_what_sent_to_a_collector_is_refused_with_what_replaces_it(
    pack: str, option: tuple[str, ...], cli: Shell
) -> None:
    error = cli.error("export-otel", "--run", pack, "--out", "x", *option)
    assert error["message"] == f"{option[0]} is gone."
    assert "otlpjsonfile" in error["details"]["remedy"]
    assert not Path("x").exists()
