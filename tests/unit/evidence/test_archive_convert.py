"""Converting between layouts loses nothing: there and back are the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.contracts import SHARD_CASES
from agent_eval.errors import InvalidPack, UsageError
from agent_eval.evidence.archive import Conversion, compact, expand
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from tests.extent import examples
from tests.factories import make_case, make_config, make_pack, make_result, pretty, seal
from tests.unit.evidence.test_writer import HOSTILE_IDS, LAYOUTS, json_values

CONVERT = {"files": compact, "compact": expand}
OTHER = {"files": "compact", "compact": "files"}


def bytes_of(root: Path) -> dict[str, bytes]:
    return {at.relative_to(root).as_posix(): at.read_bytes() for at in root.rglob("*") if at.is_file()}


def results(count: int) -> list[Any]:
    ids = [*HOSTILE_IDS, *(f"case-{number}" for number in range(count))]
    ends: list[dict[str, Any]] = [{"failed": "policy"}, {"skipped": "regex"}, {}]
    return [make_result(case_id, **ends[number % 3]) for number, case_id in enumerate(ids)]


@LAYOUTS
@pytest.mark.parametrize("count", [0, 2 * SHARD_CASES])
def test_there_and_back_are_the_same_bytes_and_say_the_same(tmp_path: Path, layout: str, count: int) -> None:
    first = make_pack(tmp_path / "first", results(count), layout=layout)
    was = open_pack(first)
    conversion = CONVERT[layout](was, tmp_path / "second")
    assert conversion == Conversion(tmp_path / "second", OTHER[layout], [])  # type: ignore[arg-type]
    second = open_pack(tmp_path / "second")
    assert second.manifest.layout == OTHER[layout]
    assert (second.config, second.summary) == (was.config, was.summary)
    assert (second.results(), second.index()) == (was.results(), was.index())
    assert list(second.trajectories()) == list(was.trajectories())
    CONVERT[OTHER[layout]](second, tmp_path / "third")
    CONVERT[OTHER[layout]](was, tmp_path / "copy")
    assert bytes_of(tmp_path / "third") == bytes_of(tmp_path / "copy") == bytes_of(first)


JSON = json_values(st.text(max_size=5))


@settings(max_examples=examples(25))
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8), st.tuples(JSON, st.text(max_size=20)), min_size=1, max_size=5
    )
)
def test_any_case_survives(tmp_path_factory: pytest.TempPathFactory, cases: dict[str, Any]) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    made = [make_case(case_id, output=said, extra=extra) for case_id, (extra, said) in cases.items()]
    first = make_pack(tmp_path / "first", cases=made)
    compact(open_pack(first), tmp_path / "second")
    expand(open_pack(tmp_path / "second"), tmp_path / "third")
    assert bytes_of(tmp_path / "third") == bytes_of(first)


def test_what_was_written_after_the_run_stays_behind_and_is_named(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p")
    write_output(root / "compare/delta.json", b"{}")
    assert compact(open_pack(root), tmp_path / "q").left_behind == ["compare/delta.json"]
    assert open_pack(tmp_path / "q").derived is None
    assert open_pack(root).derived is not None


def test_a_pack_can_be_converted_in_place(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p", results(2))
    before = bytes_of(root)
    compact(open_pack(root), root)
    assert open_pack(root).manifest.layout == "compact"
    expand(open_pack(root), root)
    assert bytes_of(root) == before


@LAYOUTS
def test_a_configuration_of_another_version_is_kept_as_it_is(tmp_path: Path, layout: str) -> None:
    root = make_pack(tmp_path / "p", layout=layout)
    config = json.loads((root / "run/config.json").read_bytes())
    del config["policy_hash"]
    (root / "run/config.json").write_bytes(pretty({**config, "added_later": [1]}))
    resealed(root, layout)
    CONVERT[layout](open_pack(root), tmp_path / "q")
    assert (tmp_path / "q/run/config.json").read_bytes() == (root / "run/config.json").read_bytes()


def resealed(root: Path, layout: str = "files") -> Path:
    seal(root, make_config(), layout=layout, case_ids=["case-1", "case-2", "case-3"])
    return root


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("run/events.jsonl", b'{"forged": true}\n'), ("judges/policy.json", b"[]\n"),
        ("judges/extra.json", b"[]\n"), ("run/notes.txt", b"of a later version"), ("run/config.json", None),
        ("cases/case-2/trajectory.json", None), ("cases/case-2/verdicts.json", None),
    ],
)  # fmt: skip
def test_what_the_other_layout_cannot_hold_is_refused(tmp_path: Path, name: str, data: bytes | None) -> None:
    root = make_pack(tmp_path / "p")
    if data is None:  # the same value in another form
        data = json.dumps(json.loads((root / name).read_bytes())).encode()
    (root / name).write_bytes(data)
    with pytest.raises(InvalidPack, match=r"does not (follow|repeat)") as caught:
        compact(open_pack(resealed(root)), tmp_path / "q")
    assert caught.value.details["file"] == name
    assert not (tmp_path / "q").exists()


def test_directories_named_by_another_rule_are_refused(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p")
    (root / "cases/case-2").rename(root / "cases/second")
    resealed(root)
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["case_directories"]["case-2"] = "second"
    (root / "manifest.json").write_bytes(pretty(manifest))
    with pytest.raises(InvalidPack, match="does not follow"):
        compact(open_pack(root), tmp_path / "q")


@LAYOUTS
@pytest.mark.parametrize("written", ["compare/baseline_delta.json", "attestations/signature.json"])
def test_no_conversion_loses_what_was_written_into_a_pack(tmp_path: Path, layout: str, written: str) -> None:
    pack, other = (make_pack(tmp_path / name, results(3), layout=layout) for name in ("pack", "other"))
    write_output(pack / written, b"{}")
    before = bytes_of(pack)
    for source in (pack, other):
        with pytest.raises(UsageError, match=f"would lose: {written}"):
            CONVERT[layout](open_pack(source), pack)
    assert bytes_of(pack) == before
