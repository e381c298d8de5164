"""Packs of a divided run become the pack of the whole, or it is said why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.config.assembly import assemble
from agent_eval.config.spec import Layout, Output, RunSpec
from agent_eval.contracts import canonical_json
from agent_eval.errors import IncompatibleRuns, InvalidInput, InvalidPack, NothingMeasured
from agent_eval.evidence.reader import open_pack
from agent_eval.operations import merge
from agent_eval.operations.run import RunResult, run_suite
from agent_eval.storage.files import safe_name
from agent_eval.suites.select import decode_positions, encode_positions, parse_share, share_of
from tests.e2e.program import tree
from tests.factories import make_case, make_config, make_pack, make_suite, pretty, seal

ENVIRON = {
    "AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00",
    "AGENT_EVAL_RUN_ID": "r",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
}


def merged_packs(
    packs: list[Path], out: Path, *, layout: Layout = "auto", run_id: str | None = None
) -> RunResult:
    return merge.merge_packs(packs, Output(pack=out, layout=layout), run_id=run_id)


def write_suite(path: Path, count: int) -> Path:
    cases = [make_case(f"case {number}", "bad" if number % 5 == 0 else "lookup") for number in range(count)]
    for case in cases:
        case["policy"] = {"forbidden_tools": ["bad"]}
    path.write_text(json.dumps(make_suite(*cases)))
    return path


PLACES = {
    "layout": "output.layout",
    "run_id": "identity.run_id",
    "seed": "identity.seed",
    "agent_version": "identity.agent_version",
    "judges": "judging.judges",
}


def scored(suite: Path, out: Path, shard: str | None = None, **more: Any) -> Path:
    environ = {**ENVIRON, **more.pop("environ", {})}
    values = {"suite": suite, "output.pack": out, "shard": shard}
    values |= {PLACES.get(name, name): value for name, value in more.items()}
    run_suite(RunSpec(**assemble(values)), environ=environ)
    return out


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "suite.json", 60)


def shards(suite: Path, root: Path, count: int = 4, **more: Any) -> list[Path]:
    return [scored(suite, root / f"s{n}", f"{n}/{count}", **more) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("of_parts", "layout", "count", "cases", "chosen"),
    [
        *(("files", layout, count, 60, ()) for layout in ("files", "compact") for count in (1, 4)),
        ("compact", "compact", 3, 620, ()),
        ("files", "files", 2, 60, tuple(f"case {number}" for number in range(10, 30))),
    ],
)
def test_shards_merged_are_the_whole_run(
    of_parts: str, layout: Any, count: int, cases: int, chosen: tuple[str, ...], tmp_path: Path
) -> None:
    suite = write_suite(tmp_path / "suite.json", cases)
    whole = scored(suite, tmp_path / "whole", layout=layout, cases=chosen)
    parts = shards(suite, tmp_path, count, cases=chosen, layout=of_parts)
    merged_packs(list(reversed(parts)), tmp_path / "merged", layout=layout)
    assert tree(whole) == tree(tmp_path / "merged")
    assert sum(open_pack(part).manifest.case_count for part in parts) == (len(chosen) or cases)


@pytest.mark.parametrize("layout", ["files", "compact"])
def test_artifacts_of_cases_come_along(suite: Path, tmp_path: Path, layout: Any) -> None:
    parts = shards(suite, tmp_path, 2)
    pack = open_pack(parts[1])
    (parts[1] / "cases" / safe_name(pack.case_ids()[0]) / "artifacts").mkdir()
    (parts[1] / "cases" / safe_name(pack.case_ids()[0]) / "artifacts/stderr.txt").write_bytes(b"oh\xff")
    seal(parts[1], pack.config, layout="files", case_ids=pack.case_ids())
    merged_packs(parts, tmp_path / "merged", layout=layout)
    merged = open_pack(tmp_path / "merged")
    found = {case_id: merged.artifacts(case_id) for case_id in merged.case_ids()}
    assert {case_id: files for case_id, files in found.items() if files} == {
        pack.case_ids()[0]: {"stderr.txt": b"oh\xff"}
    }


def test_a_case_keeps_its_shard_when_others_come_and_go(suite: Path, tmp_path: Path) -> None:
    more = write_suite(tmp_path / "more.json", 90)
    one, other = (open_pack(scored(path, tmp_path / path.stem, "2/4")) for path in (suite, more))
    assert set(one.case_ids()) == set(other.case_ids()) & {f"case {number}" for number in range(60)}


def test_names_and_starts_of_shards_may_differ(suite: Path, tmp_path: Path) -> None:
    first = scored(suite, tmp_path / "a", "1/2", run_id="one")
    later = {"AGENT_EVAL_CLOCK": "2026-01-14T09:00:00+00:00"}
    second = scored(suite, tmp_path / "b", "2/2", run_id="two", environ=later)
    merged = merged_packs([second, first], tmp_path / "m")
    assert merged.run_id == "one"
    assert merged.config.started_at == "2026-01-14T09:00:00+00:00"
    assert merged_packs([first, second], tmp_path / "n", run_id="all").run_id == "all"
    assert open_pack(tmp_path / "n").manifest.run_id == "all"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["1/4", "2/4", "4/4"], "cases are missing: shards 1, 2, 4 of 4 were named"),
        (["1/2", "2/2", "1/2"], "overlap"),
        (["1/2", "1/3"], "number of shards"),
        ([None], "whole run"),
    ],
)
def test_parts_that_are_no_whole_are_told(
    suite: Path, tmp_path: Path, parts: list[str | None], message: str
) -> None:
    packs = [scored(suite, tmp_path / str(number), part) for number, part in enumerate(parts)]
    with pytest.raises(IncompatibleRuns, match=message):
        merged_packs(packs, tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"seed": 3}, "seed"),
        ({"judges": ("policy",)}, "judges"),
        ({"agent_version": "2"}, "agent_version"),
        ({"cases": tuple(f"case {number}" for number in range(30))}, "selected_cases"),
        ({"suite": 61}, "suite_digest"),
    ],
)
def test_mixed_settings_are_told(suite: Path, tmp_path: Path, more: dict[str, Any], named: str) -> None:
    first = scored(suite, tmp_path / "a", "1/2")
    other = write_suite(tmp_path / "other.json", more.pop("suite")) if "suite" in more else suite
    second = scored(other, tmp_path / "b", "2/2", **more)
    with pytest.raises(IncompatibleRuns, match=named):
        merged_packs([first, second], tmp_path / "m")


@pytest.mark.parametrize(
    "shard",
    [
        "1/2",
        {"number": 1, "count": 2, "total": 3},
        {"number": 1, "count": 2, "total": 3, "positions": "?"},
        {"number": 1, "count": 2, "total": 3, "positions": "eJw="},
        {"number": 1, "count": 2, "total": -1, "positions": encode_positions([0], 3)},
        {"number": 1, "count": 2, "total": 2**40, "positions": encode_positions([0], 3)},
        {"number": 1, "count": 2, "total": 900, "positions": encode_positions([0], 3)},
        {"number": 1, "count": 2, "total": 3, "positions": encode_positions([0, 2], 3)},
        {"number": 1, "count": 2, "total": 3, "positions": encode_positions([0, 1, 5], 6)},
    ],
)
def test_a_shard_that_lies_is_told(tmp_path: Path, shard: Any) -> None:
    pack = make_pack(tmp_path / "p")
    stated = {**make_config().to_json(), "execution_config": {"shard": shard}}
    (pack / "run" / "config.json").write_bytes(pretty(stated))
    seal(pack, make_config(), layout="files", case_ids=["case-1", "case-2", "case-3"])
    with pytest.raises(InvalidPack, match=r"shard|cases"):
        merged_packs([pack], tmp_path / "m")


@given(st.sets(st.integers(0, 999)), st.integers(1000, 1020))
def test_positions_come_back(positions: set[int], total: int) -> None:
    assert decode_positions(encode_positions(sorted(positions), total), total) == sorted(positions)


@given(st.text(), st.integers(1, 50))
def test_every_case_belongs_to_one_shard(case_id: str, count: int) -> None:
    assert [parse_share(f"{n}/{count}").holds(case_id) for n in range(1, count + 1)].count(True) == 1
    assert 1 <= share_of(case_id, count) <= count


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b", "1/99999", "١/٤"])
def test_what_is_no_shard_is_told(text: str) -> None:
    with pytest.raises(InvalidInput, match="there is no shard"):
        parse_share(text)


def test_a_shard_without_cases_measures_nothing(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite.json", 1)
    empty = [n for n in range(1, 4) if not parse_share(f"{n}/3").holds("case 0")]
    with pytest.raises(NothingMeasured, match="no case falls into shard"):
        scored(suite, tmp_path / "a", f"{empty[0]}/3")


def test_positions_of_a_large_suite_are_small() -> None:
    positions = [number for number in range(100_000) if share_of(f"case-{number}", 4) == 1]
    assert len(canonical_json(encode_positions(positions, 100_000))) < 20_000
