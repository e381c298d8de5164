"""Open the pack or archive that a user names as a run; read comparisons, decisions and files of settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from agent_eval.comparison.facts import RunView
from agent_eval.contracts import (
    Comparison,
    ExecutionConfig,
    GateDecision,
    RunConfig,
    asked_digest,
    definition_digest,
)
from agent_eval.errors import AgentEvalError, InvalidInput, InvalidPack, UsageError
from agent_eval.evidence import layout
from agent_eval.evidence.archive import compact, expand, open_bundle, refuse_no_archive
from agent_eval.evidence.derived import enclosing_pack, is_pack
from agent_eval.evidence.reader import Pack, Watch, open_pack, refuse_incomplete, verify_pack
from agent_eval.evidence.redacted import RedactedPack
from agent_eval.evidence.verify import Admit
from agent_eval.operations.environment import redactor_for
from agent_eval.storage.archive import ZipArchive
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, parse, read_json

ARCHIVE_NAME = "evidence.zip"
"""Name of the archive of all packs in the output directory of `agent-eval ci`."""

_ZIP = b"PK\x03\x04"
"""How a zip with a file in it begins."""


def open_run(path: Path, *, admit: Admit | None = None, watch: Watch | None = None) -> Pack:
    """Open and verify a pack.

    `admit` checks the pack's origin before its content is parsed; `watch` gets every case.
    """
    if not path.is_file():
        return open_pack(path, admit=admit, watch=watch)
    packs = open_bundle(path, admit=admit, watch=watch)
    if len(packs) != 1:
        raise InvalidInput(
            f"{path} holds {len(packs)} evidence packs: {', '.join(sorted(packs))[:200]}",
            remedy="Unpack it and name the directory of one of them.",
            file=str(path),
        )
    return next(iter(packs.values()))


def open_to_show(path: Path) -> Pack:
    """Open and verify a pack whose content is shown, exported or sent, and read it without secrets."""
    return to_show(open_run(path))


def to_show(pack: Pack) -> Pack:
    """Read a verified pack without secrets."""
    return RedactedPack(pack, redactor_for(os.environ))


def paired(before: Pack, after: Pack) -> Pack:
    """Read a baseline with the candidate's ids for cases that only their ids tell apart.

    Frameworks give each run an id of its own. Of the cases whose id one run alone has, those of equal
    definitions are the same, then those of equal inputs; of cases that are alike in one run, none is.
    """
    old, new = before.index_by_id().keys(), after.index_by_id().keys()
    sides = (before, old - new), (after, new - old)
    if before.manifest.dataset_id != after.manifest.dataset_id or not (sides[0][1] and sides[1][1]):
        return before

    def definition(case: dict[str, Any]) -> str:
        return definition_digest({**case, "case_id": None})

    def asked(case: dict[str, Any]) -> str | None:
        return asked_digest(case) if case.get("input") or case.get("turns") else None

    names: dict[str, str] = {}
    for key_of in (definition, asked):
        by_key: list[dict[str, list[str]]] = []
        for pack, case_ids in sides:
            alike: dict[str, list[str]] = {}
            unpaired = case_ids - names.keys() - {*names.values()}
            for case_id in filter(unpaired.__contains__, pack.case_ids()):
                if (key := key_of(pack.raw_trajectory(case_id))) is not None:
                    alike.setdefault(key, []).append(case_id)
            by_key.append(alike)
        for key, stored in by_key[0].items():
            current = by_key[1].get(key, [])
            if len(stored) == len(current) == 1:
                names[stored[0]] = current[0]
    return before.under_names(names) if names else before


def path_in_pack(run: Path, name: Path, *, remedy: str = "Name the file with --out.") -> Path:
    """Return the default path of a file that is written into a pack; an archive has none."""
    if run.is_file():
        refuse_no_archive(run)
        raise UsageError(
            f"{run} is an archive, into which nothing can be written",
            remedy=remedy,
            file=str(run),
        )
    return run / name


def outcomes_of(pack: Pack) -> list[tuple[str, str]]:
    """List id and outcome of every case, in suite order."""
    return [(row["case_id"], row["outcome"]) for row in pack.results()]


def packs_below(path: Path) -> list[Path]:
    """List the packs in the output directory of `agent-eval ci`; a pack or an archive is listed alone.

    Where the job's archive is there, it says which packs are of the last job: those of suites that it did not
    have are of an earlier one.
    """
    if not path.is_dir() or is_pack(path):
        return [path]
    packs = sorted(entry for entry in path.iterdir() if entry.is_dir() and is_pack(entry))
    try:
        with ZipArchive(path / ARCHIVE_NAME, source=ARCHIVE_NAME) as archive:
            of_last_job = {name.partition("/")[0] for name in archive.names()}
    except (AgentEvalError, OSError):
        return packs or [path]
    return [pack for pack in packs if pack.name in of_last_job] or packs or [path]


def open_below(path: Path) -> Iterator[tuple[Path, Pack]]:
    """Open and verify each pack of an archive or of `packs_below`, with the place that names it."""
    for place in packs_below(path):
        if place.is_file():
            yield from ((place / name, pack) for name, pack in open_bundle(place).items())
        else:
            yield place, open_pack(place)


def view(pack: Pack) -> RunView:
    """Make the view of a pack that `comparison.compare` takes.

    Raises:
        InvalidPack: The run of the pack is not complete.
    """
    refuse_incomplete(pack.name, pack.manifest)
    return RunView(
        config=pack.config,
        summary=pack.summary,
        manifest_sha256=pack.manifest_sha256,
        index=pack.index_by_id(),
        results=pack.results_by_id(),
        other_ids={name.case_id: name.stored for name in pack.renamed()},
    )


@dataclass(frozen=True)
class PackFacts:
    """A verified pack and its path, for `verify`, `dev expand` and `dev compact`.

    `left_behind` are files that were written into the source of a conversion after its run, and that the
    converted pack therefore does not have.
    """

    path: Path
    pack: Pack
    left_behind: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        manifest, derived = self.pack.manifest, self.pack.derived
        return {
            "pack": str(self.path),
            "run_id": manifest.run_id,
            "dataset_id": manifest.dataset_id,
            "layout": manifest.layout,
            "cases": manifest.case_count,
            "complete": manifest.complete,
            "files": len(manifest.files),
            "derived_files": len(derived.files) if derived is not None else 0,
            "left_behind": list(self.left_behind),
            "manifest_sha256": self.pack.manifest_sha256,
        }


def sealed_execution(pack: Path) -> ExecutionConfig:
    """Read how a run was made, and how much was redacted, from a pack that this process has just sealed."""
    return RunConfig.model_validate(read_json(pack / layout.CONFIG)).execution_config


def convert_pack(path: Path, out: Path, *, layout: Literal["files", "compact"]) -> PackFacts:
    """Write a copy of a pack in another layout.

    The copy has all of the run, but no files that were derived later; `PackFacts.left_behind` lists them.

    Raises:
        InvalidPack: The source does not verify.
        UsageError: `out` is a directory that is not a pack, or a pack with derived files.
    """
    pack = open_run(path)
    conversion = (expand if layout == "files" else compact)(pack, out)
    return PackFacts(out, open_run(out), tuple(conversion.left_behind))


AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True)
class ReadComparison:
    """A comparison, and the sha256 of the file it was read from. Returned by `read_comparison`."""

    comparison: Comparison
    sha256: str


DEFAULT_PATH_IN_PACK = Path(layout.COMPARE) / "baseline_delta.json"
"""Path of a comparison within the candidate's pack."""


def comparison_file(path: Path) -> Path:
    """Return the file of a comparison that a user names by itself, or by the candidate's pack that holds it.

    Raises:
        InvalidInput: The path is a pack without a comparison, or an archive, of which none is read.
    """
    begin = b""
    if path.is_file():  # reading a pipe would wait for a writer
        with suppress(OSError), path.open("rb") as file:  # a file that cannot be read is no archive
            begin = file.read(len(_ZIP))
    if begin == _ZIP:
        raise InvalidInput(
            f"{path} is an archive of evidence, and a comparison is a file or a pack",
            remedy="Unpack it, and name the pack's directory in it; or compare it again, with "
            "`agent-eval compare --candidate ARCHIVE --out FILE`, and name that file.",
            file=str(path),
        )
    if not path.is_dir():
        return path
    within = path / DEFAULT_PATH_IN_PACK
    if not within.exists():
        raise InvalidInput(
            f"{path} has no comparison: {DEFAULT_PATH_IN_PACK} is not there",
            remedy=f"Run `agent-eval compare --baseline PACK --candidate {path}` first, or name the run "
            f"alone: --run {path}.",
            file=str(path),
        )
    return within


def read_comparison(path: Path) -> ReadComparison:
    """Read a comparison. If it is in a pack, the pack must verify and be the comparison's candidate.

    Raises:
        InvalidInput: The file cannot be read, or is not a comparison.
        InvalidPack: The pack does not verify, is not complete, or is not the candidate that was compared.
    """
    data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
    comparison = validated(
        Comparison, parse(data, source=str(path)), str(path), "a comparison; `agent-eval compare` writes one"
    )
    sha256 = sha256_bytes(data)
    pack = pack_around(path)
    if pack is not None:
        # `compare` checked the content of the pack; the comparison names the digest of its manifest.
        seal = verify_pack(pack)
        refuse_incomplete(str(pack), seal.manifest)
        if seal.manifest_sha256 != comparison.candidate.manifest_sha256:
            raise InvalidPack(
                f"{path} compares another run than the one whose pack has it",
                remedy=f"Run `agent-eval compare` again with --candidate {pack}.",
                file=str(path),
            )
        if sha256 not in {entry.sha256 for entry in seal.files()}:
            raise InvalidPack(
                f"{path} changed while it was read", remedy="Run the command again.", file=str(path)
            )
    return ReadComparison(comparison, sha256)


def pack_around(path: Path) -> Path | None:
    """Find the pack that contains a file, even if the pack has lost its manifest."""
    pack = enclosing_pack(path)
    if pack is not None or path.parent.name != layout.COMPARE:
        return pack
    above = path.absolute().parent.parent
    remains = (layout.MANIFEST, layout.DERIVED, layout.CONFIG, layout.CASES)
    return above if any(os.path.lexists(above / name) for name in remains) else None


def read_decision(path: Path, made_on: ReadComparison) -> GateDecision:
    """Read a decision that was made on this comparison."""
    decision = parse_decision(path)
    if decision.comparison_sha256 not in (None, made_on.sha256):
        raise InvalidInput(
            f"{path} was decided on another comparison than the one given",
            remedy="Run `agent-eval gate` again on this comparison.",
            file=str(path),
        )
    return decision


def parse_decision(path: Path) -> GateDecision:
    """Read a decision, whatever it was made on."""
    return decision_from(read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes), str(path))


def decision_from(data: bytes, source: str) -> GateDecision:
    """Parse a decision; raise InvalidInput, which names `source`, if it is none."""
    return validated(
        GateDecision, parse(data, source=source), source, "a gate decision; `agent-eval gate` writes one"
    )


DECISION_IN_PACK = DEFAULT_PATH_IN_PACK.with_name("gate_decision.json")
"""Path of the decision on that comparison."""


def decision_in(pack: Pack) -> GateDecision | None:
    """Read the decision that a verified pack lists; None where it lists none, or something else."""
    name = DECISION_IN_PACK.as_posix()
    if name not in listed_digests(pack):
        return None
    try:
        return decision_from(pack.read(name), name)
    except InvalidInput:
        return None


def listed_digests(pack: Pack) -> dict[str, str]:
    """Return the sha256 of each file that was written into a pack after its run, by path."""
    return {entry.path: entry.sha256 for entry in pack.derived.files} if pack.derived is not None else {}


def validated(kind: type[AnyModel], value: Any, source: str, what: str) -> AnyModel:
    """Make a model of a value of JSON; raise InvalidInput, which says that `source` is not `what`."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the whole file"
        raise InvalidInput(
            f"{source} is not {what}: {place}: {first['msg'][:200]}",
            remedy="Name the right file, or make it again.",
            file=source,
            field=place,
        ) from None


def parse_settings(data: bytes, source: str) -> dict[str, Any]:
    """Parse an object from JSON, or from YAML if `source` ends in .yaml or .yml."""
    if source.lower().endswith((".yaml", ".yml")):
        from agent_eval.storage.yaml import parse_yaml

        settings = parse_yaml(data, source=source)
    else:
        settings = parse(data, source=source)
    if not isinstance(settings, dict):
        raise InvalidInput(
            f"{source} must hold an object, not {type(settings).__name__}",
            remedy="Write it as `name: value`.",
            file=source,
        )
    settings.pop("$schema", None)  # where editors look for its JSON Schema; it decides nothing
    return settings
