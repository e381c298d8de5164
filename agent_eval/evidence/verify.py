"""The seal of a pack: the list of its files, and the check that it has exactly those, with these digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agent_eval.contracts import DerivedManifest, FileEntry, Manifest
from agent_eval.evidence import layout as at
from agent_eval.evidence.rows import first_problem, parse_json
from agent_eval.evidence.sources import MAX_FILE_BYTES, PackSource, invalid_pack, read_limited
from agent_eval.storage.files import check_member_name, same_place, sha256_bytes

MAX_MANIFEST_BYTES = 256 << 20
_READABLE_MAJOR = "1."
_DERIVED_REMEDY = (
    "Remove derived.json and the files that were written into the pack after the run "
    "(compare/, attestations/), then make it again; the run itself is sealed separately."
)

RUN_PARTS = frozenset((at.CASES, at.JUDGES, at.CONFIG.split("/", 1)[0]))
"""Top-level directories of the run; no file is written into them after the seal."""

Admit = Callable[[PackSource, str], None]
"""Called with the source of a pack and the digest of its manifest.json, before either manifest is parsed.

It raises to refuse the pack. The manifest is not read a second time, so what is used is what was admitted."""

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Seal:
    """Both manifests of a pack, checked, and their entries by path."""

    manifest: Manifest
    manifest_sha256: str
    derived: DerivedManifest | None
    run_files: dict[str, FileEntry]
    derived_files: dict[str, FileEntry]

    def files(self) -> list[FileEntry]:
        """List every file but the manifests: those of the run, then those that were written later."""
        return [*self.run_files.values(), *self.derived_files.values()]


def read_seal(source: PackSource, admit: Admit | None = None) -> Seal:
    """Read and check the manifests of a pack, and no other file.

    Raises:
        InvalidPack: A manifest is missing, malformed, lists impossible paths, or belongs to another run.
    """
    data = read_limited(source, at.MANIFEST, MAX_MANIFEST_BYTES)
    if data is None:
        remedy = "Give the path of an evidence pack, as `agent-eval run --out` writes it."
        raise invalid_pack(source.name, None, "no evidence pack: it has no manifest.json", remedy=remedy)
    sha256 = sha256_bytes(data)
    if admit is not None:
        admit(source, sha256)
    manifest = parse_contract(Manifest, data, pack=source.name, path=at.MANIFEST)
    if not manifest.schema_version.startswith(_READABLE_MAJOR):
        remedy = "Read it with the version of agent-eval that wrote it."
        what = f"has schema version {manifest.schema_version[:40]!r}, which this version cannot read"
        raise invalid_pack(source.name, at.MANIFEST, what, remedy=remedy)
    run_files = _entries(manifest.files, source.name, at.MANIFEST)
    _check_layout(manifest, run_files, source.name)
    if (listing := read_limited(source, at.DERIVED, MAX_MANIFEST_BYTES)) is None:
        return Seal(manifest, sha256, None, run_files, {})
    derived = parse_contract(DerivedManifest, listing, pack=source.name, path=at.DERIVED)
    if derived.run_manifest_sha256 != sha256:
        what = "belongs to another run: it names another manifest.json"
        raise invalid_pack(source.name, at.DERIVED, what, remedy=_DERIVED_REMEDY)
    derived_files = _entries(derived.files, source.name, at.DERIVED)
    for path in derived_files:
        if path in run_files or path.split("/", 1)[0] in RUN_PARTS:
            what = f"lists {path[:200]!r}, which is part of the run"
            raise invalid_pack(source.name, at.DERIVED, what, remedy=_DERIVED_REMEDY)
    return Seal(manifest, sha256, derived, run_files, derived_files)


def parse_contract(kind: type[_Model], data: bytes, *, pack: str, path: str) -> _Model:
    """Parse a file of a pack into a contract; raise InvalidPack where it does not match."""
    value = parse_json(data, pack=pack, path=path)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise invalid_pack(pack, path, first_problem(error)) from error


def _entries(files: Iterable[FileEntry], pack: str, manifest: str) -> dict[str, FileEntry]:
    entries: dict[str, FileEntry] = {}
    places: set[str] = {same_place(at.MANIFEST), same_place(at.DERIVED)}
    last = ""
    for entry in files:
        if problem := check_member_name(entry.path):
            raise invalid_pack(pack, manifest, f"lists {entry.path[:200]!r}, which {problem}")
        if entry.path <= last:
            raise invalid_pack(pack, manifest, f"lists {entry.path[:200]!r} twice or not in order")
        place = same_place(entry.path)
        if place in places:
            raise invalid_pack(pack, manifest, f"lists {entry.path[:200]!r} under two spellings")
        places.add(place)
        entries[entry.path] = entry
        last = entry.path
    return entries


def _check_layout(manifest: Manifest, files: dict[str, FileEntry], pack: str) -> None:
    """Check that the files of the layout are listed, and no others below `cases/`."""
    directories = set(manifest.case_directories.values())
    expected: set[str] = set()
    allowed: set[str] = set()
    if manifest.layout == "compact":
        if directories:
            raise invalid_pack(pack, at.MANIFEST, "a compact pack has no case directories")
        for shard in range(sum(path.startswith(at.TRAJECTORY_SHARDS) for path in files)):
            expected |= {at.trajectories_shard(shard), at.verdicts_shard(shard)}
            allowed.add(at.artifacts_shard(shard))
    places: set[str] = set()
    for case_id, directory in manifest.case_directories.items():
        if check_member_name(directory) or "/" in directory:
            what = f"case {case_id[:200]!r} has the directory {directory[:200]!r}, which is not a plain name"
            raise invalid_pack(pack, at.MANIFEST, what)
        if same_place(directory) in places:
            raise invalid_pack(pack, at.MANIFEST, f"two cases have the directory {directory[:200]!r}")
        places.add(same_place(directory))
        expected |= {at.trajectory_file(directory), at.verdicts_file(directory)}
    for path in (at.CONFIG, at.SUMMARY, at.INDEX, *sorted(expected)):
        if path not in files:
            raise invalid_pack(pack, at.MANIFEST, f"does not list {path[:300]}")
    expected |= allowed
    for path in files:
        _, *parts = path.split("/")
        is_artifact = len(parts) > 2 and parts[0] in directories and parts[1] == at.ARTIFACTS
        if path.startswith(f"{at.CASES}/") and path not in expected and not is_artifact:
            raise invalid_pack(pack, at.MANIFEST, f"lists {path[:300]}, which belongs to no case")


def verify_files(source: PackSource, seal: Seal) -> None:
    """Read every file once, and check that exactly the listed files exist, unchanged.

    Raises:
        InvalidPack: A file was changed, added or removed, or there is a link, a device or an empty directory.
    """
    expected = {**seal.run_files, **seal.derived_files}
    seen: set[str] = set()
    for path, content in source.members():
        if path in (at.MANIFEST, at.DERIVED):
            continue
        entry = expected.get(path)
        if entry is None:
            what = "is listed in neither manifest: it was added after the pack was sealed"
            raise invalid_pack(source.name, path, what, remedy="Remove it, or get the pack again.")
        seen.add(path)
        for _ in _verified(content, entry, seal, source.name):
            pass
    for path in expected:
        if path not in seen:
            raise invalid_pack(source.name, path, "is missing", **_remedy(path, seal))


def _verified(content: Iterator[bytes], entry: FileEntry, seal: Seal, pack: str) -> Iterator[bytes]:
    hasher = hashlib.sha256()
    size = 0
    try:
        for chunk in content:
            size += len(chunk)
            if size > entry.size:
                break
            hasher.update(chunk)
            yield chunk
    except OSError as error:  # the disk failed, or the file vanished while it was looked at
        raise invalid_pack(pack, entry.path, error.strerror or str(error)) from error
    if size != entry.size or hasher.hexdigest() != entry.sha256:
        what = "was changed: its " + ("size" if size != entry.size else "sha256") + " is not what was sealed"
        raise invalid_pack(pack, entry.path, what, **_remedy(entry.path, seal))


def read_verified(source: PackSource, entry: FileEntry, seal: Seal) -> Iterator[bytes]:
    """Read a file that was verified before, in pieces, and verify it again.

    Raises:
        InvalidPack: The file was changed or removed in the meantime; the last piece may show it.
    """
    if entry.size > MAX_FILE_BYTES:
        raise invalid_pack(source.name, entry.path, f"is larger than {MAX_FILE_BYTES:,} bytes")
    content = source.content(entry.path)
    if content is None:
        raise invalid_pack(source.name, entry.path, "is missing", **_remedy(entry.path, seal))
    return _verified(content, entry, seal, source.name)


def _remedy(path: str, seal: Seal) -> dict[str, str]:
    return {"remedy": _DERIVED_REMEDY} if path in seal.derived_files else {}
