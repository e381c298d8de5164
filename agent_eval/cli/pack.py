"""`agent-eval pack`: evidence packs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from agent_eval.cli.options import output_format
from agent_eval.cli.printing import emit

if TYPE_CHECKING:
    from agent_eval.runs.convert import PackFacts


@click.group()
def pack() -> None:
    """Verify evidence packs and convert their layout."""


@pack.command()
@click.option("--run", "where", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
@output_format
def verify(where: str, output: str) -> None:
    """Check every file of a pack against its manifests: exit 0 when it is whole, 2 when it is not."""
    from pathlib import Path

    from agent_eval.runs.convert import verify_pack

    found = verify_pack(Path(where))
    emit(output, found.to_json(), lambda _colour: _facts_text("Verified", found))


def _facts_text(verb: str, found: PackFacts) -> str:
    from agent_eval.text.terminal import clean

    facts = found.to_json()
    run, dataset = clean(facts["run_id"], limit=200), clean(facts["dataset_id"], limit=200)
    added = f" and {facts['derived_files']} added later" if facts["derived_files"] else ""
    lines = [
        f"{verb} {clean(facts['pack'])}: run {run} of {dataset}",
        f"{facts['cases']} cases in {facts['files']} files{added}, layout {facts['layout']}",
        f"manifest sha256 {facts['manifest_sha256']}",
    ]
    if not facts["complete"]:
        lines.append("The run is not complete: compare and gate refuse it.")
    if found.left_behind:
        lines.append(f"Left behind, since made from the pack as it was: {_listed(found.left_behind)}")
    return "\n".join(lines)


def _listed(paths: tuple[str, ...]) -> str:
    from agent_eval.text.terminal import clean

    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return ", ".join(clean(path) for path in paths[:10]) + more


def _conversion(layout: Literal["files", "compact"], text: str) -> click.Command:
    @click.option("--run", "where", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
    @click.option("--out", required=True, metavar="DIRECTORY", help="The pack to write.")
    @output_format
    def convert(where: str, out: str, output: str) -> None:
        from pathlib import Path

        from agent_eval.runs.convert import convert_pack

        made = convert_pack(Path(where), Path(out), layout=layout)
        emit(output, made.to_json(), lambda _colour: _facts_text("Wrote", made))

    return click.command(help=text)(convert)


pack.add_command(_conversion("files", "Write a pack with a folder a case."), "expand")
pack.add_command(_conversion("compact", "Write a pack with its cases in shards."), "compact")
