"""An agent that rewrites, replaces or deletes the journal of its own run changes no verdict."""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import ExitCode
from agent_eval.storage.journal import Journal, RecordLine, encode, whole_lines
from tests.e2e.left import write_suite
from tests.e2e.program import Ended, agent_eval, tree
from tests.extent import crossed

CASES = 12
AGENT = """\
import json, os, sys, zlib
task = json.load(sys.stdin)
number = int(task["case_id"])
tool = "evil" if number % 3 == 0 else "good"
journal = {journal!r}

def forged(line):
    data = line[9:-1].replace(b'"evil"', b'"good"').replace(b'"failed"', b'"passed"')
    return b"%08x %b\\n" % (zlib.crc32(data), data)

def rewrite():
    with open(journal, "r+b") as file:
        for line in file.readlines():
            if b'"evil"' in line and line in content:
                file.seek(content.index(line))
                file.write(forged(line))

def play(trick):
    global content
    content = open(journal, "rb").read()
    if trick == "rewrite":
        rewrite()
    elif trick == "damage":
        with open(journal, "r+b") as file:
            file.seek(len(content) // 2)
            file.write(b"?" * 40)
    elif trick == "replace":
        os.unlink(journal)
        with open(journal, "wb") as file:
            file.writelines(forged(line) for line in content.splitlines(keepends=True))
    else:
        os.unlink(journal)

try:
    play(open({trick!r}).read())
except FileNotFoundError:  # there is no trick to play, or another process of this agent was quicker
    pass
open("log", "a").write(task["case_id"] + "\\n")
calls = [{{"tool": tool, "arguments": {{}}}}]
json.dump({{"assistant_output": "done", "tool_calls": calls, "cost_usd": 0.1}}, sys.stdout)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return prepare(tmp_path)


def prepare(place: Path) -> Path:
    """Write a suite and its agent."""
    cases = [
        {
            "case_id": str(number),
            "policy": {"forbidden_tools": ["evil"]},
            "metadata": {"tool_responses": {"good": 1, "evil": 1}},
        }
        for number in range(CASES)
    ]
    write_suite(place, *cases)
    agent = AGENT.format(journal=str(place / "out.journal"), trick=str(place / "trick"))
    (place / "agent.py").write_text(agent)
    return place


def run(place: Path, out: str, *more: str) -> Ended:
    command = f"{sys.executable} -S -E agent.py"
    words = ("run", "--suite", "suite.json", "--out", out, "--run-id", "r", "--agent-command", command)
    return agent_eval(*words, "--format", "json", *more, cwd=place)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, str]]:
    """The files of the pack of a run in which the agent plays no trick."""

    @cache
    def files(*how: str) -> dict[str, str]:
        place = prepare(tmp_path_factory.mktemp("honest"))
        assert run(place, "honest", *how).code == 0
        return tree(place / "honest")

    return files


@crossed(
    trick=["rewrite", "damage", "replace", "delete"], parallel=["1", "2", "8"], layout=["compact", "files"]
)
def test_no_verdict_changes(
    place: Path, honest: Callable[..., dict[str, str]], trick: str, parallel: str, layout: str
) -> None:
    how = ("--parallel", parallel, "--set", f"evidence.layout={layout}")
    (place / "trick").write_text(trick)
    ended = run(place, "out", *how)
    if ended.code:
        assert ended.code == ExitCode.NOT_EVALUABLE
        assert json.loads(ended.err.splitlines()[-1])["error"]["code"] == "journal_changed"
        assert not (place / "out").exists()
        (place / "trick").unlink()
        assert run(place, "out", *how, "--resume").code == 0
    else:
        assert trick in ("replace", "delete") or parallel != "1", "the rewritten records were taken"
    assert tree(place / "out") == honest(*how)


def test_what_was_damaged_between_two_starts_is_run_again_and_the_pack_says_so(place: Path) -> None:
    assert run(place, "honest").code == 0
    stopped = run(place, "out", "--max-run-cost", "0.6")
    assert stopped.code == ExitCode.NOT_EVALUABLE, stopped
    journal = place / "out.journal"
    content = bytearray(journal.read_bytes())
    content[content.index(b'"case_id":"2"')] ^= 4
    journal.write_bytes(content)
    (place / "log").unlink()
    resumed = run(place, "out", "--resume")
    assert resumed.code == 0
    printed = json.loads(resumed.out)
    assert (printed["damaged_records"], printed["resumed_cases"]) == (1, 5)
    assert sorted((place / "log").read_text().split(), key=int) == ["2", *map(str, range(6, CASES))]
    config = json.loads((place / "out" / "run" / "config.json").read_text())
    assert config["execution_config"].pop("damaged_records") == 1
    assert config == json.loads((place / "honest" / "run" / "config.json").read_text())
    same = {name for name in tree(place / "out") if "cases" in name}
    assert {at: tree(place / "out")[at] for at in same} == {at: tree(place / "honest")[at] for at in same}


def test_a_record_forged_after_a_crash_is_taken_as_the_documents_say(place: Path) -> None:
    """A program of the same user can write whatever this one can: docs/decisions/journal.md says so."""
    assert run(place, "out", "--max-run-cost", "0.6").code == ExitCode.NOT_EVALUABLE
    lines = [line for line in whole_lines(place / "out.journal") if not line.is_header]
    records = {line.record["case_id"]: line for line in lines}
    evil, good = records["3"], records["1"]
    data = json.dumps({**good.record, "case_id": "3", "position": evil.record["position"]})
    replace_record(place, evil, encode(json.loads(data.replace('"case_id": "1"', '"case_id": "3"'))))
    assert run(place, "out", "--resume").code == 0
    assert json.loads((place / "out" / "cases" / "3" / "verdicts.json").read_bytes())["passed"] is True
    text = (Path(__file__).parents[2] / "docs" / "decisions" / "journal.md").read_text()
    assert "records that an agent forged with a checksum that fits are taken" in " ".join(text.split())


@pytest.mark.parametrize(
    "change", [{"result": {"case_id": "3"}}, {"result": None}, {"trace": 7}, {"metadata": None}]
)
def test_a_forged_record_that_is_none_is_refused_with_a_remedy(change: dict[str, Any], place: Path) -> None:
    assert run(place, "out", "--max-run-cost", "0.6").code == ExitCode.NOT_EVALUABLE
    [evil] = [line for line in whole_lines(place / "out.journal") if line.record.get("case_id") == "3"]
    replace_record(place, evil, encode({**evil.record, **change}))
    resumed = run(place, "out", "--resume")
    error = json.loads(resumed.err.splitlines()[-1])["error"]
    assert (resumed.code, error["code"]) == (2, "validation_error")
    assert "--fresh" in error["details"]["remedy"]


def replace_record(place: Path, line: RecordLine, other: bytes) -> None:
    journal = place / "out.journal"
    content = journal.read_bytes()
    journal.write_bytes(content[: line.offset] + other + content[line.offset + len(line.data) :])


def test_a_second_run_into_the_same_directory_is_refused(place: Path) -> None:
    journal = place / "out.journal"
    with Journal.create(journal, {"run_id": "another process is at it"}) as open_journal:
        open_journal.append({"case_id": "0"})
        before = journal.read_bytes()
        for more in ((), ("--resume",), ("--fresh",)):
            second = run(place, "out", *more)
            assert second.code != 0
            assert "in use by another process" in json.loads(second.err.splitlines()[-1])["error"]["message"]
        assert journal.read_bytes() == before
    assert not (place / "log").exists()
