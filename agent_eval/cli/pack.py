"""`agent-eval pack`: evidence packs."""

from __future__ import annotations

import click

from agent_eval.cli.options import output_format
from agent_eval.cli.printing import emit


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

    checked = verify_pack(Path(where))
    emit(output, checked.to_json(), lambda _colour: checked.text())


def _conversion(layout: str, text: str) -> click.Command:
    @click.option("--run", "where", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
    @click.option("--out", required=True, metavar="DIRECTORY", help="The pack to write.")
    @output_format
    def convert(where: str, out: str, output: str) -> None:
        from pathlib import Path

        from agent_eval.runs.convert import convert_pack

        made = convert_pack(Path(where), Path(out), layout=layout)
        emit(output, made.to_json(), lambda _colour: made.text())

    return click.command(help=text)(convert)


pack.add_command(_conversion("files", "Write a pack with a folder a case."), "expand")
pack.add_command(_conversion("compact", "Write a pack with its cases in shards."), "compact")
