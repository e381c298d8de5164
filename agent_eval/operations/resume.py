"""What an earlier start left where a pack goes: a journal to resume by, or evidence that must not be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.config.spec import Output
from agent_eval.contracts import RunConfig, RunSummary
from agent_eval.errors import AgentEvalError, InvalidInput, UsageError
from agent_eval.evidence.layout import CONFIG, SUMMARY, is_complete_pack, may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.packs import open_run
from agent_eval.operations.unjudged import was_unreachable
from agent_eval.registry.store import RegistryStore, path_from_registry
from agent_eval.storage.atomic import writing_failed
from agent_eval.storage.journal import Journal
from agent_eval.storage.json import read_json

FORMAT = 1
FRESH = "--fresh"
LOOP_MODE = "propose_execute_repair"
"""`RunConfig.execution_mode` of every run of an agent."""

_MOST_DIFFERENCES = 10


def refuse_to_lose(output: Output) -> None:
    """Refuse to replace a pack that is a registered baseline, or that an agent was paid for.

    Packs of recorded traces are replaced: they can be made again at no cost. So are packs of a run in which
    no trial reached the agent.
    """
    out, registry, names = output.pack, output.registry, list[str]()
    if not may_be_replaced(out) or output.fresh:
        return
    if registry.exists():
        names = [
            name
            for name, entry in sorted(RegistryStore(registry).read().baselines.items())
            if path_from_registry(entry.run_path, registry).resolve() == out.resolve()
        ]
    if names:
        what = f"is the pack of the registered baseline {names[0]!r}"
    elif is_paid_for(out):
        what = "has the evidence of a run of an agent"
    else:
        return
    raise UsageError(
        f"{out} {what}, which a new run would replace",
        remedy=f"Write to another directory, or replace it with {FRESH}.",
        file=str(out),
        field="out",
    )


def is_paid_for(out: Path) -> bool:
    """Tell whether the pack at `out` is of a run of an agent that was reached, rather than judged again."""
    try:
        config = RunConfig.model_validate(read_json(out / CONFIG))
        summary = RunSummary.model_validate(read_json(out / SUMMARY))
    except (InvalidInput, ValidationError):
        return False
    execution = config.execution_config
    if config.execution_mode != LOOP_MODE or execution.rejudged_from is not None:
        return False
    if execution.agent is not None and execution.agent.kind == "recorded":
        return False
    try:
        return not was_unreachable(summary, lambda: open_pack(out))
    except AgentEvalError:
        return True  # a pack that cannot be read may still have what was paid for


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
        try:
            if journal.header["format"] != FORMAT:
                raise KeyError("format")
            first_config = RunConfig.model_validate(journal.header["config"])
        except (KeyError, TypeError, ValidationError):
            raise InvalidInput(
                f"{path} is not the journal of a run that this version can resume",
                remedy="Delete it and run again from the start.",
                file=str(path),
            ) from None
        _refuse_other_settings(
            first_config,
            config,
            run_id,
            what=f"the run of {path} had other settings",
            remedy=f"Run with the same settings as then, or start over with {FRESH}.",
            file=path,
        )
    except BaseException:
        journal.close()
        raise
    return journal, first_config


def finished_run(out: Path, config: RunConfig, *, run_id: str | None) -> Pack | None:
    """Return the pack at `out` if it is that of this run, so that nothing is left to do; else None.

    Raises:
        UsageError: It is that of a run with other settings.
    """
    if not is_complete_pack(out) or not is_paid_for(out):
        return None
    pack = open_run(out)
    _refuse_other_settings(
        pack.config,
        config,
        run_id,
        what=f"{out} is the complete pack of a run with other settings",
        remedy=f"Write to another directory, or replace it with {FRESH}.",
        file=out,
    )
    return pack


def _refuse_other_settings(
    first: RunConfig, config: RunConfig, run_id: str | None, *, what: str, remedy: str, file: Path
) -> None:
    """Refuse a start of a run whose settings differ from the first one's, and list them."""

    def short(value: Any) -> str:
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:79]}…"

    requested = config if run_id is None else config.model_copy(update={"run_id": run_id})
    ignored = {"started_at", "run_id"} if run_id is None else {"started_at"}
    # What only a finished run knows; and the tree may become dirty by what the agent writes.
    ignored |= {"git_dirty", "execution_config.redacted_cases", "execution_config.redactions"}
    differing = [
        f"{place} was {short(was)}, now {short(now)}"
        for place, was, now in differences(first.to_json(), requested.to_json())
        if place not in ignored
    ]
    if differing:
        hidden = len(differing) - _MOST_DIFFERENCES
        listed = "; ".join(differing[:_MOST_DIFFERENCES]) + (f"; and {hidden} more" if hidden > 0 else "")
        message = f"cannot resume: {what}: {listed}"
        raise UsageError(message, remedy=remedy, file=str(file), differences=differing)


def differences(before: Any, now: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two JSON values differ, such as `packages.orjson`, and both values there.

    Nothing is told from an empty object.
    """
    if isinstance(before, dict | None) and isinstance(now, dict | None):
        old, new = before or {}, now or {}
        for name in sorted(old.keys() | new.keys()):
            yield from differences(old.get(name), new.get(name), f"{place}.{name}" if place else name)
    elif before != now:
        yield place, before, now
