"""`agent-eval bless`: accept an intended change as the new baseline, after every difference was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.bless import Blessing

_IN_CI = (
    "`agent-eval ci` compares with it where agent-eval.yml says `baseline: {name}`, and the registry and the",
    "pack are in the checkout. The default, `baseline: auto`, never reads the registry.",
)


@click.command(cls=TableCommand, path="bless")
def bless(  # more than six parameters: one for each option
    name: str,
    run: Path,
    accept: str | None,
    approved_by: str | None,
    rationale: str | None,
    registry_path: Path,
    output_format: str,
) -> None:
    """Show every case that a run changes against a baseline, and with --accept make it the baseline.

    The first call lists the differences and their digest. The second, with that digest, accepts exactly them.
    Only a complete run is accepted: every case judged, of one commit, with its model known.
    """
    import os

    from agent_eval.operations import bless as operation
    from agent_eval.operations import clock
    from agent_eval.registry.store import RegistryStore

    acceptance = operation.Acceptance.stated(accept, approved_by, rationale)
    store, at = RegistryStore(registry_path), clock.timestamp(os.environ)
    blessing = operation.changes(store, name, run, at=at)
    if acceptance is not None:
        blessing = operation.bless(store, blessing, run, acceptance, at=at)
    emit(output_format, blessing.to_json(), lambda _colour: _lines(blessing))


def _lines(blessing: Blessing) -> list[str]:
    lines = [f"{count(len(blessing.differences), 'case')} of {blessing.name} would change", ""]
    kind = ""
    for difference in blessing.differences:
        if difference.kind != kind:
            kind = difference.kind
            lines.append(f"{kind}:")
        outcomes = f"{difference.before or '-'} -> {difference.now or '-'}"
        lines.append(f"  {difference.case_id}  {outcomes}  {difference.reason}".rstrip())
    if blessing.approval is not None:
        done = f"{blessing.name} is now run {blessing.run_id}, {blessing.approval.approval_id}"
        return [*lines, "", done, *(line.format(name=blessing.name) for line in _IN_CI)]
    words = f"--accept {blessing.digest} --approved-by WHO --rationale WHY"
    return [*lines, "", f"Accept exactly this with {words}"]
