"""Which evidence a new pack may replace without being asked to."""

from __future__ import annotations

from pathlib import Path

from agent_eval.config.spec import Output
from agent_eval.errors import UsageError
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.operations.agent_packs import is_paid_for
from agent_eval.registry.store import RegistryStore, path_from_registry

FRESH = "--fresh"


def refuse_to_lose(output: Output) -> None:
    """Refuse to replace a pack that is a registered baseline, or that an agent was paid for.

    Packs of recorded traces are replaced: they can be made again at no cost. So are packs of a run in which
    no trial reached the agent.

    Args:
        output: Path of the new pack, whether the user allowed to replace what is there, and the registry.

    Raises:
        UsageError: Something that must not be lost is at `output.pack`.
        StorageError: `output.pack` cannot be read.
    """
    out = output.pack
    if not may_be_replaced(out) or output.fresh:
        return
    if name := _registered_as(out, output.registry):
        raise _refusal(out, f"is the pack of the registered baseline {name!r}")
    if is_paid_for(out):
        raise _refusal(out, "has the evidence of a run of an agent")


def _refusal(out: Path, what: str) -> UsageError:
    return UsageError(
        f"{out} {what}, which a new run would replace",
        remedy=f"Write to another directory, or replace it with {FRESH}.",
        file=str(out),
        field="out",
    )


def _registered_as(out: Path, registry: Path) -> str:
    """Return the name of the baseline whose pack is at `out`; an empty text if there is none."""
    if not registry.exists():
        return ""
    place = out.resolve()
    for name, entry in sorted(RegistryStore(registry).read().baselines.items()):
        if path_from_registry(entry.run_path, registry).resolve() == place:
            return name
    return ""
