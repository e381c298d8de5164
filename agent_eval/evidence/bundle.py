"""Several packs in one archive, as it is uploaded from a run and fetched for the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.evidence import layout as at
from agent_eval.evidence.pack import Pack, open_pack
from agent_eval.evidence.rows import parse_json
from agent_eval.evidence.sources import DirectorySource
from agent_eval.storage.archive import DEFAULT_ARCHIVE_LIMITS, ArchiveLimits, ZipArchive, write_zip

_ZIP = ".zip"


def write_bundle(
    packs: Mapping[str, Path], out: Path, extra: Mapping[str, Path | bytes] | None = None
) -> None:
    """Write packs into one zip, each below its slug; the same packs give the same bytes.

    Args:
        packs: Directory of each pack by slug, a relative path of one part or more.
        out: The zip to write.
        extra: Other files (a report) by their name in the archive.

    Raises:
        InvalidPack: A pack holds links or other things that are no regular files.
        InvalidInput: Names that collide or lead out of the archive.
        StorageError: Disk full, no permission.
    """
    members: list[tuple[str, Path | bytes]] = list((extra or {}).items())
    for slug, directory in packs.items():
        for path, _ in DirectorySource(directory).members():
            members.append((f"{slug}/{path}", directory / path))
    write_zip(members, out)


def open_bundle(
    where: Path | bytes, *, source: str | None = None, limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS
) -> dict[str, Pack]:
    """Open and verify every pack in an archive, without extracting anything.

    Args:
        where: Path or content of a zip: what `write_bundle` wrote; the same as the only zip within
            another, as artifact stores hand it out; or the files of a single pack.
        source: What errors call the archive.
        limits: Bounds; they hold for the inner archive again.

    Returns:
        The packs by the directory in which they lie: the slug that `write_bundle` was given. A pack at
        the root of the archive has the empty string as its key.

    Raises:
        InvalidInput: Not a zip, beyond the limits, bad names; or there is no pack in it.
        InvalidPack: A pack does not verify.
    """
    name = source or (str(where) if isinstance(where, Path) else "archive")
    archive = ZipArchive(where, source=name, limits=limits)
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
    return {prefix.rstrip("/"): open_pack(archive, prefix=prefix) for prefix in prefixes}


def _prefixes(archive: ZipArchive) -> Iterator[str]:
    """Where packs lie in an archive. What lies within a pack is its content, whatever it looks like."""
    manifests = [name for name in archive.names() if name.rpartition("/")[2] == at.MANIFEST]
    found: list[str] = []
    for name in sorted(manifests, key=lambda name: name.count("/")):
        prefix = name.removesuffix(at.MANIFEST)
        if not any(prefix.startswith(outer) for outer in found) and _is_ours(archive, name):
            found.append(prefix)
            yield prefix


def _is_ours(archive: ZipArchive, name: str) -> bool:
    try:
        value = parse_json(archive.read(name), pack=archive.source, path=name)
    except AgentEvalError:
        # Broken or not JSON: taken for ours, so that opening says what is wrong with it.
        return True
    return isinstance(value, dict) and "files" in value and value.get("kind") == "run"
