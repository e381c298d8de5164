"""The journal beside a pack, and whether what it has belongs to the run that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import RunConfig
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.atomic import writing_failed
from agent_eval.storage.journal import Journal

FORMAT = 1
_MAY_DIFFER = frozenset({"run_id", "started_at"})
_SHOWN = 10


def journal_path(out: Path) -> Path:
    """Where the journal of a run is whose pack goes to `out`: beside it."""
    return out.with_name(f"{out.name}.journal")


def discard_journal(out: Path) -> None:
    """Delete what an earlier run to `out` left unfinished, where nobody wants to go on with it.

    Raises:
        StorageError: It cannot be deleted, or another process holds it.
    """
    path = journal_path(out)
    try:
        journal = Journal.resume(path)
    except InvalidInput:
        journal = None  # damaged, which does not matter now
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
    """The journal of a run, and the run's configuration: that of its first start.

    Args:
        out: Where the pack shall stand.
        config: What the run is, if it starts now.
        resume: Whether an earlier start may be gone on with.
        run_id: The name that was asked for; None when it was not.

    Raises:
        JournalExists: There is an earlier start, and `resume` is false.
        UsageError: The earlier start was of something else; names the differences.
        InvalidInput: The journal is damaged.
        StorageError: It cannot be written, or another process holds it.
    """
    path = journal_path(out)
    journal = Journal.resume(path) if resume else None
    if journal is None:
        return Journal.create(path, {"format": FORMAT, "config": config.to_json()}), config
    try:
        began = _config_of(journal)
        wanted = {**config.to_json(), **({} if run_id is None else {"run_id": run_id})}
        ignored = _MAY_DIFFER - ({"run_id"} if run_id is not None else set())
        found = list(_differences(began.to_json(), wanted, ignored))
        if found:
            raise _other_run(path, found)
    except BaseException:
        journal.close()
        raise
    return journal, began


def _config_of(journal: Journal) -> RunConfig:
    header = journal.header
    try:
        if header["format"] != FORMAT:
            raise KeyError("format")
        return RunConfig.model_validate(header["config"])
    except (KeyError, TypeError, ValidationError):
        raise InvalidInput(
            f"{journal.path} is not the journal of a run that this version can go on with",
            remedy="Delete it and run again from the start.",
            file=str(journal.path),
        ) from None


def _other_run(path: Path, found: list[str]) -> UsageError:
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return UsageError(
        f"cannot resume: the run that {path} began was another one: {'; '.join(found[:_SHOWN])}{more}",
        remedy="Run with the same settings as then, or delete the journal to begin anew.",
        file=str(path),
        differences=found,
    )


def _differences(before: Any, after: Any, ignored: frozenset[str], place: str = "") -> Iterator[str]:
    """Everything that differs, as `place: before, now after`."""
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
