"""Rows of the commands that write a pack in formats of other tools."""

from __future__ import annotations

from agent_eval.config.options import Option

EXPORTS: tuple[Option, ...] = (
    Option(
        "run",
        "path",
        "Evidence pack, or archive of one.",
        goes_to="pack",
        commands=("export-junit", "export-csv"),
        metavar="PACK",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The XML file to write.",
        goes_to="out",
        commands=("export-junit",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The CSV file to write.",
        goes_to="out",
        commands=("export-csv",),
        metavar="FILE",
        required=True,
    ),
)
