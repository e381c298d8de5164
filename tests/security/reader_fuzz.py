"""Damaged and hostile inputs for every reader, which may refuse one with an error of its own, and no other.

`tests/security/test_reader_fuzz.py` gives each reader a few, `benchmarks/fuzz_readers.py` a million in all.
"""

# ruff: noqa: E501 - tables of bytes, and of readers
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.agents.answer import UnusableAnswer, read_answer
from agent_eval.agents.cassette import read_cassette
from agent_eval.attestations.dsse import read_bundle, read_envelope
from agent_eval.attestations.keys import SigningKey, parse_public_key, parse_signing_key
from agent_eval.attestations.statement import Statement
from agent_eval.ci.config import gather, settings_from
from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.reruns import CaseReruns, Rerun, Reruns
from agent_eval.contracts.run import DerivedManifest, FileEntry
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.archive import open_bundle, write_bundle
from agent_eval.evidence.layout import RERUNS
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import decode_used, encode_used
from agent_eval.judges.catalog import JUDGES, load_judges
from agent_eval.operations.decision_material import read_reruns
from agent_eval.operations.gate import parse_policy_file
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.operations.packs import read_comparison
from agent_eval.operations.trust import Signer, attest
from agent_eval.registry.store import parse_registry, read_log
from agent_eval.reports.comment import replay_blocks
from agent_eval.reports.detail import FULL
from agent_eval.storage.journal import Journal
from agent_eval.storage.json import parse
from agent_eval.storage.redaction import Redactor
from agent_eval.storage.yaml import parse_yaml
from agent_eval.suites.reader import load_suite
from agent_eval.suites.validate import validate_suite
from tests.factories import make_case, make_config, make_pack, make_result, make_suite
from tests.security.attested_packs import decide

REPOSITORY = Path(__file__).parents[2]
OLD = REPOSITORY / "tests/fixtures/packs/0.1.0"

PIECES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"\r\n", b"\0", b" ", b"-", b"0", b"1e999", b"NaN"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"-0", b"1e-400", b"9" * 400, b"0.1", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b'"\\ud800"', b'"\\u0000"', b"\\x00", b"&a", b"*a", b"!!python/object:os.system", b"---\n", b"...\n", b"? ", b"- "),
    *(b"<<: *a\n", b"PK\x05\x06", b"PK\x03\x04", b"PK\x01\x02", b"\xff\xff\xff\xff", b"../", b"/etc/passwd", b"C:\\"),
    *(b"[" * 500, b'{"a":' * 500, b"(" * 300, b"(a+)+$", b"a" * 70_000, "é\u202e\U0001f600".encode(), b"case_id", b"trace"),
    *(b'"passed":true', b'"schema_version":"9.9.9"', b'"idx":-1', b"2026-13-45T99:99:99Z", b'"$ref":"#"', b"data: ", b"\x1b["),
)  # fmt: skip
"""Bytes that mean something to one format or another."""


def damaged(seeds: list[bytes], rng: random.Random) -> bytes:
    """Make one input of one or two valid ones: bytes changed, cut, repeated, put in, or values swapped."""
    data = rng.choice(seeds)
    if rng.random() < 0.3:
        data = _other_value(data, rng)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        data = rng.choice(_CHANGES)(data, seeds, rng)
    return data


def _flip(data: bytes, _: list[bytes], rng: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert(data: bytes, _: list[bytes], rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(PIECES) + data[at:]


def _replace(data: bytes, _: list[bytes], rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(PIECES) + data[at + rng.randint(0, 20) :]


def _cut(data: bytes, _: list[bytes], rng: random.Random) -> bytes:
    start = rng.randint(0, len(data))
    end = rng.choice((len(data), min(len(data), start + rng.randint(0, 50))))
    return data[:start] + data[end:]


def _repeat(data: bytes, _: list[bytes], rng: random.Random) -> bytes:
    start = rng.randint(0, len(data))
    piece = data[start : start + rng.randint(1, 200)]
    return data[:start] + piece * rng.randint(2, 4) + data[start:]


def _splice(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


_CHANGES = (_flip, _insert, _replace, _cut, _repeat, _splice)

_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**53, 10**30, "", "x", "\u0000", [], {}, [[]], {"": None}, "a" * 5000,
)  # fmt: skip
_ODD += (["case_id"], {"$ref": "#"}, "1e999", "../../x", "2026-01-01T00:00:00", [None, {}, "x"] * 20)


def _other_value(data: bytes, rng: random.Random) -> bytes:
    """Replace a value in a JSON document by one of another type or size."""
    try:
        value = json.loads(data)
    except ValueError:
        return data
    places = list(_places(value))
    if not places:
        return json.dumps(rng.choice(_ODD)).encode()
    parent, key = rng.choice(places)
    if rng.random() < 0.2 and isinstance(parent, dict):
        parent[rng.choice(("case_id", "kind", "files", "trials", "turns", "extra", ""))] = parent.pop(key)
    else:
        parent[key] = rng.choice(_ODD)
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


@dataclass(frozen=True)
class Reader:
    """A reader, and valid inputs of it."""

    name: str
    seeds: list[bytes]
    read: Callable[[bytes], object]

    def refuses_or_reads(self, data: bytes) -> None:
        """Give it an input; an error that is not agent-eval's own is raised."""
        try:
            self.read(data)
        except UnusableAnswer:
            pass  # what makes an attempt of the agent fail, and no more
        except AgentEvalError as error:
            if not error.message:
                raise AssertionError("an error without a message") from error


class MemorySource:
    """A pack whose files are bytes in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.name, self._files = "pack", files

    def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        yield from ((path, iter([data])) for path, data in sorted(self._files.items()))

    def content(self, path: str) -> Iterator[bytes] | None:
        return iter([self._files[path]]) if path in self._files else None

    def shared(self) -> AbstractContextManager[None]:
        return nullcontext()


_PROVIDERS = ("anthropic", "foundry", "openai", "vertex")


def readers(place: Path) -> list[Reader]:
    """Every reader of what comes from outside.

    Args:
        place: An empty directory, best in memory, for readers of files.
    """
    suite = make_suite(
        make_case(
            "a", "lookup", policy={"required_tools": ["lookup"]}, regex_patterns=["x+"], expected_output="x"
        ),
        {"case_id": "b", "turns": [{"input": "hi"}], "json_schema": {"properties": {"a": {"pattern": "^a"}}}},
    )
    rows = [{"dataset_id": "shop"}, *suite["cases"]]
    aui = (REPOSITORY / "tests/fixtures/aui/specification-example.json").read_bytes()
    suites = [json.dumps(suite).encode(), aui]
    fixtures = [REPOSITORY / "tests/fixtures/adapters" / name for name in _PROVIDERS]
    exports = [
        path.read_bytes()
        for folder in fixtures
        for path in sorted(folder.rglob("*.json"))
        if not path.name.endswith(".expected.json")
    ]
    arrays = [value for value in map(json.loads, exports) if isinstance(value, list)]
    lines = [b"".join(json.dumps(item).encode() + b"\n" for item in array) for array in arrays]
    lines += [path.read_bytes() for folder in fixtures for path in sorted(folder.rglob("*.jsonl"))]
    packed = _packs(place)
    return [
        Reader("json", suites, lambda data: parse(data, source="x")),
        Reader("yaml", [_YAML, *suites], lambda data: parse_yaml(data, source="x")),
        Reader("suite.json", suites, _file(place / "suite.json", load_suite)),
        Reader("suite.jsonl", [b"\n".join(json.dumps(row).encode() for row in rows)], _file(place / "s.jsonl", load_suite)),
        Reader("suite.yaml", [_YAML], _file(place / "suite.yaml", load_suite)),
        Reader("validate", suites, _file(place / "v.json", validate_suite)),
        Reader("import-trace", exports, _file(place / "export.json", _import)),
        Reader("import-trace lines", lines, _file(place / "export.jsonl", _import)),
        Reader("agent's answer", _ANSWERS, lambda data: read_answer(data, what="x")),
        Reader("cassette", _CASSETTES, lambda data: read_cassette(parse(data, source="x"), Path("x"))),
        Reader("journal", [_journal(place)], _file(place / "run.journal", _resumed)),
        Reader("gate policy", [_POLICY], lambda data: parse_policy_file(data, "x.yml")),
        Reader("gate policy, JSON", [_POLICY_JSON], lambda data: parse_policy_file(data, "x.json")),
        Reader("agent-eval.yml", [_SETTINGS], _settings),
        Reader("judge configs", [_JUDGES], _judge_configs),
        Reader("registry", _REGISTRIES, lambda data: parse_registry(data, "x")),
        Reader("audit log", [(OLD / "registry/registry.audit.jsonl").read_bytes()], lambda data: read_log(data, "x")),
        Reader("comparison", [packed.comparison], _file(place / "delta.json", read_comparison)),
        Reader("reruns", [_RERUNS], _reruns(packed.files)),
        Reader("main's runs", [_MAIN], lambda data: decode_used(data, source="x")),
        Reader("replay report", [packed.replay], _replay),
        Reader("bundle", [packed.bundle], lambda data: read_bundle(data, source="x")),
        Reader("envelope", [packed.envelope], lambda data: read_envelope(data, source="x")),
        Reader("statement", [packed.statement], lambda data: Statement.parse(data, source="x")),
        Reader("public key", [packed.public_key], lambda data: parse_public_key(data, source="x")),
        Reader("private key", [packed.private_key], lambda data: parse_signing_key(data, source="x")),
        Reader("archive", [packed.archive], lambda data: open_bundle(data, source="x")),
        Reader("manifest", [packed.files["manifest.json"]], _manifest(packed.files)),
        *(Reader(f"pack: {path}", [packed.files[path]], _sealed(packed.files, path)) for path in packed.contents),
        Reader("redaction", suites, _REDACTOR.redact_json),
    ]  # fmt: skip


_YAML = b"""dataset_id: shop
cases:
  - case_id: a
    input: {text: "Where is my order?"}
    expected_output: Refunded.
    regex_patterns: ["^R"]
    trace:
      - {idx: 0, actor: agent, type: message, output: Refunded.}
"""
_POLICY = b"""preset: release
margin: 0.04
safety: {tool_abuse: repeated}
min_pass_rate: 0.1
max_regressed_cases: 5
quarantine:
  - {case: weather, reason: the forecast changes, owner: desk, until: 2027-01-31}
  - {case: discount, reason: was known once, until: "2026-01-01T00:00:00+00:00"}
"""
_POLICY_JSON = b'{"preset": "release", "margin": 0.03, "safety": ["policy"], "max_hard_fail_rate": 0}'
_UNSTARTED = [Rerun(result="failed", reason="exit 1")] * 2
_RERUNS = json.dumps(
    Reruns(
        commit="ab12",
        altered={"base": "its set-up altered what the change runs"},
        cases=[CaseReruns(case_id="b", change=_UNSTARTED, base=_UNSTARTED)],
        cut="the time of the run was used up",
    ).to_json()
).encode()
_RECORD = RunRecord(
    HistoryRun(
        schema_version="1.2.0", run_id="r", dataset_id="shop", key="0f", started_at="2026-11-21T08:00:00Z",
        cases=1,
    ),
    {"a": CaseRecord(case_id="a", definition="9b", passed=1, scored=2, missed={"timeout": 1}, cost_usd=0.1)},
)  # fmt: skip
_MAIN = encode_used(_RECORD, [_RECORD])
_SETTINGS = b"suites: [suites/a.json]\npolicy: {min_pass_rate: 0.95, preset: release, safety: [a]}\njudges: {policy: {}, regex: {hard: false}}\nagent: ./x\ntrials: 3\n"
_JUDGES = (OLD / "inputs/judges.json").read_bytes()
_ANSWERS = [
    b'{"assistant_output": "x", "tool_calls": [{"tool": "t", "arguments": {"a": 1}, "output": [1]}], "cost_usd": 0.1}',
    b'{"assistant_output": {"a": []}, "usage": {"input_tokens": 1, "output_tokens": 2}, "model": "m", "error": null}',
    b'{"events": [{"actor": "agent", "type": "message", "output": "x"}]}',
]
_CASSETTES = [(OLD / "inputs/order_tools.json").read_bytes()]
_REGISTRIES = [(OLD / "registry/registry.json").read_bytes()]
_REPLAY_REPORT = json.dumps(
    {
        "replay_passed": False,
        "case_mismatches": [
            {"case_id": "a", "judges": [{"judge_id": "j", "saved": "passed", "replayed": "failed"}]}
        ],
        "env_mismatches": [{"field": "python", "saved": "3.11", "current": "3.12", "allowed": True}],
    }
).encode()
_REDACTOR = Redactor({"hunter2-hunter2": "A_TOKEN"}, tokens=True)


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Read an input as the content of a file."""

    def read_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return read_bytes


def _import(path: Path) -> None:
    import_traces(ImportRequest(inputs=(path,), out=path.with_name("imported.json"), family="provider"))


def _journal(place: Path) -> bytes:
    with Journal.create(place / "seed.journal", {"run_id": "r"}) as journal:
        for number in range(4):
            journal.append({"case_id": str(number), "trial": 0, "trace": [{"idx": 0}]})
        return (place / "seed.journal").read_bytes()


def _resumed(path: Path) -> None:
    journal = Journal.resume(path)
    if journal is not None:
        with journal:
            list(journal.entries())


def _settings(data: bytes) -> None:
    settings_from(gather({}, {}, Path("agent-eval.yml"), content=data))


def _judge_configs(data: bytes) -> None:
    configs = parse(data, source="x")
    if isinstance(configs, dict):
        load_judges([name for name in configs if name in JUDGES], configs, allow_plugins=False)


def _replay(data: bytes) -> None:
    report = parse(data, source="x")
    if isinstance(report, dict):
        replay_blocks(report, FULL[0])


@dataclass(frozen=True)
class _Packed:
    """Valid inputs made from a pack."""

    files: dict[str, bytes]
    contents: list[str]
    archive: bytes
    comparison: bytes
    replay: bytes
    bundle: bytes
    envelope: bytes
    statement: bytes
    public_key: bytes
    private_key: bytes


def _packs(place: Path) -> _Packed:
    results = [make_result("a"), make_result("b", failed="policy")]
    files: dict[str, bytes] = {}
    for layout in ("files", "compact"):
        root = make_pack(place / layout, results, config=make_config(), layout=layout)
        of_layout = {
            path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }
        files = of_layout if layout == "files" else files
    root, key = place / "files", SigningKey.generate()
    write_bundle({"a": root}, place / "archive.zip")
    decide(root)
    attest(root, Signer(key, b"a shared secret of many bytes, at least 32"), environ={})
    bundle = (root / "attestations/test-result.sigstore.json").read_bytes()
    return _Packed(
        files=files, contents=[path for path in files if path != "manifest.json"],
        archive=(place / "archive.zip").read_bytes(),
        comparison=(OLD / "packs/candidate/compare/baseline_delta.json").read_bytes(), replay=_REPLAY_REPORT,
        bundle=bundle, envelope=(root / "attestations/test-result.hmac.json").read_bytes(),
        statement=read_bundle(bundle, source="x").payload, public_key=key.public.pem, private_key=key.pem(),
    )  # fmt: skip


def _reruns(files: dict[str, bytes]) -> Callable[[bytes], object]:
    """Read the record of reruns from the derived part of a pack, where it is listed as it is."""
    manifest = hashlib.sha256(files["manifest.json"]).hexdigest()

    def read(data: bytes) -> object:
        entry = {"path": RERUNS, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        derived = json.dumps(
            DerivedManifest(run_manifest_sha256=manifest, files=[FileEntry(**entry)]).to_json()
        )
        return read_reruns(open_pack(MemorySource({**files, RERUNS: data, "derived.json": derived.encode()})))

    return read


def _manifest(files: dict[str, bytes]) -> Callable[[bytes], object]:
    return lambda data: open_pack(MemorySource({**files, "manifest.json": data}))


def _sealed(files: dict[str, bytes], changed: str) -> Callable[[bytes], object]:
    """Open a pack of which one file was changed and sealed again, so that its content is looked at."""
    manifest = json.loads(files["manifest.json"])

    def read(data: bytes) -> None:
        entries = [
            {**entry, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            if entry["path"] == changed
            else entry
            for entry in manifest["files"]
        ]
        sealed = json.dumps({**manifest, "files": entries}).encode()
        pack = open_pack(MemorySource({**files, changed: data, "manifest.json": sealed}))
        for case_id in pack.case_ids():
            pack.trajectory(case_id)
            pack.artifacts(case_id)

    return read


def crash_of(reader: Reader, seed: int) -> str:
    """Give a reader the input of a seed; the error that is not agent-eval's own, or an empty text."""
    data = damaged(reader.seeds, random.Random(f"{reader.name} {seed}"))
    try:
        reader.refuses_or_reads(data)
    except Exception as error:
        shown = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:300]
        return f"{reader.name}, seed {seed}: {shown}"
    return ""
