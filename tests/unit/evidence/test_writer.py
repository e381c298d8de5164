"""Writing packs: exact files, exact bytes, in both layouts."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import (
    SHARD_CASES,
    CaseResult,
    Manifest,
    Outcome,
    RunConfig,
    Tally,
    Trace,
    Verdict,
    case_result,
)
from agent_eval.contracts.suite import Case
from agent_eval.errors import FailureKind
from agent_eval.evidence import layout as at
from agent_eval.evidence.index import index_row
from agent_eval.evidence.writer import CaseEvidence, PackSealer, PackTarget, open_shard, result_row
from agent_eval.storage.files import sha256_file
from agent_eval.storage.json import dumps

LAYOUTS = pytest.mark.parametrize("layout", ["files", "compact"])
HOSTILE_IDS = ["../../x", "CON", "x" * 300, "Case", "case", "🎉", "a/b", "new\nline"]
CONFIG = RunConfig(run_id="run-1", dataset_id="demo", started_at="2026-01-01T00:00:00Z", judges=["policy"])


def verdict(case_id: str, judge_id: str, outcome: Outcome = Outcome.PASSED, **more: Any) -> Verdict:
    failed = outcome in (Outcome.FAILED, Outcome.ERROR)
    return Verdict(
        judge_id=judge_id, case_id=case_id, outcome=outcome, passed=outcome is Outcome.PASSED,
        reason="said", failure=FailureKind.POLICY_VIOLATION if failed else None, **more,
    )  # fmt: skip


def case(case_id: str, **more: Any) -> dict[str, Any]:
    event = {"idx": 0, "actor": "agent", "type": "message", "output": "héllo", "own": {"b": 1, "a": []}}
    return {"case_id": case_id, "unknown": {"kept": True}, "trace": [event], **more}


def evidence(raw: dict[str, Any], judges: tuple[str, ...] = ("replay_contract", "policy")) -> CaseEvidence:
    model = Case.model_validate(raw)
    result = result_row(case_result(raw["case_id"], [verdict(raw["case_id"], name) for name in judges]))
    return CaseEvidence(raw, dumps(raw), result, dumps(result), index_row(raw, model, Trace(model.trace)))


def write_pack(
    root: Path, layout: at.Layout, cases: list[dict[str, Any]], *, artifacts: Any = None, **options: Any
) -> Manifest:
    """Write a sealed pack; its summary counts the cases only where it is given their `artifacts` by id."""
    root.mkdir()
    target = PackTarget(root, layout, "run-1", "demo")
    target.prepare()
    tally = Tally()
    with PackSealer(target) as sealer:
        written = []
        for index, first in enumerate(range(0, len(cases), SHARD_CASES)):
            with open_shard(target, index) as writer:
                for raw in cases[first : first + SHARD_CASES]:
                    plain = evidence(raw, **options)
                    if artifacts is not None:
                        tally.add_row(plain.result)
                        plain = replace(plain, artifacts=artifacts[raw["case_id"]])
                    writer.add(plain)
                written.append(writer.finish())
        for shard in written:
            sealer.append(shard)
        return sealer.seal(CONFIG.to_json(), tally.summary("run-1", "demo").to_json())


def tree(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@LAYOUTS
def test_manifest_lists_every_other_file_with_size_and_digest(tmp_path: Path, layout: at.Layout) -> None:
    root = tmp_path / "pack"
    manifest = write_pack(root, layout, [case("b"), case("a/../x")])
    assert Manifest.model_validate_json((root / "manifest.json").read_bytes()) == manifest
    paths = [entry.path for entry in manifest.files]
    assert paths == sorted(tree(root) - {"manifest.json"})
    assert all(sha256_file(root / entry.path) == (entry.sha256, entry.size) for entry in manifest.files)
    assert (manifest.layout, manifest.case_count, manifest.complete) == (layout, 2, True)
    for path in root.rglob("*.json"):
        assert path.read_bytes() == dumps(json.loads(path.read_text()), indent=True), "people open it"


RUN = {"manifest.json", "run/config.json", "run/summary.json", "run/index.jsonl"}


def test_files_layout_is_the_specified_one(tmp_path: Path) -> None:
    manifest = write_pack(tmp_path / "pack", "files", [case("one"), case("CON")])
    directory = at.case_directory("CON")
    assert manifest.case_directories == {"one": "one", "CON": directory}
    judges = {"judges/policy.json", "judges/replay_contract.json"}
    cases = {f"cases/{one}/{name}.json" for one in ("one", directory) for name in ("trajectory", "verdicts")}
    assert tree(tmp_path / "pack") == RUN | {"run/events.jsonl"} | judges | cases


def test_compact_layout_has_no_folders(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    manifest = write_pack(root, "compact", [case(f"c{number}") for number in range(SHARD_CASES + 1)])
    assert manifest.case_directories == {}
    shards = {f"cases/{name}-0000{at}.jsonl" for name in ("trajectories", "verdicts") for at in (0, 1)}
    assert tree(root) == RUN | shards
    (last,) = lines(root / "cases/verdicts-00001.jsonl")
    assert CaseResult.model_validate(last).passed
    assert last["case_id"] == f"c{SHARD_CASES}"


def test_events_name_their_run_dataset_and_case_whatever_they_claim(tmp_path: Path) -> None:
    lying = {"idx": 0, "actor": "agent", "type": "message", "case_id": "other", "run_id": "other"}
    write_pack(
        tmp_path / "pack", "files", [case("a"), {"case_id": "b", "trace": [lying, {**lying, "idx": 1}]}]
    )
    write_pack(tmp_path / "silent", "files", [{"case_id": "a"}])
    assert (tmp_path / "silent/run/events.jsonl").read_bytes() == b""
    events = lines(tmp_path / "pack/run/events.jsonl")
    assert [(event["case_id"], event["idx"]) for event in events] == [("a", 0), ("b", 0), ("b", 1)]
    assert {(event["run_id"], event["dataset_id"]) for event in events} == {("run-1", "demo")}


def test_judge_files_are_lists_over_all_shards_as_if_written_at_once(tmp_path: Path) -> None:
    cases = [case(f"c{number}") for number in range(SHARD_CASES + 3)]
    write_pack(tmp_path / "pack", "files", cases, judges=("policy", "My Judge"))
    expected = [verdict(raw["case_id"], "My Judge").to_json() for raw in cases]
    assert (tmp_path / "pack" / at.judge_file("My Judge")).read_bytes() == dumps(expected, indent=True)
    assert at.judge_file("My Judge") != at.judge_file("my judge")


@LAYOUTS
def test_nothing_is_left_open_when_writing_is_given_up(tmp_path: Path, layout: at.Layout) -> None:
    target = PackTarget(tmp_path, layout, "run-1", "demo")
    target.prepare()
    before = len(os.listdir("/proc/self/fd"))

    def give_up() -> None:
        with PackSealer(target), open_shard(target, 0) as writer:
            writer.add(evidence(case("a")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert len(os.listdir("/proc/self/fd")) == before


def json_values(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON whose objects have such names."""
    numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


_json = json_values(st.text('ab\n"', max_size=2))
_verdicts = st.builds(
    verdict, case_id=st.just("c"), judge_id=st.text("abc", min_size=1), outcome=st.sampled_from(Outcome),
    score=st.none() | st.floats(0, 1), hard=st.booleans(),
    evidence_refs=st.lists(st.integers(0, 99), max_size=3),
    evidence=st.dictionaries(st.text("ab"), _json, max_size=3), weight=st.floats(0, 100),
    category=st.none() | st.text("ab"), later_field=_json,
)  # fmt: skip


@given(st.lists(_verdicts, max_size=4), st.integers(0, 9))
def test_fast_row_is_the_models_json(verdicts: list[Verdict], trial: int) -> None:
    result = case_result("c", verdicts, trial=trial)
    assert dumps(result_row(result)) == dumps(result.to_json())
    assert dumps(result_row(result)) == dumps(CaseResult.model_validate(result.to_json()).to_json())


@given(st.lists(_json, max_size=4))
def test_list_written_item_by_item_is_the_list_written_at_once(values: list[Any]) -> None:
    items = at.IndentedList()
    assert b"".join(items.item(value) for value in values) + items.end() == dumps(values, indent=True)


def test_auto_layout_is_compact_beyond_two_thousand_cases() -> None:
    assert at.choose_layout("auto", 2_000) == "files"
    assert at.choose_layout("auto", 2_001) == "compact"
    assert at.choose_layout("files", 10**6) == "files"
    assert at.choose_layout("compact", 1) == "compact"
