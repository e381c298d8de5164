"""`agent-eval merge`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import TEXT, output_format, pack_layout
from agent_eval.cli.printing import emit


@click.command()
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@click.option("--run-id", type=TEXT, help="Name of the merged run, where shards have different ones.")
@pack_layout
@output_format
def merge(packs: tuple[str, ...], out: str, run_id: str | None, layout: Any, output: str) -> None:
    """Join the packs of a divided run into one, as if it had not been divided.

    Each was made with --shard K/N and the same settings. Overlaps, gaps and mixed settings are refused.
    """
    from pathlib import Path

    from agent_eval.reports.terminal import run_text
    from agent_eval.runs.merge import merge_packs

    result = merge_packs([Path(pack) for pack in packs], Path(out), layout=layout, run_id=run_id)
    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack)}
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))
