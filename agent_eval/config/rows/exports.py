"""Rows of the commands that write a pack in formats of other tools."""

from __future__ import annotations

from agent_eval.config.options import Option

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
    ),
    Option(
        "protocol",
        "choice",
        "Rows that read easily, OTLP/JSON as OpenTelemetry's file exporter writes it, or OTLP/HTTP.",
        goes_to="protocol",
        commands=("export-otel",),
        default="jsonl",
        choices=("jsonl", "otlp-json", "otlp-http"),
    ),
    Option(
        "endpoint",
        "url",
        "Base address of the collector for otlp-http; /v1/traces and /v1/logs follow it.",
        goes_to="endpoint",
        commands=("export-otel",),
    ),
    Option(
        "header",
        "headers",
        "Header of each request, and the environment variable that holds its value.",
        goes_to="headers",
        commands=("export-otel",),
        metavar="NAME=VARIABLE",
    ),
    Option(
        "plain-http",
        "switch",
        "Reach a collector on another machine without encryption.",
        goes_to="plain_http",
        commands=("export-otel",),
        default="false",
    ),
)
