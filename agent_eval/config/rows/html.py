"""Rows of `show`, and of the HTML report beside those that it shares with `report markdown`."""

from __future__ import annotations

from agent_eval.config.options import Option

HTML: tuple[Option, ...] = (
    Option(
        "trial",
        "integer",
        "Trial to show of a case that ran several times, from 1. Without it, the one that decides the case.",
        goes_to="trial",
        commands=("show",),
        bounds=(1, 1000),
        metavar="N",
    ),
    Option(
        "report-title",
        "text",
        "Heading of the report.",
        goes_to="report_title",
        commands=("report html",),
        default="Agent evaluation",
        aliases=("title",),
    ),
    Option(
        "baseline",
        "path",
        "Evidence pack of the baseline. Default: where the comparison names it, if it is still there.",
        goes_to="baseline",
        commands=("report html",),
        metavar="PACK",
    ),
    Option(
        "candidate",
        "path",
        "Evidence pack of the candidate. Default: the same.",
        goes_to="candidate",
        commands=("report html",),
        metavar="PACK",
    ),
    Option(
        "render-markdown",
        "switch",
        "Show messages as Markdown, without links, images and HTML.",
        goes_to="render_markdown",
        commands=("report html", "view"),
        default="false",
    ),
    Option(
        "out",
        "path",
        "HTML file to write; `-` for stdout.",
        goes_to="out",
        commands=("report html",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "out",
        "path",
        "HTML file to write; a temporary one when not given.",
        goes_to="out",
        commands=("view",),
        metavar="FILE",
    ),
)
