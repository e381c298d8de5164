"""A pack that was sealed again with a changed file contradicts its other files, and is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.attestations.keys import SigningKey
from agent_eval.cli.main import main
from agent_eval.config.spec import Output, RunSpec
from agent_eval.contracts import Manifest
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.packs import convert_pack
from agent_eval.operations.run import run_suite
from agent_eval.storage.files import sha256_file
from agent_eval.storage.json import dumps
from tests.extent import crossed
from tests.factories import make_case, make_suite

Row = dict[str, Any]


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A true pack: case `two` has two trials."""
    two = make_case("two")
    two["trials"] = [{"trace": make_case("two")["trace"], "metadata": {"cost_usd": 0.5}}]
    suite = tmp_path / "suite.json"
    suite.write_text(json.dumps(make_suite(make_case("one"), two)))
    run_suite(RunSpec(suite=suite, output=Output(pack=tmp_path / "pack", layout="compact")), environ={})
    return tmp_path / "pack"


def forge(root: Path, name: str, change: Callable[[list[Row]], object]) -> None:
    """Change the rows of a file, and make the seal again."""
    path = root / name
    text = path.read_bytes()
    lines = name.endswith(".jsonl")
    rows = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    change(rows)
    path.write_bytes(b"".join(dumps(row) + b"\n" for row in rows) if lines else dumps(rows[0], indent=True))
    manifest = Manifest.model_validate_json((root / "manifest.json").read_bytes())
    files = []
    for entry in manifest.files:
        digest, size = sha256_file(root / entry.path)
        files.append(entry.model_copy(update={"sha256": digest, "size": size}))
    sealed = manifest.model_copy(update={"files": files})
    (root / "manifest.json").write_bytes(dumps(sealed.to_json(), indent=True))


INDEX, TRAJECTORIES = "run/index.jsonl", "cases/trajectories-00000.jsonl"
VERDICTS, CONFIG = "cases/verdicts-00000.jsonl", "run/config.json"


def swap_traces(rows: list[Row]) -> None:
    rows[0]["trace"], rows[1]["trace"] = rows[1]["trace"][:1], rows[0]["trace"]


TRICKS: dict[str, tuple[str, Callable[[list[Row]], object], str]] = {
    "an invented cost": (INDEX, lambda rows: rows[0].update(cost_usd=0.01), "cost_usd"),
    "no tokens": (INDEX, lambda rows: rows[0].update(input_tokens=1), "input_tokens"),
    "another model": (INDEX, lambda rows: rows[0].update(models=["cheap"]), "models"),
    "another output": (INDEX, lambda rows: rows[0].update(output_digest="0" * 64), "output_digest"),
    "a call left out": (INDEX, lambda rows: rows[0].update(calls=[]), "calls"),
    "less latency": (INDEX, lambda rows: rows[0].update(latency_ms=1.0), "latency_ms"),
    "another definition": (INDEX, lambda rows: rows[0].update(definition_digest="0" * 64),
        "definition_digest"),
    "trajectories swapped": (TRAJECTORIES, swap_traces, "does not follow from its trajectory"),
    "a trajectory emptied": (TRAJECTORIES, lambda rows: rows[0].update(trace=[]), "."),
    "a definition loosened": (TRAJECTORIES, lambda rows: rows[0].update(policy={}), "definition_digest"),
    "a trial left out": (TRAJECTORIES, lambda rows: rows[1].update(trials=[]), "1 trajectories"),
    "an event that is not there": (VERDICTS, lambda rows: rows[0]["verdicts"][0].update(evidence_refs=[99]),
        "refers to an event"),
    "a judge added": (CONFIG, lambda rows: rows[0]["judges"].append("loop_guard"), "other judges"),
    "a judge taken away": (CONFIG, lambda rows: rows[0]["judges"].remove("policy"), "other judges"),
    "a plug-in added": (CONFIG, lambda rows: rows[0]["judges"].append("strict:Judge"), "other judges"),
}  # fmt: skip


def test_a_pack_as_it_was_written_agrees_with_itself(pack: Path) -> None:
    open_pack(pack)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run/events.jsonl", lambda rows: rows.pop()),
        ("run/events.jsonl", lambda rows: rows[0].update(output="something else")),
        ("judges/policy.json", lambda rows: rows[0][0].update(reason="all is well")),
        ("judges/policy.json", lambda rows: rows[0].pop()),
    ],
)
def test_files_repeat_cases_faithfully(pack: Path, name: str, change: Callable[[list[Any]], object]) -> None:
    files = pack.with_name("files")
    convert_pack(pack, files, layout="files")
    open_pack(files)
    forge(files, name, change)
    with pytest.raises(InvalidPack, match="does not repeat what cases/ has"):
        open_pack(files)


READERS: dict[str, str] = {
    "compare with it": "compare --baseline {pack} --candidate true --out delta.json",
    "compare it": "compare --baseline true --candidate {pack} --out delta.json",
    "gate": "gate --run {pack} --min-pass-rate 0", "page": "report html --run {pack} --out page.html",
    "text": "report markdown --run {pack} --out page.md",
    "bless": "bless --name main --run {pack} --registry-path registry.json",
    "promote": "registry baseline-promote --name main --run {pack} --approved-by ann --rationale fine",
    "attest": "attest --run {pack} --key key.pem", "merge": "merge {pack} --out out",
    "rejudge": "rejudge --run {pack} --judge policy --out out", "replay": "replay --run {pack}",
    "verify": "verify {pack}",
    "ci": "ci --suite suite.json --set judges=policy --min-pass-rate 0 --baseline {pack} --out results",
}  # fmt: skip
"""Every command that decides by a pack, or makes evidence of it."""


@crossed(trick=[*TRICKS], command=[*READERS])
def test_no_command_takes_a_pack_that_contradicts_itself(
    pack: Path, trick: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(pack.parent)
    shutil.copytree(pack, "true")
    Path("key.pem").write_bytes(SigningKey.generate().pem())
    registry = "registry baseline-set --name main --run true --registry-path registry.json"
    assert main(registry.split()) == 0
    capsys.readouterr()
    name, change, words = TRICKS[trick]
    forge(pack, name, change)
    code = main(READERS[command].format(pack="pack").split())
    printed = "".join(capsys.readouterr())
    assert code in (1, 2, 4), printed
    assert words in printed
    assert "This is a bug" not in printed
    assert not any(Path(made).exists() for made in ("delta.json", "page.html", "page.md", "out"))
