"""The journal beside a pack, with which an unfinished run resumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import RunConfig
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.layout import is_complete_pack
from agent_eval.evidence.reader import Pack
from agent_eval.operations.packs import open_run
from agent_eval.operations.replacing import FRESH, is_paid_for
from agent_eval.storage.atomic import writing_failed
from agent_eval.storage.journal import Journal

FORMAT = 1
_MAY_DIFFER = frozenset({"run_id", "started_at"})
_MOST_DIFFERENCES = 10


def journal_path(out: Path) -> Path:
    """Return the path of the journal of a run whose pack is written to `out`: beside it."""
    return out.with_name(f"{out.name}.journal")


def discard_journal(out: Path) -> None:
    """Delete the journal of an unfinished run to `out`, so that the next run starts over.

    Raises:
        StorageError: The journal cannot be deleted, or another process uses it.
    """
    path = journal_path(out)
    try:
        journal = Journal.resume(path)
    except InvalidInput:
        journal = None  # damaged; it is deleted anyway
    if journal is not None:
        journal.remove()
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise writing_failed(path, error) from error


def open_journal(
    out: Path, config: RunConfig, *, resume: bool, run_id: str | None
) -> tuple[Journal, RunConfig]:
    """Open the journal of a run. Returns it with the configuration of the run's first start.

    Raises:
        JournalExists: There is an earlier start, and `resume` is false.
        UsageError: The earlier start had other settings; the error lists them.
        InvalidInput: The journal is damaged.
    """
    path = journal_path(out)
    journal = Journal.resume(path) if resume else None
    if journal is None:
        return Journal.create(path, {"format": FORMAT, "config": config.to_json()}), config
    try:
        first_config = _config_of(journal)
        differences = _other_settings(first_config, config, run_id)
        if differences:
            raise _other_run(path, differences)
    except BaseException:
        journal.close()
        raise
    return journal, first_config


def finished_run(out: Path, config: RunConfig, *, run_id: str | None) -> Pack | None:
    """Return the pack at `out` if it is that of this run, so that nothing is left to do; else None."""
    if not is_complete_pack(out) or not is_paid_for(out):
        return None
    pack = open_run(out)
    differences = _other_settings(pack.config, config, run_id)
    if differences:
        raise UsageError(
            f"cannot resume: {out} is the complete pack of a run with other settings: {_listed(differences)}",
            remedy=f"Write to another directory, or replace it with {FRESH}.",
            file=str(out),
            differences=differences,
        )
    return pack


def _other_settings(first: RunConfig, config: RunConfig, run_id: str | None) -> list[str]:
    """List the settings in which a start of a run differs from the first one."""
    requested = {**config.to_json(), **({} if run_id is None else {"run_id": run_id})}
    ignored = _MAY_DIFFER - ({"run_id"} if run_id is not None else set())
    return list(_differences(_comparable(first.to_json()), _comparable(requested), ignored))


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Leave out what only a finished run knows."""
    counts = ("redacted_cases", "redactions")
    execution = {name: value for name, value in config["execution_config"].items() if name not in counts}
    # The tree may become dirty by what the agent writes.
    stated = {name: value for name, value in config.items() if name != "git_dirty"}
    return {**stated, "execution_config": execution}


def _config_of(journal: Journal) -> RunConfig:
    header = journal.header
    try:
        if header["format"] != FORMAT:
            raise KeyError("format")
        return RunConfig.model_validate(header["config"])
    except (KeyError, TypeError, ValidationError):
        raise InvalidInput(
            f"{journal.path} is not the journal of a run that this version can resume",
            remedy="Delete it and run again from the start.",
            file=str(journal.path),
        ) from None


def _other_run(path: Path, differences: list[str]) -> UsageError:
    return UsageError(
        f"cannot resume: the run of {path} had other settings: {_listed(differences)}",
        remedy=f"Run with the same settings as then, or start over with {FRESH}.",
        file=str(path),
        differences=differences,
    )


def _listed(differences: list[str]) -> str:
    hidden = len(differences) - _MOST_DIFFERENCES
    return "; ".join(differences[:_MOST_DIFFERENCES]) + (f"; and {hidden} more" if hidden > 0 else "")


def _differences(before: Any, after: Any, ignored: frozenset[str], place: str = "") -> Iterator[str]:
    """Yield every difference, such as `seed was 1, now 2`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if place or name not in ignored:
                inner = f"{place}.{name}" if place else name
                yield from _differences(before.get(name), after.get(name), ignored, inner)
    elif before != after:
        yield f"{place} was {_short(before)}, now {_short(after)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
