"""Reading a pack: everything a consumer needs, in suite order, from both layouts."""

import gc
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from agent_eval.contracts import Case, CaseResultRow, definition_digest
from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence import sources
from agent_eval.evidence.reader import Pack, Watch, failing_cases, open_pack, verify_pack
from agent_eval.evidence.redacted import RedactedPack
from agent_eval.storage.files import sha256_file
from agent_eval.storage.redaction import Redactor
from tests.factories import make_case, make_config, make_pack, make_result, seal
from tests.unit.evidence.test_writer import HOSTILE_IDS, LAYOUTS, case, write_pack


@LAYOUTS
def test_a_pack_says_what_was_run_and_found(tmp_path: Path, layout: str) -> None:
    results = [make_result("b"), make_result("a", failed="policy")]
    results[0].verdicts[0] = results[0].verdicts[0].model_copy(update={"confidence": 0.7})
    pack = open_pack(make_pack(tmp_path / "p", results, layout=layout, config=make_config(model="m-1")))
    assert pack.name == str(tmp_path / "p")
    assert (pack.config.run_id, pack.config.model, pack.manifest.layout) == ("run-1", "m-1", layout)
    assert (pack.summary.total_cases, pack.summary.pass_rate) == (2, 0.5)
    assert pack.case_ids() == ["b", "a"]
    assert [row["case_id"] for row in pack.index()] == ["b", "a"]
    assert [(row["case_id"], row["passed"]) for row in pack.results()] == [("b", True), ("a", False)]
    assert pack.results()[1]["verdicts"][2]["failure"] == "policy_violation"
    assert dict(pack.results()[0]["verdicts"][0])["confidence"] == 0.7, "what is unknown is kept"
    assert len(pack.manifest_sha256) == 64
    assert pack.derived is None
    empty = open_pack(make_pack(tmp_path / "empty", [], cases=[], layout=layout))
    assert (empty.case_ids(), empty.results(), empty.summary.total_cases) == ([], [], 0)


@LAYOUTS
def test_trajectories_come_as_contracts_and_as_they_stand(tmp_path: Path, layout: str) -> None:
    cases = [make_case(f"c{number}", "search", "buy", note=number) for number in range(7)]
    pack = open_pack(make_pack(tmp_path / "p", cases=cases, layout=layout, shard=3))
    assert [event.tool for event in pack.trajectory("c4").trace][:3] == ["search", "search", "buy"]
    assert pack.raw_trajectory("c6") == cases[6]
    assert [raw for raw, _ in pack.trajectories()] == cases


@LAYOUTS
def test_listed_files_can_be_read_and_others_not(tmp_path: Path, layout: str) -> None:
    pack = open_pack(make_pack(tmp_path / "p", layout=layout))
    paths = [entry.path for entry in pack.files()]
    assert paths == sorted(paths)
    assert all(len(pack.read(entry.path)) == entry.size for entry in pack.files())
    for path in ("manifest.json", "../p/run/config.json", "nothing"):
        with pytest.raises(InvalidInput, match="no file"):
            pack.read(path)
    with pytest.raises(InvalidInput, match="no case 'nobody'"):
        pack.trajectory("nobody")


@pytest.mark.parametrize("piece", [1, 100, 300, 5000])
def test_a_long_index_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(sources, "_CHUNK", piece)
    ids = [f"case-{number}" for number in range(40)]
    root = make_pack(tmp_path / "p", [make_result(case_id) for case_id in ids])
    assert open_pack(root).case_ids() == ids
    index = (root / "run/index.jsonl").read_bytes().replace(b'"case-33"', b"33")
    (root / "run/index.jsonl").write_bytes(index)
    seal(root, make_config(), layout="files", case_ids=ids)
    with pytest.raises(InvalidPack, match="line 34: case_id: Input should be a valid string"):
        open_pack(root)


def test_a_pack_takes_no_memory_for_its_cases_until_they_are_asked_for(tmp_path: Path) -> None:
    count = 600
    results = [make_result(f"case-{number}") for number in range(count)]
    root = make_pack(tmp_path / "p", results, layout="compact")
    open_pack(root)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        pack = open_pack(root)
        gc.collect()
        bytes_kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(pack.results()) == count
    assert bytes_kept < 100 * count  # a row of the index has 400 bytes, its result and trajectory have 3 KB


class Seen(Watch):
    def __init__(self) -> None:
        self.noted: list[tuple[int, str, str, str | None]] = []

    def __call__(self, pack: Pack, case: Case, result: CaseResultRow) -> None:
        self.noted.append((pack.summary.total_cases, case.case_id, result["case_id"], case.trace[0].tool))

    def add(self, noted: list[tuple[int, str, str, str | None]]) -> None:
        self.noted += noted


@LAYOUTS
def test_who_watches_gets_every_case_in_order_while_the_pack_is_opened(tmp_path: Path, layout: str) -> None:
    cases = [make_case(f"c{number}", f"tool-{number}") for number in range(5)]
    watch = Seen()
    pack = open_pack(make_pack(tmp_path / "p", cases=cases, layout=layout, shard=2), watch=watch)
    watched = watch.noted
    assert watched == [(5, f"c{number}", f"c{number}", f"tool-{number}") for number in range(5)]
    assert [(case.case_id, row["case_id"]) for case, row in pack.cases()] == [row[1:3] for row in watched]


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p")
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        open_pack(root).trajectory("case-1")
    (root / "extra").write_bytes(b"")
    for _ in range(5):
        with pytest.raises(InvalidPack):
            open_pack(root)
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@LAYOUTS
def test_case_ids_are_only_names(tmp_path: Path, layout: str) -> None:
    ids = [*HOSTILE_IDS, *(f"{name}-00000.jsonl" for name in ("trajectories", "verdicts", "artifacts"))]
    ids += ["artifacts", "run", "nul\0"]
    pack = open_pack(make_pack(tmp_path / "p", [make_result(case_id) for case_id in ids], layout=layout))
    assert [row["case_id"] for row in pack.results()] == pack.case_ids() == ids
    assert [pack.trajectory(case_id).case_id for case_id in ids] == ids


@LAYOUTS
def test_failing_cases_come_in_suite_order_with_their_trajectory(tmp_path: Path, layout: str) -> None:
    ids = ['"outcome":"passed"', "b", '"outcome": "passed"', "a"]
    results = [make_result(name, failed=() if name == "b" else "policy") for name in ids]
    pack = make_pack(tmp_path / "pack", results, layout=layout)
    found = list(failing_cases(pack))
    assert [row["case_id"] for row, _ in found] == [ids[0], *ids[2:]]
    assert all((pack / path).is_file() for _, path in found)
    assert list(failing_cases(tmp_path)) == [], "a pack that is not finished has none"


@LAYOUTS
def test_no_more_is_read_for_failing_cases_than_is_asked_for(tmp_path: Path, layout: str) -> None:
    results = [make_result(f"case-{number:03}", failed="policy") for number in range(300)]
    pack = make_pack(tmp_path / "pack", results, layout=layout)
    for path in [*(pack / "cases").glob("verdicts-00001.jsonl"), *pack.glob("cases/case-299*/verdicts.json")]:
        path.write_text("no JSON\n")
    assert len(list(islice(failing_cases(pack), 10))) == 10


def test_a_seal_is_checked_without_reading_what_the_files_say(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    # The summary of this pack counts no cases at all: opening it would refuse it.
    write_pack(root, "compact", [case("a"), case("b")])
    seal = verify_pack(root)
    assert seal.manifest_sha256 == sha256_file(root / "manifest.json")[0]
    assert "cases/verdicts-00000.jsonl" in {entry.path for entry in seal.files()}
    (root / "cases/verdicts-00000.jsonl").write_bytes(b"{}\n")
    with pytest.raises(InvalidPack, match="was changed"):
        verify_pack(root)


@LAYOUTS
def test_a_case_is_read_under_another_id(tmp_path: Path, layout: str) -> None:
    results = [make_result("a", failed="policy"), make_result("b")]
    pack = open_pack(make_pack(tmp_path / "pack", results, layout=layout))
    renamed = pack.under_names({"a": "z"})
    assert (pack.case_ids(), renamed.case_ids()) == (["a", "b"], ["z", "b"])
    result, index = renamed.results_by_id()["z"], renamed.index_by_id()["z"]
    assert {verdict["case_id"] for verdict in result["verdicts"]} == {result["case_id"]} == {"z"}
    assert (result["outcome"], index["case_id"]) == ("failed", "z")
    assert index["definition_digest"] == definition_digest({**pack.raw_trajectory("a"), "case_id": "z"})
    assert (renamed.trajectory("z").case_id, renamed.artifacts("z")) == ("z", {})
    assert [(name.case_id, name.stored) for name in renamed.renamed()] == [("z", "a")]
    with pytest.raises(InvalidInput, match="no case"):
        renamed.trajectory("a")


# Read without the secrets that its run did not know.

SECRET = "refund-4f81b7"


def packed(place: Path, layout: str) -> Pack:
    results = [make_result(SECRET, failed="policy"), make_result("other")]
    cases = [make_case(name, output=f"The key is {SECRET}.") for name in (SECRET, "other")]
    return open_pack(make_pack(place / "pack", results, cases=cases, layout=layout))


@LAYOUTS
def test_a_case_is_found_by_its_id_and_read_without_the_secret(tmp_path: Path, layout: str) -> None:
    pack = packed(tmp_path, layout)
    shown = RedactedPack(pack, Redactor({SECRET: "KEY"}))
    assert [row["case_id"] for row in shown.results()] == pack.case_ids() == [SECRET, "other"]
    assert [row["case_id"] for row in shown.index()] == [SECRET, "other"]
    assert shown.results_by_id()[SECRET]["outcome"] == "failed"
    assert shown.trajectory(SECRET).recorded.events[-1].content == "The key is [redacted:KEY]."
    assert SECRET not in str(shown.raw_trajectory("other"))
    assert SECRET in str(pack.raw_trajectory("other"))


def test_without_secrets_everything_is_as_it_was_recorded(tmp_path: Path) -> None:
    pack = packed(tmp_path, "files")
    shown = RedactedPack(pack, Redactor({"of-another-agent": "KEY"}))
    assert list(shown.results()) == list(pack.results())
    assert list(shown.index()) == list(pack.index())
    assert (shown.config, shown.manifest_sha256) == (pack.config, pack.manifest_sha256)
    assert shown.raw_trajectory("other") == pack.raw_trajectory("other")
