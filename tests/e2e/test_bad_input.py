"""Bad input through the real command line: one clear error, exit 2 or 4, nothing half-written."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval, tree

GOOD = REPOSITORY / "examples" / "suite_good.json"
BAD = REPOSITORY / "examples" / "suite_bad.json"

SAID = {"idx": 0, "actor": "agent", "type": "message", "output": "hello"}
CASE: dict[str, Any] = {"case_id": "one", "trace": [SAID]}


def suite(*cases: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"dataset_id": "d", "cases": list(cases), **fields}).encode()


def refused(ended: Ended, *, code: int = 2, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """The error, which must have a remedy and say what it is about."""
    assert ended.code == code, ended
    error = ended.error
    assert error["details"].get("remedy"), error
    for word in words:
        assert word in json.dumps(error, ensure_ascii=False), (word, error)
    return error


BROKEN_SUITES: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "empty file": ("s.json", b"", ("empty",)),
    "truncated JSON": ("s.json", suite(CASE)[:-9], ("line 1", "column")),
    "duplicate keys in a line": (
        "s.jsonl", b'{"dataset_id": "d"}\n{"case_id": "one", "case_id": "two"}\n', ("case_id", "line 2"),
    ),
    "200,000-deep nesting in a line": (
        "s.jsonl",
        b'{"dataset_id": "d"}\n{"case_id": "a", "input": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
        ("nest", "line 2"),
    ),
    "not UTF-8": ("s.json", suite(CASE).replace(b"hello", b"\xff\xfe"), ("UTF-8",)),
    "a misspelt rule": (
        "s.json", suite({**CASE, "policy": {"forbiden_tools": ["pay"]}}),
        ("one", "policy.forbiden_tools", "Did you mean forbidden_tools?"),
    ),
    "a blank text to look for": (
        "s.json", suite({**CASE, "regex_patterns": [""]}), ("one", "regex_patterns[0]"),
    ),
    "a version from the future": ("s.json", suite(CASE, schema_version="9.0.0"), ("9.0.0",)),
    "invalid regex": ("s.json", suite({**CASE, "regex_patterns": ["("]}), ("one", "regex_patterns")),
    "invalid schema of arguments": (
        "s.json", suite({**CASE, "tool_contracts": {"t": {"args_schema": {"type": 7}}}}),
        ("one", "args_schema"),
    ),
    "duplicate case id": ("s.json", suite(CASE, {**CASE, "input": 1}), ("one", "cases[0]", "cases[1]")),
    "no cases": ("s.json", suite(), ("case",)),
    "YAML with an alias": ("s.yaml", b"dataset_id: &a d\ncases: [*a]\n", ("cases[0]", '\\"d\\"')),
    "another kind of file": ("s.csv", b"a,b", (".jsonl",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN_SUITES)
def test_run_refuses_a_broken_suite(kind: str, tmp_path: Path) -> None:
    name, data, words = BROKEN_SUITES[kind]
    (tmp_path / name).write_bytes(data)
    before = tree(tmp_path)
    error = refused(agent_eval("run", "--suite", name, "--out", "out", cwd=tmp_path), words=words)
    assert error["details"]["file"] == name
    assert name in error["message"]
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--suite", "pipe.json", "--out", "out"),
        ("run", "--suite", GOOD, "--judge-config", "pipe.json", "--out", "out"),
        ("gate", "--compare", "pipe.json", "--max-regressed-cases", "0"),
        ("ci", "--suite", GOOD, "--baseline", "pipe.zip"),
    ],
)
def test_pipes_that_nobody_writes_to_are_not_waited_for(arguments: tuple[Any, ...], tmp_path: Path) -> None:
    for ending in ("json", "jsonl", "yaml", "zip"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
    ended = agent_eval(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert "is a pipe" in ended.err + ended.out
    assert not (tmp_path / "out").exists()


def test_a_broken_suite_leaves_the_previous_pack_as_it_was(tmp_path: Path) -> None:
    agent_eval("run", "--format", "json", "--suite", GOOD, "--out", "out", cwd=tmp_path).json()
    (tmp_path / "s.json").write_bytes(BROKEN_SUITES["duplicate case id"][1])
    before = tree(tmp_path)
    refused(agent_eval("run", "--suite", "s.json", "--out", "out", cwd=tmp_path))
    assert tree(tmp_path) == before


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, compared, in both layouts: `files/…` and `compact/…`."""
    here = tmp_path_factory.mktemp("packs")
    for layout in ("files", "compact"):
        for name, source in (("baseline", GOOD), ("candidate", BAD)):
            made = ("--out", f"{layout}/{name}", "--set", f"evidence.layout={layout}")
            agent_eval("run", "--format", "json", "--suite", source, *made, cwd=here).json()
        both = ("--baseline", f"{layout}/baseline", "--candidate", f"{layout}/candidate")
        agent_eval("compare", "--format", "json", *both, cwd=here).json()
    return here


RUN, JUDGES = ("run", "--suite", GOOD, "--out", "out"), ("--judge-config", "judges.json")
COMPARE = ("compare", "--candidate", "packs/candidate", "--out", "d.json", "--baseline")
PACKED = "packs/candidate/compare/baseline_delta.json"
DECIDE = ("gate", "--compare", PACKED, "--out", "d.json", "--config", "gate.json")
LITERAL = ("gate", "--compare", "delta.json", "--min-pass-rate", "0")
WRONG: dict[str, tuple[dict[str, str], tuple[str | Path, ...], tuple[str, ...]]] = {
    "a misspelt judge": ({}, (*RUN, "--judge", "polcy"), ("polcy", "policy")),
    "a module that is not there": ({}, (*RUN, "--judge", "no.such.module:Judge"), ("no.such.module:Judge",)),
    "a judge twice": ({}, (*RUN, "--judge", "policy", "--judge", "policy"), ("policy", "twice")),
    "a misspelt case": ({}, (*RUN, "--case", "find-trian"), ("find-trian", "find-train")),
    "an empty configuration": ({"judges.json": ""}, (*RUN, *JUDGES), ("empty", "judges.json")),
    "of no judge": ({"judges.json": '{"polcy": {}}'}, (*RUN, *JUDGES), ("polcy", "policy", "judges.json")),
    "with a misspelt key": (
        {"judges.json": '{"policy": {"hrad": true}}'}, (*RUN, *JUDGES), ("hrad", "hard", "judges.json"),
    ),
    "a pack that is missing": ({}, (*COMPARE, "missing"), ("missing",)),
    "a pack that is no archive": ({"zip": "PK\x03\x04 but not really"}, (*COMPARE, "zip"), ("zip",)),
    "a policy that is cut": ({"gate.json": "{"}, DECIDE, ("line 2",)),
    "a misspelt rule": ({"gate.json": '{"min_pass_rat": 1}'}, DECIDE, ("min_pass_rat",)),
    "half a case": ({"gate.json": '{"max_regressed_cases": 0.5}'}, DECIDE, ("max_regressed_cases",)),
    "a comparison that is missing": ({}, LITERAL, ("delta.json",)),
    "a comparison that is none": ({"delta.json": "{}"}, LITERAL, ("comparison", "delta.json")),
}  # fmt: skip
"""By what is wrong: files beside two packs, the command line, and words of the error."""


@pytest.mark.parametrize("what", WRONG)
def test_what_a_command_cannot_use_is_refused(what: str, packs: Path, tmp_path: Path) -> None:
    files, arguments, words = WRONG[what]
    shutil.copytree(packs / "files", tmp_path / "packs")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = tree(tmp_path)
    error = refused(agent_eval(*arguments, cwd=tmp_path), words=words)
    if words[-1].endswith(".json"):
        assert error["details"]["file"] == words[-1]
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("variable", "value"), [("AGENT_EVAL_CLOCK", "noon"), ("AGENT_EVAL_RUN_ID", "a\x1b[2Jb")]
)
def test_a_broken_pin_is_refused(variable: str, value: str, tmp_path: Path) -> None:
    refused(agent_eval(*RUN, cwd=tmp_path, environ={variable: value}))
    assert tree(tmp_path) == {}


def change(pack: Path) -> str:
    victim = pack / "run" / "summary.json"
    victim.write_bytes(victim.read_bytes().replace(b"1", b"2", 1))
    return "run/summary.json"


def add(pack: Path) -> str:
    (pack / "run" / "note.txt").write_text("hello")
    return "run/note.txt"


def link(pack: Path) -> str:
    victim, elsewhere = pack / "run" / "config.json", pack.parent / "config.json"
    victim.rename(elsewhere)
    victim.symlink_to(elsewhere)
    return "run/config.json"


def pipe(pack: Path) -> str:
    os.mkfifo(pack / "run" / "pipe")
    return "run/pipe"


def remove_manifest(pack: Path) -> str:
    (pack / "manifest.json").unlink()
    return "manifest.json"


@pytest.mark.parametrize(
    ("tamper", "role", "layout"),
    [
        *((tamper, "candidate", "files") for tamper in (change, add, link, pipe)),
        *((tamper, "baseline", "compact") for tamper in (change, add)),
    ],
)
def test_compare_refuses_a_pack_that_does_not_verify(
    tamper: Callable[[Path], str], role: str, layout: str, packs: Path, tmp_path: Path
) -> None:
    shutil.copytree(packs / layout, tmp_path / "packs")
    broken = tamper(tmp_path / "packs" / role)
    before = tree(tmp_path)
    ended = agent_eval(*COMPARE, "packs/baseline", cwd=tmp_path)
    assert refused(ended, words=(broken.split("/")[0], role))["code"] == "invalid_pack"
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("tamper", "command", "layout"),
    [
        *((tamper, "gate", "files") for tamper in (change, link, remove_manifest)),
        *((tamper, "report", "compact") for tamper in (change, add)),
    ],
)
def test_gate_and_report_refuse_a_comparison_whose_pack_does_not_verify(
    tamper: Callable[[Path], str], command: str, layout: str, packs: Path, tmp_path: Path
) -> None:
    shutil.copytree(packs / layout / "candidate", tmp_path / "candidate")
    tamper(tmp_path / "candidate")
    before = tree(tmp_path)
    decide, report = ("gate", "--max-regressed-cases", "9"), ("report", "markdown")
    arguments = (*(decide if command == "gate" else report), "--out", "written")
    ended = agent_eval(*arguments, "--compare", "candidate/compare/baseline_delta.json", cwd=tmp_path)
    assert refused(ended)["code"] == "invalid_pack"
    assert tree(tmp_path) == before


def unwritable(here: Path) -> Path:
    """A directory in which nothing can be created, also not by root."""
    if os.geteuid() == 0:
        return Path("/proc/agent-eval-test")
    (here / "closed").mkdir(mode=0o555)
    return here / "closed" / "out"


@pytest.mark.parametrize("command", ["run", "compare", "migrate"])
def test_an_unwritable_output_is_exit_4(command: str, packs: Path, tmp_path: Path) -> None:
    out = unwritable(tmp_path)
    ended = agent_eval(*writing(command, packs / "files", out), cwd=tmp_path)
    assert refused(ended, code=4)["code"] == "storage_error"
    assert not out.exists()


@pytest.mark.parametrize("command", ["run", "init", "expand", "compare", "gate", "report", "migrate"])
def test_a_full_disk_is_exit_4_and_leaves_what_was_there(command: str, packs: Path, tmp_path: Path) -> None:
    shutil.copytree(packs / "files", tmp_path / "packs")
    out = tmp_path / "out" if command in ("init", "run", "expand") else tmp_path / "out.json"
    first = agent_eval(*writing(command, tmp_path / "packs", out), cwd=tmp_path)
    assert (first.code, first.err) == (0, "")
    before = tree(tmp_path)
    again = writing(command, tmp_path / "packs", out)
    ended = agent_eval(*again, cwd=tmp_path, largest_file=300, environ={"AGENT_EVAL_RUN_ID": "other"})
    assert refused(ended, code=4, words=("out",))["code"] == "storage_error"
    assert tree(tmp_path) == before


def test_a_full_disk_while_comparing_into_a_pack_leaves_the_pack_whole(packs: Path, tmp_path: Path) -> None:
    shutil.copytree(packs / "files", tmp_path / "packs")
    before = tree(tmp_path)
    ended = agent_eval(
        *("compare", "--baseline", "packs/baseline", "--candidate", "packs/candidate"), cwd=tmp_path,
        largest_file=500, environ={"AGENT_EVAL_CLOCK": "2027-01-01T00:00:00+00:00"},
    )  # fmt: skip
    refused(ended, code=4)
    assert tree(tmp_path) == before
    assert agent_eval("pack", "verify", "--run", "packs/candidate", cwd=tmp_path).code == 0


def writing(command: str, packs: Path, out: Path) -> tuple[str | Path, ...]:
    """A command line that writes to `out`."""
    compare = packs / "candidate/compare/baseline_delta.json"
    sides = ("--baseline", packs / "baseline", "--candidate", packs / "candidate")
    return {
        "run": ("run", "--suite", GOOD, "--out", out),
        "init": ("init", "--force", "--out", out),
        "expand": ("pack", "expand", "--run", packs / "candidate", "--out", out),
        "compare": ("compare", *sides, "--out", out),
        "gate": ("gate", "--compare", compare, "--min-pass-rate", "0", "--out", out),
        "report": ("report", "markdown", "--compare", compare, "--out", out),
        "migrate": ("schema", "migrate", "--input", GOOD, "--output", out.with_suffix(".json")),
    }[command]
