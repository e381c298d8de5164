"""Sealed again by whoever tampered: a pack that contradicts itself is still refused."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidPack
from agent_eval.evidence import rows as row_checks
from agent_eval.evidence import verify
from agent_eval.evidence.reader import open_pack
from agent_eval.evidence.sources import DirectorySource
from tests.factories import make_case, make_config, make_index_row, make_pack, make_result, pretty
from tests.security.packs import GONE, IDS, LAYOUTS, apply, edit, pack_of, refused, reindex, reseal


def doubled_judge(result: Any) -> None:
    result["verdicts"].append(result["verdicts"][1])


def another_case(result: Any) -> None:
    result["case_id"] = "x"
    for verdict in result["verdicts"]:
        verdict["case_id"] = "x"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"outcome": "passed", "passed": True}, "outcome 'passed' does not follow from its verdicts"),
        ({"hard_failed": False}, "hard_failed does not follow"),
        ({"score": 1.0}, "score does not follow"),
        ({"score": None}, "score does not follow"),
        ({"trial": -1}, "names a trial but has none"),
        ({"verdicts.1.case_id": "a"}, "belongs to another case"),
        (doubled_judge, "two verdicts of one judge"),
        ({"verdicts.2.passed": True}, "passed contradicts the outcome"),
        ({"verdicts.2.failure": None}, "exactly failed and error verdicts carry a failure"),
        ({"verdicts.2.failure": "bad_luck"}, "unknown failure 'bad_luck'"),
        ({"verdicts.2.outcome": "great"}, "unknown outcome 'great'"),
        ({"verdicts.2.score": 7}, "score is not between 0 and 1"),
        ({"verdicts.2.weight": -1}, "weight is negative"),
        ({"verdicts.2.hard": "yes"}, "hard: Input should be a valid boolean"),
        ({"verdicts.2.evidence_refs": [True]}, r"evidence_refs\.0: Input should be a valid integer"),
        ({"verdicts.2.reason": GONE}, "reason: Field required"),
        ({"verdicts.2": "passed"}, "Input should be a valid dictionary"),
        ({"trial": GONE}, "trial: Field required"),
        (another_case, "has case 'x' where the index has 'b'"),
    ],
)
@LAYOUTS
def test_verdicts_that_contradict_themselves_are_refused(
    tmp_path: Path, layout: str, change: Callable[[Any], None] | dict[str, Any], what: str
) -> None:
    root = pack_of(tmp_path, layout)
    if layout == "files":
        name = "cases/b/verdicts.json"
        edit(root / name, change)
    else:
        name = "cases/verdicts-00000.jsonl"
        rows = [json.loads(line) for line in (root / name).read_bytes().splitlines()]
        apply(rows[1], change)
        (root / name).write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    reseal(root, layout)
    refused(root, name, what)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("passed_cases", 3),
        ("pass_rate", 1.0),
        ("hard_fail_cases", 0),
        ("judge_pass_rates", {}),
        ("failures", {}),
        ("total_cases", 2),
    ],
)
@LAYOUTS
def test_a_summary_against_verdicts_is_refused(tmp_path: Path, layout: str, field: str, value: Any) -> None:
    root = pack_of(tmp_path, layout)
    edit(root / "run/summary.json", lambda summary: summary.update({field: value}))
    reseal(root, layout)
    refused(root, "run/summary.json", f"summary disagrees with verdicts: {field}")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"case_id": "a"}\n', "line 1: definition_digest: Field required"),
        (b"[]\n", "line 1: Input should be a valid dictionary"),
        (b'{"a": 1}', "does not end with a line feed"),
        (b"\n", "line 1, column 1: empty"),
        (b'{"a": 1\n"b": 2}\n', "line 1, column 8"),
        (b'{"a": 1},{"b":\n1}\n', "line 1, column 9"),
        (b'{"a": 1, "a": 2}\n', "line 1, column 10: duplicate key"),
        (b"", "has 0 cases, manifest.json says 3"),
    ],
)
def test_broken_indexes_are_refused_with_their_line(tmp_path: Path, data: bytes, what: str) -> None:
    root = pack_of(tmp_path)
    (root / "run/index.jsonl").write_bytes(data)
    reseal(root, "files")
    refused(root, "run/index.jsonl", what)


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (make_index_row(make_case("a")), "run/index.jsonl", "has a case twice"),
        ({"case_id": "x"}, "manifest.json", "has no directory for case 'x'"),
        ({"calls": [["only-one"]]}, "run/index.jsonl", "calls: must be pairs of strings"),
        ({"calls": [["tool", 1]]}, "run/index.jsonl", "calls: must be pairs of strings|calls"),
        ({"models": [1]}, "run/index.jsonl", "models"),
        ({"input_tokens": "many"}, "run/index.jsonl", "line 2: input_tokens"),
    ],
)
def test_other_index_rows_are_refused(tmp_path: Path, change: dict[str, Any], place: str, what: str) -> None:
    root = pack_of(tmp_path)
    rows = [make_index_row(make_case(case_id)) for case_id in IDS]
    rows[1].update(change)
    reindex(root, rows)
    refused(root, place, what)


def without_last_line(*names: str) -> Callable[[Path], None]:
    def cut(cases: Path) -> None:
        for name in names:
            lines = (cases / f"{name}-00001.jsonl").read_bytes().splitlines(keepends=True)
            (cases / f"{name}-00001.jsonl").write_bytes(b"".join(lines[:-1]))

    return cut


def twice(cases: Path) -> None:
    for file in cases.glob("*-00001.jsonl"):
        file.write_bytes(file.read_bytes() * 2)


def without_verdicts(cases: Path) -> None:
    """Add a shard to which no row of the index leads."""
    shutil.copy(cases / "trajectories-00001.jsonl", cases / "trajectories-00002.jsonl")
    (cases / "verdicts-00002.jsonl").touch()


def cut_last_byte(cases: Path) -> None:
    file = cases / "trajectories-00000.jsonl"
    file.write_bytes(file.read_bytes()[:-1])


TRAJECTORIES, VERDICTS = "cases/trajectories-00001.jsonl", "cases/verdicts-00001.jsonl"
SHARDS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a trajectory lost": (
        without_last_line("trajectories"), VERDICTS, "has 1 cases, its trajectories have 0",
    ),
    "a verdict lost": (without_last_line("verdicts"), VERDICTS, "has 0 cases, its trajectories have 1"),
    "both lost": (
        without_last_line("trajectories", "verdicts"), "run/index.jsonl", "has cases without verdicts",
    ),
    "a case too many": (twice, VERDICTS, "have 4 cases, run/index.jsonl has 3"),
    "a gap in the numbers": (
        lambda cases: (cases / "trajectories-00001.jsonl").rename(cases / "trajectories-00002.jsonl"),
        "manifest.json", f"does not list {TRAJECTORIES}",
    ),
    "a shard without verdicts": (
        without_verdicts, "cases/verdicts-00002.jsonl", "has 0 cases, its trajectories have 1",
    ),
    "all lost": (shutil.rmtree, "run/index.jsonl", "has cases without verdicts"),
    "no line feed at the end": (
        cut_last_byte, "cases/trajectories-00000.jsonl", "does not end with a line feed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tamper", "place", "what"), SHARDS.values(), ids=SHARDS)
def test_broken_shards_are_refused(
    tmp_path: Path, tamper: Callable[[Path], object], place: str, what: str
) -> None:
    root = pack_of(tmp_path, "compact", shard=2)
    tamper(root / "cases")
    reseal(root, "compact")
    refused(root, place, what)


@LAYOUTS
def test_a_trajectory_of_another_case_is_refused_when_it_is_read(tmp_path: Path, layout: str) -> None:
    root = pack_of(tmp_path, layout, cases=[make_case("a"), make_case("c"), make_case("b")])
    if layout == "files":
        (root / "cases/b/trajectory.json").write_bytes((root / "cases/a/trajectory.json").read_bytes())
    reindex(root, [make_index_row(make_case(case_id)) for case_id in IDS], layout)
    with pytest.raises(InvalidPack, match="does not hold case 'b'"):
        open_pack(root).trajectory("b")


@pytest.mark.parametrize(
    "trajectory", [{"case_id": "b", "trace": 5}, {"case_id": "b", "input": 1, "trace": [{"idx": True}]}]
)
def test_a_trajectory_that_breaks_the_contract_is_refused(tmp_path: Path, trajectory: Any) -> None:
    root = pack_of(tmp_path)
    (root / "cases/b/trajectory.json").write_bytes(pretty(trajectory))
    reseal(root, "files")
    with pytest.raises(InvalidPack, match=r"case 'b': its trajectory: trace"):
        open_pack(root)


def test_files_beyond_the_limits_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pack_of(tmp_path)
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidPack, match="is larger than 1,000 bytes"):
        open_pack(root)
    monkeypatch.setattr(verify, "MAX_MANIFEST_BYTES", 500)
    refused(root, "manifest.json", "is larger than 500 bytes")


def test_files_of_exactly_the_limits_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pack_of(tmp_path)
    largest = max(path.stat().st_size for path in root.rglob("*.json*") if path.name != "manifest.json")
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", largest)
    monkeypatch.setattr(verify, "MAX_MANIFEST_BYTES", (root / "manifest.json").stat().st_size)
    pack = open_pack(root)
    assert all(len(pack.read(entry.path)) == entry.size for entry in pack.files())
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", largest - 1)
    with pytest.raises(InvalidPack, match="is larger than"):
        _ = [pack.read(entry.path) for entry in pack.files()]


def test_directories_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pack_of(tmp_path)

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", fails)
    refused(root, None, "Input/output error")


def test_a_file_that_vanishes_while_it_is_read_makes_the_pack_invalid(tmp_path: Path) -> None:
    class Failing(DirectorySource):
        def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
            for path, content in super().members():
                if path == "run/summary.json":
                    (self.root / path).rename(tmp_path / "vanished")
                yield path, content

    with pytest.raises(InvalidPack, match=r"run/summary\.json: No such file"):
        open_pack(Failing(pack_of(tmp_path)))


def test_a_source_gives_no_file_outside_of_the_pack(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1")
    source = DirectorySource(pack_of(tmp_path))
    for path in ("../secret", str(tmp_path / "secret"), "run/../../secret"):
        with pytest.raises(InvalidPack, match="is not a path within the pack"):
            source.content(path)


def test_results_that_all_differ_are_counted_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_checks, "_MOST_COMBINATIONS", 2)
    judges = ("policy", "regex", "json_schema")
    results = [make_result(f"c{number}", failed=judges[: number % 4], judges=judges) for number in range(20)]
    pack = make_pack(tmp_path / "p", results, config=make_config(judges=list(judges)))
    assert open_pack(pack).summary.passed_cases == 5
