"""Rows of the commands that take packs and suites as they are: compare, report, import, sign, register."""

from __future__ import annotations

from typing import get_args

from agent_eval.config.options import REGISTRY, Command, Option

# fmt: off
# A row is its name and kind, its help, and where its value goes: two to five lines, and not fifteen.

_OF_ONE_FORM: tuple[Command, ...] = ("ci", "demo", "dev demo-agent", "schema show", "completion")
"""Commands that print one kind of text: prose, JSON, or a script."""

PACKS: tuple[Option, ...] = (
    Option("run", "path", "Evidence pack, or archive of one.", goes_to="pack",
           commands=("rejudge", "replay", "dev expand", "dev compact"), metavar="PACK", required=True),
    Option("run", "path", "Evidence pack, or archive of one; same as the argument PACK.", goes_to="run",
           commands=("verify",), metavar="PACK"),
    Option("run-agent", "switch",
           "Run the agent of the pack again, or the one that is named, and compare what it does.",
           goes_to="run_agent", commands=("replay",)),
    Option("allow-env-drift", "list",
           "Pin of the environment that may differ: python, packages, packages.orjson, judges, or all. "
           "Differences are reported, and do not count.",
           goes_to="allowed_drift", commands=("replay",), metavar="KEY"),
    Option("trust-pack", "text",
           "Run what the pack names, if this is the digest of its manifest.json, or it is `signed` by a "
           "--public-key. A pack made here needs neither.",
           goes_to="trust_pack", commands=("replay",), metavar="SHA256|signed"),
    Option("runs", "integer",
           "How often an agent is run. Recorded trials are all used, however many there are.",
           goes_to="runs", commands=("stability-check",), default="5", bounds=(2, 10_000), metavar="N"),
    Option("execution-mode", "choice",
           "Judge recorded trials, or run an agent; follows from whether one is given.",
           goes_to="execution_mode", commands=("stability-check",), hidden=True,
           choices=("trace_score", "propose_execute_repair")),
    Option("baseline", "text",
           "Evidence pack, or archive of one, to compare with; or the name of a registered baseline.",
           goes_to="baseline", commands=("compare",), metavar="PACK", required=True),
    Option("candidate", "path", "Evidence pack of the run in question.", goes_to="candidate",
           commands=("compare",), metavar="PACK", required=True),
    Option("baseline", "text",
           "Evidence pack of the baseline, archive of one, or name of a registered baseline. Default: the "
           "one that the comparison names, in the registry or where it was.",
           goes_to="baseline", commands=("gate",), metavar="PACK"),
    Option("candidate", "path",
           "Evidence pack of the candidate. Default: the pack that holds the comparison.",
           goes_to="candidate", commands=("gate",), metavar="PACK"),
    Option("allow-incompatible", "switch",
           "Compare the cases that both runs have by id, even of different datasets and with other inputs.",
           goes_to="allow_incompatible", commands=("compare",), default="false"),
    Option("compare", "path",
           "The comparison, as `compare` writes it, or the pack of the candidate that holds it.",
           goes_to="comparison", commands=("gate", "report markdown", "report html"), metavar="FILE|PACK"),
    Option("run", "path",
           "In place of a comparison: evidence pack, or archive of one, of a run that is compared with none.",
           goes_to="run", commands=("gate", "report markdown", "report html"), metavar="PACK"),
    Option("config", "path",
           "Configuration file, or one of a policy alone; flags override it. Default: agent-eval.yml, where "
           "there is one.",
           goes_to="config", commands=("gate",), metavar="FILE"),
    Option("apply-waivers", "switch", "Leave out regressions that the registry waives.",
           goes_to="apply_waivers", commands=("gate",), default="false"),
    Option("baseline-name", "text", "Baseline whose waivers apply; needed by --apply-waivers.",
           goes_to="baseline_name", commands=("gate",)),
    Option("registry-path", "path", "The registry.", goes_to="registry_path",
           commands=("compare", "gate", "merge"), default=REGISTRY, metavar="FILE"),
    Option("fresh", "switch", "Replace the evidence of a run of an agent, or of a registered baseline.",
           goes_to="fresh", commands=("merge",), default="false"),
    Option("gate", "path", "The decision made on the comparison, or on the run.", goes_to="decision",
           commands=("report markdown", "report html"), metavar="FILE"),
    Option("replay", "path", "Report of `replay` on the candidate.", goes_to="replay",
           commands=("report markdown",), metavar="FILE"),
    Option("report-title", "text", "Heading of the report.", goes_to="report_title",
           commands=("report markdown",), default="Agent Eval Report", aliases=("title",)),
    Option("out", "path",
           "Where the comparison is written, `-` for stdout; compare/baseline_delta.json in the candidate "
           "when not given.",
           goes_to="out", commands=("compare",), metavar="FILE"),
    Option("out", "path",
           "Where the decision is written, `-` for stdout; gate_decision.json beside the comparison, or "
           "compare/run_decision.json in the run, when not given.",
           goes_to="out", commands=("gate",), metavar="FILE"),
    Option("out", "path", "Where the report is written as JSON; `-` for stdout.", goes_to="out",
           commands=("stability-check",), metavar="FILE"),
    Option("out", "path",
           "The report, `-` for stdout; compare/replay_report.json in the pack, or of an agent "
           "compare/replay_exec_report.json, when not given.",
           goes_to="out", commands=("replay",), metavar="FILE"),
    Option("out", "path", "Write the result to this file as JSON; `-` for stdout.", goes_to="out",
           commands=("attest", "verify", "dev adapter-conformance", "dev contracts-check"), metavar="FILE"),
    Option("out", "path", "Markdown file to write; `-` for stdout.", goes_to="out",
           commands=("report markdown",), metavar="FILE", default="-"),
    Option("out", "path", "The evidence pack to write.", goes_to="out",
           commands=("merge", "dev expand", "dev compact"), metavar="DIRECTORY", required=True),
    Option("out", "path", "Where the files are written.", goes_to="out", commands=("init",), default=".",
           metavar="DIRECTORY"),
    Option("out", "path", "Where suites, evidence and report are written.", goes_to="out", commands=("demo",),
           default="runs/demo", metavar="DIRECTORY"),
    Option("run-id", "text", "Name of the merged run, where shards have different ones.", goes_to="run_id",
           commands=("merge",)),
    Option("layout", "choice", "A folder a case, or shards; auto takes shards beyond 2,000 cases.",
           goes_to="layout", commands=("merge",), default="auto", choices=("auto", "files", "compact")),
    Option("force", "switch", "Overwrite files that are already there.", goes_to="force", commands=("init",),
           default="false"),
    Option("install", "switch", "Write the script where the shell finds it, in place of printing it.",
           goes_to="install", commands=("completion",), default="false"),
    Option("input", "lines", "Suite to check; same as the argument SUITE.", goes_to="inputs",
           commands=("validate",), metavar="FILE", hidden=True),
    Option("input", "path", "Suite to migrate.", goes_to="suite", commands=("schema migrate",),
           metavar="FILE", required=True),
    Option("strict", "switch", "Refuse fields that the schema does not define.", goes_to="strict",
           commands=("validate",), default="false"),
    Option("suite-key-env", "variables",
           "Environment variables that a suite of conversations may name for its API key, as `${NAME}`. "
           "Default: `AUI_API_KEY`.",
           goes_to="key_variables", commands=("validate", "plan"), metavar="NAME"),
    Option("require-version", "text", "Schema version the suite must state.", goes_to="require_version",
           commands=("validate",), metavar="VERSION"),
    Option("output", "path", "The .json or .jsonl file to write.", goes_to="target",
           commands=("schema migrate",), metavar="FILE", required=True),
    Option("target-version", "text",
           "Schema version to write; without it the current one. One that cannot hold everything is refused.",
           goes_to="target_version", commands=("schema migrate",), metavar="VERSION"),
)

IMPORTING: tuple[Command, ...] = ("import",)

IMPORTS: tuple[Option, ...] = (
    Option("from", "text", "Format of the input. Default: recognised by itself, record by record.",
           goes_to="format", commands=IMPORTING, default="auto", metavar="FORMAT",
           aliases=("provider", "framework", "source")),
    Option("family", "choice", "Only formats of this family.", goes_to="family", commands=IMPORTING,
           choices=("provider", "framework", "transcript"), hidden=True),
    Option("input", "lines", "File or directory to import; same as the argument FILE.", goes_to="inputs",
           commands=IMPORTING, metavar="PATH", hidden=True),
    Option("out", "path", "The .json or .jsonl suite to write.", goes_to="out", commands=IMPORTING,
           metavar="FILE", required=True),
    Option("dataset-id", "id", "Id of the suite; without it the name of the first input.",
           goes_to="dataset_id", commands=IMPORTING, metavar="ID"),
    Option("case-prefix", "id", "Text to put before each case id.", goes_to="case_prefix", commands=IMPORTING,
           metavar="TEXT"),
    Option("group-by", "text",
           "Field whose value makes records one conversation, such as metadata.session_id. Without it their "
           "own ids and repeated histories decide.",
           goes_to="group_by", commands=IMPORTING, metavar="PATH"),
    Option("id-from", "text",
           "Field whose value is the case id, such as metadata.ticket. Without it the source's own id.",
           goes_to="id_from", commands=IMPORTING, metavar="PATH"),
    Option("expect", "path", "JSON or CSV of expected outputs and labels, joined by id.", goes_to="expect",
           commands=IMPORTING, metavar="FILE"),
    Option("strict", "switch",
           "Refuse what would lose something: unknown fields, empty conversations, unreadable records.",
           goes_to="strict", commands=IMPORTING, default="false"),
    Option("diagnostics-out", "path",
           "JSON Lines file for what was lost, unknown or changed, with record, field and reason.",
           goes_to="diagnostics_out", commands=IMPORTING, metavar="FILE"),
    Option("schema-fixtures-dir", "path", "Directory with suites, at least one of each schema version.",
           goes_to="suite_fixtures", commands=("dev contracts-check",), metavar="DIR", required=True),
    Option("adapter-fixtures-dir", "path", "Directory with a directory of exports for each format.",
           goes_to="adapter_fixtures", commands=("dev contracts-check",), metavar="DIR", required=True),
    Option("fixtures-dir", "path", "Directory with a directory of exports for each format.",
           goes_to="adapter_fixtures", commands=("dev adapter-conformance",), metavar="DIR", required=True),
    Option("min-fixtures-per-provider", "count", "Exports that each provider and each framework must have.",
           goes_to="minimum", commands=("dev adapter-conformance", "dev contracts-check"), default="2",
           metavar="N"),
)

_GENERATE: tuple[Command, ...] = ("generate",)

BENCHMARKS: tuple[Option, ...] = (
    Option("archetype", "choice", "What kind of agent the suite is for.", goes_to="archetype",
           commands=_GENERATE, choices=("support_agent", "research_agent", "ops_agent", "coding_agent"),
           required=True),
    Option("cases", "integer", "Number of cases.", goes_to="cases", commands=_GENERATE, default="50",
           bounds=(1, 10_000)),
    Option("seed", "seed", "Another seed gives other cases; the same one gives the same bytes.",
           goes_to="seed", commands=_GENERATE, default="0"),
    Option("out", "path", "The .json or .jsonl suite to write.", goes_to="out", commands=_GENERATE,
           metavar="FILE", required=True),
    Option("with-traces", "switch", "Give each case the trace of an agent that does everything right.",
           goes_to="with_traces", commands=_GENERATE, default="false"),
)

CI_FILES = (
    *("all", "none", "github", "gitlab", "buildkite", "circleci", "jenkins"),
    *("gitlab-pip", "buildkite-pip", "circleci-pip", "jenkins-pip"),
)
"""One name for each file of a CI platform; `all` for those that run the image."""

STARTER_FILES: tuple[Option, ...] = (
    Option("agent", "text",
           "The agent: a command line, an address, `openai:MODEL`, `anthropic:MODEL` or "
           "`python:module:function`. Without one, a sample is written.",
           goes_to="agent", commands=("init",)),
    Option("ci", "lines",
           "CI platform to write a file for; repeatable. Its file runs the image; the one with `-pip` "
           "installs agent-eval beside the job's own Python. Default: what the repository uses, else all.",
           goes_to="platforms", commands=("init",), choices=CI_FILES),
    Option("action", "text",
           "Where the action lives, pinned by a commit that you have reviewed: owner/repository@commit.",
           goes_to="action", commands=("init",)),
    Option("image", "text",
           "Where the image lives, best with a digest that you have reviewed: registry/name@sha256:digest.",
           goes_to="image", commands=("init",)),
)

HTML: tuple[Option, ...] = (
    Option("trial", "integer",
           "Trial to show of a case that ran several times, from 1. Without it, the one that decides the "
           "case.",
           goes_to="trial", commands=("show",), bounds=(1, 1000), metavar="N"),
    Option("report-title", "text", "Heading of the report.", goes_to="report_title",
           commands=("report html",), default="Agent evaluation", aliases=("title",)),
    Option("baseline", "path",
           "Evidence pack of the baseline. Default: where the comparison names it, if it is still there.",
           goes_to="baseline", commands=("report html",), metavar="PACK"),
    Option("candidate", "path", "Evidence pack of the candidate. Default: the same.", goes_to="candidate",
           commands=("report html",), metavar="PACK"),
    Option("out", "path", "HTML file to write; `-` for stdout.", goes_to="out", commands=("report html",),
           metavar="FILE", required=True),
    Option("out", "path", "HTML file to write; a temporary one when not given.", goes_to="out",
           commands=("view",), metavar="FILE"),
)

HISTORY: tuple[Option, ...] = (
    Option("dataset-id", "text", "The dataset, where there are several.", goes_to="dataset_id",
           commands=("history show", "history drift")),
    Option("policy", "path", "The gate's policy, which says what is in quarantine.", goes_to="policy",
           commands=("history show",), metavar="FILE"),
    Option("runs", "integer", "Newest runs that are shown; rates are of all.", goes_to="runs",
           commands=("history show",), default="40", bounds=(1, 100)),
    Option("recommend", "switch",
           "Print what the policy would have to say of single cases to follow the history. It edits nothing.",
           goes_to="recommend", commands=("history show",)),
    Option("release", "lines",
           "Evidence pack, or archive of one, of the release. Repeatable: several runs of one release know "
           "its rate better.",
           goes_to="release", commands=("history drift",), required=True, metavar="PACK"),
)

EXPORTS: tuple[Option, ...] = (
    Option("run", "path", "Evidence pack, or archive of one.", goes_to="pack",
           commands=("export junit", "export csv", "export otel"), metavar="PACK", required=True),
    Option("out", "path", "The XML file to write; `-` for stdout.", goes_to="out", commands=("export junit",),
           metavar="FILE", required=True),
    Option("out", "path", "The CSV file to write; `-` for stdout.", goes_to="out", commands=("export csv",),
           metavar="FILE", required=True),
    Option("out", "path", "The JSON Lines file to write; `-` for stdout.", goes_to="out",
           commands=("export otel",), metavar="FILE", required=True),
    Option("protocol", "choice",
           "Rows that read easily, or OTLP/JSON as OpenTelemetry's file exporter writes it.",
           goes_to="protocol", commands=("export otel",), default="jsonl",
           choices=("jsonl", "otlp-json")),
)

ATTESTATIONS: tuple[Option, ...] = (
    Option("out", "path",
           "File for the private key, which only its owner may read; the public key is written beside it as "
           "FILE.pub. Neither is overwritten.",
           goes_to="out", commands=("keygen",), default="agent-eval-key.pem", metavar="FILE"),
    Option("run", "path", "Evidence pack.", goes_to="pack", commands=("attest",), metavar="PACK",
           required=True),
    Option("key", "path",
           "Private ECDSA P-256 key in PEM. Default: the key in AGENT_EVAL_SIGNING_KEY, if that is set.",
           goes_to="key", commands=("attest",), metavar="FILE"),
    Option("public-key", "lines",
           "Public key in PEM, with which the pack must have been signed. Of several, in a file or "
           "repeated, one is enough.",
           goes_to="public_key", commands=("verify", "replay"),
           metavar="FILE"),
    Option("secret", "secret",
           "Shared secret, for integrity by HMAC: every holder can make it, so it is no signature. Other "
           "users of the machine can read a flag, so prefer --secret-file, or AGENT_EVAL_ATTESTATION_SECRET.",
           goes_to="secret", commands=("attest", "verify")),
    Option("secret-file", "path", "File with the shared secret.", goes_to="secret_file",
           commands=("attest", "verify"), metavar="FILE"),
    Option("gate", "path",
           "Decision of the gate on this pack; one that did not pass is refused. Default: the one in the "
           "pack, which is left out unless it passed.",
           goes_to="decision", commands=("attest",), metavar="FILE"),
    Option("url", "url", "Page of the CI run, to be named in the attestation.", goes_to="url",
           commands=("attest",)),
    Option("attestation", "path",
           "Attestation of the result that is not in the pack: a Sigstore bundle or a DSSE envelope.",
           goes_to="attestation", commands=("verify",), metavar="FILE"),
    Option("require", "list",
           "Refuse a pack without it: signature, gate (an attestation that it passed), origin (a key or a "
           "secret that vouches), commit=SHA, dataset=ID, run=ID.",
           goes_to="required", commands=("verify",), metavar="WHAT"),
    Option("allow-unsigned", "switch",
           "Check only that the pack is whole, where neither key nor secret is given.",
           goes_to="allow_unsigned", commands=("verify",), default="false", hidden=True),
    Option("signing-key", "private key",
           "Private ECDSA P-256 key in PEM, from a secret of the CI system: the evidence is signed with it. "
           "No agent gets it, and no output has it.",
           goes_to="signing_key", commands=("ci",), metavar="PEM"),
    Option("attest", "switch",
           "Write the result, and a gate that passed, as in-toto predicates into the evidence even without "
           "a key, for a later step that signs them.",
           goes_to="attest", commands=("ci",), default="false"),
    Option("baseline-public-key", "path",
           "Public key in PEM with which the baseline must have been signed; evidence that was not is not "
           "used. Of several in the file one is enough, so that a key can be replaced.",
           goes_to="baseline_public_key", commands=("ci", "compare", "gate"), metavar="FILE"),
    Option("candidate-public-key", "path",
           "Public key in PEM with which the candidate must have been signed, or several.",
           goes_to="candidate_public_key", commands=("compare", "gate"), metavar="FILE"),
)

_SETS_A_BASELINE: tuple[Command, ...] = ("registry baseline-set", "registry baseline-promote")

REGISTERED: tuple[Option, ...] = (
    Option("suite", "path", "Suite to register.", goes_to="suite", commands=("registry dataset-add",),
           metavar="FILE", required=True),
    Option("name", "text", "Name of the baseline.", goes_to="name", commands=(*_SETS_A_BASELINE, "bless"),
           required=True),
    Option("only", "choice", "Only entries of this kind.", goes_to="only", commands=("registry list",),
           choices=("datasets", "baselines", "baseline", "approvals", "waivers"), hidden=True),
    Option("name", "text", "Only of this baseline; same as the argument NAME.", goes_to="of",
           commands=("registry list",), aliases=("baseline-name",), hidden=True),
    Option("all", "switch", "With waivers that have ended.", goes_to="with_ended",
           commands=("registry list",)),
    Option("run", "path", "Evidence pack of the run.", goes_to="run", commands=(*_SETS_A_BASELINE, "bless"),
           metavar="PACK", required=True),
    Option("dataset-id", "text", "Must be the suite's own when given.", goes_to="dataset_id",
           commands=("registry dataset-add",)),
    Option("dataset-id", "text", "Must be the run's own when given.", goes_to="dataset_id",
           commands=_SETS_A_BASELINE),
    Option("description", "text", "For people.", goes_to="description", commands=("registry dataset-add",)),
    Option("tag", "list", "Tags, separated by commas; or the flag repeated.", goes_to="tags",
           commands=("registry dataset-add",)),
    Option("description", "text", "For people.", goes_to="notes", commands=_SETS_A_BASELINE,
           aliases=("notes",)),
    Option("baseline-name", "text", "Baseline the regression is against.", goes_to="baseline_name",
           commands=("registry waiver-add",), required=True),
    Option("approved-by", "text", "Who approves it.", goes_to="approved_by",
           commands=("registry baseline-promote", "registry waiver-add"), required=True),
    Option("rationale", "text", "Why.", goes_to="rationale", commands=("registry baseline-promote",),
           required=True),
    Option("accept", "text", "Digest of the differences that were shown: accept exactly these.",
           goes_to="accept", commands=("bless",), metavar="DIGEST"),
    Option("approved-by", "text", "Who accepts it; needed with --accept.", goes_to="approved_by",
           commands=("bless",)),
    Option("rationale", "text", "Why; needed with --accept.", goes_to="rationale", commands=("bless",)),
    Option("reason", "text", "Why.", goes_to="reason", commands=("registry waiver-add",), required=True),
    Option("case-id", "id", "Only this case.", goes_to="case_id", commands=("registry waiver-add",)),
    Option("judge-id", "id", "Only this judge.", goes_to="judge_id", commands=("registry waiver-add",)),
    Option("regression-key", "id", "Only the regression with this key, from a comparison.",
           goes_to="regression_key", commands=("registry waiver-add",)),
    Option("expires-at", "text",
           "When the waiver ends: a day, or ISO 8601 with its offset. Default: in 90 days.",
           goes_to="expires_at", commands=("registry waiver-add",), metavar="TIME"),
    Option("waiver-id", "text", "The waiver; same as the argument ID.", goes_to="waiver_id",
           commands=("registry waiver-revoke",), hidden=True),
    Option("approved-by", "text", "Who revokes it.", goes_to="approved_by",
           commands=("registry waiver-revoke",), required=True, aliases=("revoked-by",)),
    Option("registry-path", "path", "The registry.", goes_to="registry_path",
           commands=(*(name for name in get_args(Command) if name.startswith("registry ")), "bless"),
           default=REGISTRY, metavar="FILE"),
)

FORMAT: tuple[Option, ...] = (
    Option("verbose", "switch",
           "In prose, list every case that did not pass, not only the first ten; `gate`: the statistics. "
           "Short: -v.",
           goes_to="verbose", commands=("run", "gate"), aliases=("v",)),
    Option("quiet", "switch", "In prose, list no cases, only the totals. Short: -q.", goes_to="quiet",
           commands=("run",), aliases=("q",)),
    Option("format", "choice", "Text for people, or JSON for programs.",
           goes_to="output_format",
           commands=tuple(command for command in get_args(Command) if command not in _OF_ONE_FORM),
           default="text", choices=("text", "json")),
)
