"""Archives of several packs, which one CI run uploads and the next fetches; conversion between layouts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent_eval.contracts import SHARD_CASES, DerivedManifest, Manifest
from agent_eval.errors import AgentEvalError, AlteredPack, InvalidInput, NotEvaluable
from agent_eval.evidence import layout as at
from agent_eval.evidence.derived import enclosing_pack
from agent_eval.evidence.layout import may_be_replaced, refuse_to_lose_outputs
from agent_eval.evidence.reader import Pack, Watch, open_pack
from agent_eval.evidence.rows import parse_json
from agent_eval.evidence.sources import ArchiveSource, DirectorySource, invalid_pack, read_limited
from agent_eval.evidence.verify import MAX_MANIFEST_BYTES, Admit, parse_contract, read_seal
from agent_eval.evidence.writer import CaseEvidence, PackSealer, PackTarget, open_shard
from agent_eval.storage.archive import ZipArchive, write_zip
from agent_eval.storage.atomic import new_directory
from agent_eval.storage.files import open_regular, safe_name, sha256_bytes
from agent_eval.storage.json import dumps

_ZIP = ".zip"
_BACK = ".converted-back"


def write_bundle(
    packs: Mapping[str, Path | Pack], out: Path, extra: Mapping[str, Path | bytes] | None = None
) -> None:
    """Write packs into one zip, each below its slug; the same packs give the same bytes.

    A pack that this process has opened is hashed again on its way: what it was then is what is archived.

    Args:
        packs: Each pack, or only its directory, by slug, a relative path of one part or more.
        extra: Other files, such as a report, by their name in the archive.

    Raises:
        AlteredPack: A file of an opened pack, or one that was derived from it, is not what it was.
        InvalidPack: A pack contains links or other entries that are no regular files.
        InvalidInput: Names collide or lead out of the archive.
        StorageError: Disk full, no permission.
    """
    members: list[tuple[str, Path | bytes]] = list((extra or {}).items())
    sealed: dict[str, str] = {}
    for slug, pack in packs.items():
        directory = pack.directory if isinstance(pack, Pack) else pack
        source = DirectorySource(directory)
        paths = [path for path, _ in source.members()]
        members += [(f"{slug}/{path}", directory / path) for path in paths]
        if isinstance(pack, Pack):
            expected = _sealed_files(pack, source)
            if differing := sorted(expected.keys() ^ set(paths)):
                raise AlteredPack(f"{slug}/{differing[0]}")
            sealed.update({f"{slug}/{path}": sha256 for path, sha256 in expected.items()})
    write_zip(members, out, sealed=sealed)


def _sealed_files(pack: Pack, source: DirectorySource) -> dict[str, str]:
    """Collect the digests of all files of an opened pack: of its run, and of what was derived since."""
    files = {entry.path: entry.sha256 for entry in pack.run_files()} | {at.MANIFEST: pack.manifest_sha256}
    listing = read_limited(source, at.DERIVED, MAX_MANIFEST_BYTES)
    if listing is not None:
        derived = parse_contract(DerivedManifest, listing, pack=pack.name, path=at.DERIVED)
        files |= {entry.path: entry.sha256 for entry in derived.files if entry.path not in files}
        files[at.DERIVED] = sha256_bytes(listing)
    return files


def open_bundle(
    where: Path | bytes,
    *,
    source: str | None = None,
    admit: Admit | None = None,
    watch: Watch | None = None,
) -> dict[str, Pack]:
    """Open and verify every pack in an archive, without extracting anything.

    `where` is the path or content of a zip: one that `write_bundle` wrote; one whose only zip is such an
    archive, as artifact stores deliver it; or one with the files of a single pack. `admit` checks each pack's
    origin before its content is parsed; `watch` gets every case.

    The packs are returned by their slug; that of a pack at the root of the archive is the empty string.

    Raises:
        InvalidInput: The archive is no zip, exceeds its limits, has bad names, or contains no pack.
        InvalidPack: A pack does not verify.
    """
    name = source or (str(where) if isinstance(where, Path) else "archive")
    if isinstance(where, Path):
        refuse_no_archive(where)
    archive = ZipArchive(where, source=name)
    prefixes = list(_prefixes(archive))
    if not prefixes:
        inner = [member for member in archive.names() if member.endswith(_ZIP)]
        if len(inner) == 1:
            outer, archive = archive, archive.nested(inner[0])
            outer.close()
            prefixes = list(_prefixes(archive))
    if not prefixes:
        archive.close()
        remedy = "Give an archive of evidence packs, as `agent-eval ci` writes it."
        raise InvalidInput(f"{name}: holds no evidence pack", remedy=remedy, file=name)
    sources = {prefix.rstrip("/"): ArchiveSource(archive, prefix) for prefix in prefixes}
    return {slug: open_pack(each, admit=admit, watch=watch) for slug, each in sources.items()}


def refuse_no_archive(path: Path) -> None:
    """Refuse a file that does not begin as a zip, such as a summary, which is no damaged archive."""
    with open_regular(path) as file:
        if file.read(2) == b"PK":
            return
    pack = enclosing_pack(path)
    raise InvalidInput(
        f"{path} is not a pack" if pack is None else f"{path} is not a pack, but a file of the pack {pack}",
        remedy="Give the directory of an evidence pack, or an archive of one."
        if pack is None
        else f"Give {pack}.",
        file=str(path),
    )


def by_dataset(packs: Iterable[Pack], source: str = "The baseline") -> dict[str, Pack]:
    """Arrange packs by the slug of their dataset.

    Raises:
        NotEvaluable: Two are of one dataset; neither could be preferred.
    """
    by_slug: dict[str, Pack] = {}
    for pack in packs:
        slug = safe_name(pack.manifest.dataset_id)
        if slug in by_slug:
            raise NotEvaluable(f"{source} has `{slug}` twice.", remedy="Keep one of the two packs.")
        by_slug[slug] = pack
    return by_slug


def _prefixes(archive: ZipArchive) -> Iterator[str]:
    """Yield the directories of packs in an archive. A manifest within a pack is part of its content."""
    manifests = [name for name in archive.names() if name.rpartition("/")[2] == at.MANIFEST]
    prefixes: list[str] = []
    for name in sorted(manifests, key=lambda name: name.count("/")):
        prefix = name.removesuffix(at.MANIFEST)
        if not any(prefix.startswith(outer) for outer in prefixes) and _is_run_manifest(archive, name):
            prefixes.append(prefix)
            yield prefix


def _is_run_manifest(archive: ZipArchive, name: str) -> bool:
    try:
        value = parse_json(archive.read(name), pack=archive.source, path=name)
    except AgentEvalError:
        # Broken or not JSON: treated as a manifest, so that opening the pack reports the problem.
        return True
    return isinstance(value, dict) and "files" in value and value.get("kind") == "run"


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of `expand` and `compact`.

    `left_behind` are files that were written into the old pack after the run; they are not converted.
    """

    out: Path
    layout: at.Layout
    left_behind: list[str]


def expand(pack: Pack, out: Path) -> Conversion:
    """Write a pack in the layout `files`, with one folder for each case. Use it to read a pack by hand.

    A pack at `out`, even `pack` itself, is replaced when the new one is complete.

    Raises:
        InvalidPack: The pack contains something that the other layout cannot, or changed in the meantime.
        UsageError: `out` is no pack, or a pack into which files were written after its run.
        StorageError: Disk full, no permission.
    """
    return _convert(pack, out, "files")


def compact(pack: Pack, out: Path) -> Conversion:
    """Write a pack in the layout `compact`: sharded JSON Lines. Otherwise like `expand`.

    Raises:
        UsageError: The artifacts of 250 cases exceed the limit of a file in this layout; or as for `expand`.
    """
    return _convert(pack, out, "compact")


def _convert(pack: Pack, out: Path, layout: at.Layout) -> Conversion:
    refuse_to_lose_outputs(out)
    with new_directory(out, replace=may_be_replaced(out)) as root:
        _write_as(layout, pack, root)
        # Converted back, every file must be what it was: a file that a later version added would be lost.
        # `open_pack` would wait for the lock on `root`, which is this process's own until it is complete.
        source, back = DirectorySource(root), root / _BACK
        converted = Pack(source, read_seal(source))
        back.mkdir()
        again = {entry.path: entry.sha256 for entry in _write_as(pack.manifest.layout, converted, back).files}
        shutil.rmtree(back)
        was = {entry.path: entry.sha256 for entry in pack.run_files()}
        for path in sorted(was | again):
            if was.get(path) != again.get(path):
                what = "does not follow from trajectories and verdicts, or was written in another form"
                remedy = "It cannot be converted without loss: keep the pack in its layout."
                raise invalid_pack(pack.name, path, what, remedy=remedy)
    left_behind = [entry.path for entry in pack.derived.files] if pack.derived else []
    return Conversion(out, layout, left_behind)


def _write_as(layout: at.Layout, pack: Pack, root: Path) -> Manifest:
    """Write a pack in a layout into an empty directory."""
    manifest = pack.manifest
    target = PackTarget(root, layout, manifest.run_id, manifest.dataset_id)
    target.prepare()
    with PackSealer(target) as sealer:
        cases = zip(pack.trajectories(), pack.results(), pack.index(), strict=True)
        for shard in range(-(-manifest.case_count // SHARD_CASES)):
            with open_shard(target, shard) as writer:
                for (raw, encoded), result, row in islice(cases, SHARD_CASES):
                    artifacts = pack.artifacts(row["case_id"])
                    writer.add(CaseEvidence(raw, encoded, result, dumps(result), row, artifacts))
                written = writer.finish()
            sealer.append(written)
        config, summary = (
            parse_json(pack.read(path), pack=pack.name, path=path) for path in (at.CONFIG, at.SUMMARY)
        )
        return sealer.seal(config, summary, complete=manifest.complete)
