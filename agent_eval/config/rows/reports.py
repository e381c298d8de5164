"""Rows of what shows evidence: `show` and the HTML report, `history`, and formats of other tools."""

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

HISTORY: tuple[Option, ...] = (
    Option(
        "dataset-id",
        "text",
        "The dataset, where there are several.",
        goes_to="dataset_id",
        commands=("history show", "drift"),
    ),
    Option(
        "policy",
        "path",
        "The gate's policy, which says what is in quarantine.",
        goes_to="policy",
        commands=("history show",),
        metavar="FILE",
    ),
    Option(
        "runs",
        "integer",
        "Newest runs that are shown; rates are of all.",
        goes_to="runs",
        commands=("history show",),
        default="40",
        bounds=(1, 100),
    ),
    Option(
        "recommend",
        "switch",
        "Print what the policy would have to say of single cases to follow the history. It edits nothing.",
        goes_to="recommend",
        commands=("history show",),
    ),
    Option(
        "release",
        "lines",
        "Evidence pack, or archive of one, of the release. Repeatable: several runs of one release know its "
        "rate better.",
        goes_to="release",
        commands=("drift",),
        required=True,
        metavar="PACK",
    ),
)

EXPORTS: tuple[Option, ...] = (
    Option(
        "run",
        "path",
        "Evidence pack, or archive of one.",
        goes_to="pack",
        commands=("export-junit", "export-csv", "export-otel"),
        metavar="PACK",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The XML file to write; `-` for stdout.",
        goes_to="out",
        commands=("export-junit",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The CSV file to write; `-` for stdout.",
        goes_to="out",
        commands=("export-csv",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The JSON Lines file to write; `-` for stdout.",
        goes_to="out",
        commands=("export-otel",),
        metavar="FILE",
        required=True,
    ),
    Option(
        "protocol",
        "choice",
        "Rows that read easily, or OTLP/JSON as OpenTelemetry's file exporter writes it.",
        goes_to="protocol",
        commands=("export-otel",),
        default="jsonl",
        choices=("jsonl", "otlp-json"),
    ),
)
