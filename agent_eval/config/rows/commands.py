"""Rows of the commands that take packs and suites as they are: compare, report, import, sign, register."""

from __future__ import annotations

from typing import get_args

from agent_eval.config.options import REGISTRY, Command, Option

# fmt: off
# A row is its name and kind, its help, and where its value goes: two to five lines, and not fifteen.

_OF_ONE_FORM: tuple[Command, ...] = ("ci", "demo", "dev demo-agent", "schema show", "completion")
"""Commands that print one kind of text: prose, JSON, or a script."""

PACKS: tuple[Option, ...] = (
    Option("run", "path", "Evidence pack, or archive of one.",
           ("rejudge", "replay", "dev expand", "dev compact"), goes_to="pack", metavar="PACK", required=True),
    Option("run", "path", "Evidence pack, or archive of one; same as the argument PACK.", ("verify",),
           metavar="PACK"),
    Option("run-agent", "switch", "Run the agent again, not only the judges, and compare.", ("replay",)),
    Option("allow-env-drift", "list",
           "What may differ: python, packages, packages.NAME, judges, `all`. Repeatable.", ("replay",),
           goes_to="allowed_drift", metavar="KEY", detail="Differences are reported, and do not count."),
    Option("trust-pack", "text", "Run what this pack names: its manifest's digest, or `signed`.", ("replay",),
           metavar="SHA256|signed", detail="`signed` is by a --public-key. A pack made here needs neither."),
    Option("runs", "integer", "How often an agent is run; recorded trials are all used.",
           ("stability-check",), default="5", bounds=(2, 10_000), metavar="N"),
    Option("execution-mode", "choice", "Judge recorded trials, or run an agent; follows by itself.",
           ("stability-check",), hidden=True, choices=("trace_score", "propose_execute_repair")),
    Option("baseline", "text", "Pack, or archive of one, to compare with; or a registered name.",
           ("compare",), metavar="PACK", required=True),
    Option("candidate", "path", "Evidence pack of the run in question.", ("compare",), metavar="PACK",
           required=True),
    Option("baseline", "text", "Pack of the baseline, or registered name. Default: as the comparison names.",
           ("gate",), metavar="PACK"),
    Option("candidate", "path", "Pack of the candidate. Default: the one that holds the comparison.",
           ("gate",), metavar="PACK"),
    Option("allow-incompatible", "switch", "Compare by case id, whatever else differs.", ("compare",)),
    Option("compare", "path", "The comparison, or the pack that holds it.",
           ("gate", "report markdown", "report html"), goes_to="comparison", metavar="FILE|PACK"),
    Option("run", "path", "In place of a comparison: pack of a run compared with none.",
           ("gate", "report markdown", "report html"), metavar="PACK"),
    Option("config", "path",
           "Configuration file, or a policy alone. Default: agent-eval.yml, where there is one.", ("gate",)),
    Option("apply-waivers", "switch", "Leave out regressions that the registry waives.", ("gate",)),
    Option("baseline-name", "text", "Baseline whose waivers apply; needed by --apply-waivers.", ("gate",)),
    Option("registry-path", "path", "The registry.", ("compare", "gate", "merge"), default=REGISTRY),
    Option("fresh", "switch", "Start over; replace what is there.", ("merge",)),
    Option("gate", "path", "The decision made on the comparison, or on the run.",
           ("report markdown", "report html"), goes_to="decision"),
    Option("replay", "path", "Report of `replay` on the candidate.", ("report markdown",)),
    Option("title", "text", "Heading of the report.", ("report markdown",), goes_to="report_title",
           default="Agent Eval Report"),
    Option("out", "path",
           "The comparison, `-` for stdout. Default: compare/baseline_delta.json in the candidate.",
           ("compare",)),
    Option("out", "path", "The decision, `-` for stdout. Default: gate_decision.json beside the comparison.",
           ("gate",), detail="Of a run: compare/run_decision.json in it."),
    Option("out", "path", "Where the report is written as JSON; `-` for stdout.", ("stability-check",)),
    Option("out", "path", "The report, `-` for stdout. Default: compare/replay_report.json in the pack.",
           ("replay",), detail="Of an agent: compare/replay_exec_report.json."),
    Option("out", "path", "Write the result to this file as JSON; `-` for stdout.",
           ("attest", "verify", "dev adapter-conformance", "dev contracts-check")),
    Option("out", "path", "Markdown file to write; `-` for stdout.", ("report markdown",), default="-"),
    Option("out", "path", "The evidence pack to write.", ("merge", "dev expand", "dev compact"),
           metavar="DIRECTORY", required=True),
    Option("out", "path", "Where the files are written.", ("init",), default=".", metavar="DIRECTORY"),
    Option("out", "path", "Where suites, evidence and report are written.", ("demo",), default="runs/demo",
           metavar="DIRECTORY"),
    Option("run-id", "text", "Name of the merged run, where shards have different ones.", ("merge",)),
    Option("force", "switch", "Overwrite files that are already there.", ("init",)),
    Option("install", "switch", "Write the script where the shell finds it, not print it.", ("completion",)),
    Option("input", "lines", "Suite to check; same as the argument SUITE.", ("validate",), goes_to="inputs",
           metavar="FILE", hidden=True),
    Option("input", "path", "Suite to migrate; same as the argument SUITE.", ("schema migrate",),
           goes_to="suite", hidden=True),
    Option("strict", "switch", "Refuse fields that the schema does not define.", ("validate",)),
    Option("require-version", "text", "Schema version the suite must state.", ("validate",),
           metavar="VERSION", hidden=True),
    Option("output", "path", "The .json or .jsonl file to write; same as the argument OUT.",
           ("schema migrate",), goes_to="target", hidden=True),
    Option("target-version", "text", "Schema version to write; without it the current one.",
           ("schema migrate",), metavar="VERSION", hidden=True),
)

IMPORTING: tuple[Command, ...] = ("import",)

IMPORTS: tuple[Option, ...] = (
    Option("from", "text", "Format of the input. Default: recognised by itself, record by record.", IMPORTING,
           goes_to="format", default="auto", metavar="FORMAT", aliases=("provider", "framework", "source")),
    Option("family", "choice", "Only formats of this family.", IMPORTING,
           choices=("provider", "framework", "transcript"), hidden=True),
    Option("input", "lines", "File or directory to import; same as the argument FILE.", IMPORTING,
           goes_to="inputs", metavar="PATH", hidden=True),
    Option("out", "path", "The .json or .jsonl suite to write.", IMPORTING, required=True),
    Option("dataset-id", "id", "Id of the suite; without it the name of the first input.", IMPORTING,
           metavar="ID"),
    Option("case-prefix", "id", "Text to put before each case id.", IMPORTING, metavar="TEXT", hidden=True),
    Option("group-by", "text",
           "Field whose value makes records one conversation, such as metadata.session_id.", IMPORTING,
           metavar="PATH", detail="Without it their own ids and repeated histories decide."),
    Option("id-from", "text", "Field whose value is the case id. Default: the source's own id.", IMPORTING,
           metavar="PATH"),
    Option("expect", "path", "JSON or CSV of expected outputs and labels, joined by id.", IMPORTING),
    Option("strict", "switch", "Refuse what would lose something, such as unknown fields.", IMPORTING),
    Option("diagnostics-out", "path", "JSON Lines file for what was lost, unknown or changed.", IMPORTING),
    Option("schema-fixtures-dir", "path", "Directory with suites, at least one of each schema version.",
           ("dev contracts-check",), goes_to="suite_fixtures", metavar="DIR", required=True),
    Option("adapter-fixtures-dir", "path", "Directory with a directory of exports for each format.",
           ("dev contracts-check",), goes_to="adapter_fixtures", metavar="DIR", required=True),
    Option("fixtures-dir", "path", "Directory with a directory of exports for each format.",
           ("dev adapter-conformance",), goes_to="adapter_fixtures", metavar="DIR", required=True),
    Option("min-fixtures-per-provider", "count", "Exports that each provider and each framework must have.",
           ("dev adapter-conformance", "dev contracts-check"), goes_to="minimum", default="2", metavar="N"),
)

_GENERATE: tuple[Command, ...] = ("generate",)

BENCHMARKS: tuple[Option, ...] = (
    Option("archetype", "choice", "What kind of agent the suite is for.", _GENERATE,
           choices=("support_agent", "research_agent", "ops_agent", "coding_agent"), required=True),
    Option("cases", "integer", "Number of cases.", _GENERATE, default="50", bounds=(1, 10_000)),
    Option("seed", "seed", "Another seed gives other cases; the same one gives the same bytes.", _GENERATE,
           default="0"),
    Option("out", "path", "The .json or .jsonl suite to write.", _GENERATE, required=True),
    Option("with-traces", "switch", "Give each case the trace of an agent that does everything right.",
           _GENERATE),
)

CI_FILES = (
    *("all", "none", "github", "gitlab", "buildkite", "circleci", "jenkins"),
    *("gitlab-pip", "buildkite-pip", "circleci-pip", "jenkins-pip"),
)
"""One name for each file of a CI platform; `all` for those that run the image."""

STARTER_FILES: tuple[Option, ...] = (
    Option("agent", "text", "Command line, address, `openai:MODEL` or `python:module:function`.", ("init",),
           detail="Without one, a sample is written."),
    Option("ci", "lines", "CI platform to write for. Default: the repository's, else all. Repeatable.",
           ("init",), goes_to="platforms", choices=CI_FILES, detail="Its file runs the image; the one with "
           "`-pip` installs agent-eval beside the job's own Python."),
    Option("action", "text", "Where the action lives, at a reviewed commit: owner/repository@commit.",
           ("init",)),
    Option("image", "text", "Where the image lives, best with its digest: registry/name@sha256:digest.",
           ("init",)),
)

HTML: tuple[Option, ...] = (
    Option("trial", "integer", "Trial to show, from 1. Default: the one that decides.", ("show",),
           bounds=(1, 1000), metavar="N"),
    Option("title", "text", "Heading of the report.", ("report html",), goes_to="report_title",
           default="Agent evaluation"),
    Option("baseline", "path", "Pack of the baseline. Default: where the comparison names it.",
           ("report html",), metavar="PACK"),
    Option("candidate", "path", "Evidence pack of the candidate. Default: the same.", ("report html",),
           metavar="PACK"),
    Option("out", "path", "HTML file to write; `-` for stdout.", ("report html",), required=True),
    Option("out", "path", "HTML file to write; a temporary one when not given.", ("view",)),
)

HISTORY: tuple[Option, ...] = (
    Option("dataset-id", "text", "The dataset, where there are several.", ("history show", "history drift")),
    Option("runs", "integer", "Newest runs that are shown; rates are of all.", ("history show",),
           default="40", bounds=(1, 100)),
    Option("recommend", "switch", "Print the quarantine list that the history suggests; edits nothing.",
           ("history show",)),
    Option("release", "lines", "Evidence pack, or archive of one, of the release. Repeatable.",
           ("history drift",), required=True, metavar="PACK"),
)

EXPORTS: tuple[Option, ...] = (
    Option("run", "path", "Evidence pack, or archive of one.", ("export junit", "export csv", "export otel"),
           goes_to="pack", metavar="PACK", required=True),
    Option("out", "path", "The XML file to write; `-` for stdout.", ("export junit",), required=True),
    Option("out", "path", "The CSV file to write; `-` for stdout.", ("export csv",), required=True),
    Option("out", "path", "The JSON Lines file to write; `-` for stdout.", ("export otel",), required=True),
    Option("protocol", "choice", "Rows that read easily, or OTLP/JSON.", ("export otel",), default="jsonl",
           choices=("jsonl", "otlp-json")),
)

ATTESTATIONS: tuple[Option, ...] = (
    Option("out", "path", "File for the private key; FILE.pub is the public one.", ("keygen",),
           default="agent-eval-key.pem", detail="Only its owner may read it. Neither is overwritten."),
    Option("run", "path", "Evidence pack.", ("attest",), goes_to="pack", metavar="PACK", required=True),
    Option("key", "path", "Private ECDSA P-256 key in PEM; better AGENT_EVAL_SIGNING_KEY.", ("attest",)),
    Option("public-key", "lines", "Key that must have signed it. Of several one is enough. Repeatable.",
           ("verify", "replay"), metavar="FILE"),
    Option("public-key", "path", "Key that must have signed both runs. Of several one is enough.",
           ("compare", "gate"), detail="`baseline.public_key` is the key of the baseline alone."),
    Option("secret", "secret",
           "Shared secret for HMAC; better AGENT_EVAL_ATTESTATION_SECRET, which others cannot read.",
           ("attest", "verify"), detail="Every holder can make it, so it is no signature."),
    Option("secret-file", "path", "File with the shared secret.", ("attest", "verify"), hidden=True),
    Option("gate", "path", "The gate's decision to include. Default: the pack's, if it passed.", ("attest",),
           goes_to="decision", detail="One that did not pass is refused."),
    Option("url", "url", "Page of the CI run, to be named in the attestation.", ("attest",), hidden=True),
    Option("attestation", "path", "Attestation that is not in the pack: Sigstore bundle or DSSE envelope.",
           ("verify",)),
    Option("require", "list",
           "Refuse without: signature, gate, origin, commit=SHA, dataset=ID, run=ID. Repeatable.",
           ("verify",), goes_to="required", metavar="WHAT",
           detail="`gate` is an attestation that it passed, `origin` a key or a secret that vouches."),
    Option("allow-unsigned", "switch", "Check only that the pack is whole, without key or secret.",
           ("verify",), hidden=True),
    Option("signing-key", "private key", "Private key in PEM, from a secret; signs the evidence.", ("ci",),
           metavar="PEM", detail="An ECDSA P-256 key. No agent gets it, and no output has it."),
    Option("attest", "switch", "Write in-toto predicates for a later step that signs them.", of_file=("ci",)),
    Option("baseline-public-key", "path", "Public key in PEM that must have signed the baseline.",
           of_file=("ci", "compare", "gate"),
           detail="Evidence that it did not sign is not used. Of several in the file one is enough."),
)

_SETS_A_BASELINE: tuple[Command, ...] = ("registry baseline-set", "registry baseline-promote")

REGISTERED: tuple[Option, ...] = (
    Option("suite", "path", "Suite to register.", ("registry dataset-add",), required=True),
    Option("name", "text", "Name of the baseline.", (*_SETS_A_BASELINE, "bless"), required=True),
    Option("only", "choice", "Only entries of this kind.", ("registry list",),
           choices=("datasets", "baselines", "baseline", "approvals", "waivers"), hidden=True),
    Option("name", "text", "Only of this baseline; same as the argument NAME.", ("registry list",),
           goes_to="of", aliases=("baseline-name",), hidden=True),
    Option("all", "switch", "With waivers that have ended.", ("registry list",), goes_to="with_ended"),
    Option("run", "path", "Evidence pack of the run.", (*_SETS_A_BASELINE, "bless"), metavar="PACK",
           required=True),
    Option("dataset-id", "text", "Must be the suite's own when given.", ("registry dataset-add",)),
    Option("dataset-id", "text", "Must be the run's own when given.", _SETS_A_BASELINE),
    Option("description", "text", "For people.", ("registry dataset-add",)),
    Option("tag", "list", "Tags, separated by commas; or the flag repeated.", ("registry dataset-add",),
           goes_to="tags"),
    Option("description", "text", "For people.", _SETS_A_BASELINE, goes_to="notes", aliases=("notes",)),
    Option("baseline-name", "text", "Baseline the regression is against.", ("registry waiver-add",),
           required=True),
    Option("approved-by", "text", "Who approves it.", ("registry baseline-promote", "registry waiver-add"),
           required=True),
    Option("rationale", "text", "Why.", ("registry baseline-promote",), required=True),
    Option("accept", "text", "Digest of the differences that were shown: accept exactly these.", ("bless",),
           metavar="DIGEST"),
    Option("approved-by", "text", "Who accepts it; needed with --accept.", ("bless",)),
    Option("rationale", "text", "Why; needed with --accept.", ("bless",)),
    Option("reason", "text", "Why.", ("registry waiver-add",), required=True),
    Option("case-id", "id", "Only this case.", ("registry waiver-add",)),
    Option("judge-id", "id", "Only this judge.", ("registry waiver-add",)),
    Option("expires-at", "text", "When it ends: a day, or ISO 8601. Default: in 90 days.",
           ("registry waiver-add",), metavar="TIME"),
    Option("waiver-id", "text", "The waiver; same as the argument ID.", ("registry waiver-revoke",),
           hidden=True),
    Option("approved-by", "text", "Who revokes it.", ("registry waiver-revoke",), goes_to="revoked_by",
           required=True, aliases=("revoked-by",)),
    Option("registry-path", "path", "The registry.",
           (*(name for name in get_args(Command) if name.startswith("registry ")), "bless"),
           default=REGISTRY),
)

FORMAT: tuple[Option, ...] = (
    Option("verbose", "switch", "List every case that did not pass; `gate`: the statistics. Short: -v.",
           ("run", "gate"), aliases=("v",)),
    Option("quiet", "switch", "Only the totals. Short: -q.", ("run",), aliases=("q",)),
    Option("format", "choice", "Text for people, or JSON for programs.",
           tuple(command for command in get_args(Command) if command not in _OF_ONE_FORM),
           goes_to="output_format", default="text", choices=("text", "json")),
)
