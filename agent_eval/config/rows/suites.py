"""Rows of the commands that make suites: from other tools' records, by archetype, or to start from."""

from __future__ import annotations

from agent_eval.config.options import Command, Option

IMPORTING: tuple[Command, ...] = ("import-trace", "import-framework", "import-transcript")
"""Commands that import."""

IMPORTS: tuple[Option, ...] = (
    Option(
        "provider",
        "choice",
        "Which provider's format the input has. auto recognises that of each record by its structure.",
        goes_to="provider",
        commands=("import-trace",),
        default="auto",
        choices=("auto", "openai", "anthropic", "vertex", "foundry", "bedrock"),
    ),
    Option(
        "framework",
        "choice",
        "Which framework's format the input has. auto recognises that of each record by its structure.",
        goes_to="framework",
        commands=("import-framework",),
        default="auto",
        choices=(
            *("auto", "langgraph", "openai_agents", "autogen", "crewai", "semantic_kernel", "ai_sdk"),
            *("pydantic_ai", "strands", "haystack", "llama_index", "agent_framework", "smolagents"),
        ),
    ),
    Option(
        "source",
        "choice",
        "Which program's format the input has. auto recognises that of each record by its structure.",
        goes_to="source",
        commands=("import-transcript",),
        default="auto",
        choices=(
            *("auto", "otel", "openinference", "mlflow", "langfuse", "claude_code", "codex"),
            *(
                "swe_agent",
                "mini_swe_agent",
                "openhands",
                "gemini_cli",
                "atif",
                "inspect",
                "tau_bench",
                "agentdojo",
            ),
        ),
    ),
    Option(
        "input",
        "lines",
        "File or directory to import; - reads standard input.",
        goes_to="inputs",
        commands=IMPORTING,
        metavar="PATH",
        required=True,
    ),
    Option(
        "out",
        "path",
        "The .json or .jsonl suite to write.",
        goes_to="out",
        commands=IMPORTING,
        metavar="FILE",
        required=True,
    ),
    Option(
        "dataset-id",
        "id",
        "Id of the suite; without it the name of the first input.",
        goes_to="dataset_id",
        commands=IMPORTING,
        metavar="ID",
    ),
    Option(
        "case-prefix",
        "id",
        "Text to put before each case id.",
        goes_to="case_prefix",
        commands=IMPORTING,
        metavar="TEXT",
    ),
    Option(
        "group-by",
        "text",
        "Field whose value makes records one conversation, such as metadata.session_id. Without it their "
        "own ids and repeated histories decide.",
        goes_to="group_by",
        commands=IMPORTING,
        metavar="PATH",
    ),
    Option(
        "expect",
        "path",
        "JSON or CSV of expected outputs and labels, joined by id.",
        goes_to="expect",
        commands=IMPORTING,
        metavar="FILE",
    ),
    Option(
        "strict",
        "switch",
        "Refuse what would lose something: unknown fields, empty conversations, unreadable records.",
        goes_to="strict",
        commands=IMPORTING,
        default="false",
    ),
    Option(
        "diagnostics-out",
        "path",
        "JSON Lines file for what was lost, unknown or changed, with record, field and reason.",
        goes_to="diagnostics_out",
        commands=IMPORTING,
        metavar="FILE",
    ),
    Option(
        "schema-fixtures-dir",
        "path",
        "Directory with suites, at least one of each schema version.",
        goes_to="suite_fixtures",
        commands=("contracts-check",),
        metavar="DIR",
        required=True,
    ),
    Option(
        "adapter-fixtures-dir",
        "path",
        "Directory with a directory of exports for each format.",
        goes_to="adapter_fixtures",
        commands=("contracts-check",),
        metavar="DIR",
        required=True,
    ),
    Option(
        "fixtures-dir",
        "path",
        "Directory with a directory of exports for each format.",
        goes_to="adapter_fixtures",
        commands=("adapter-conformance",),
        metavar="DIR",
        required=True,
    ),
    Option(
        "min-fixtures-per-provider",
        "count",
        "Exports that each provider and each framework must have.",
        goes_to="minimum",
        commands=("adapter-conformance", "contracts-check"),
        default="2",
        metavar="N",
    ),
)

_GENERATE: tuple[Command, ...] = ("benchmark-generate",)

BENCHMARKS: tuple[Option, ...] = (
    Option(
        "archetype",
        "choice",
        "What kind of agent the suite is for.",
        goes_to="archetype",
        commands=_GENERATE,
        choices=("support_agent", "research_agent", "ops_agent", "coding_agent"),
        required=True,
    ),
    Option(
        "cases",
        "integer",
        "Number of cases.",
        goes_to="cases",
        commands=_GENERATE,
        default="50",
        bounds=(1, 10_000),
    ),
    Option(
        "seed",
        "seed",
        "Another seed gives other cases; the same one gives the same bytes.",
        goes_to="seed",
        commands=_GENERATE,
        default="0",
    ),
    Option(
        "out",
        "path",
        "The .json or .jsonl suite to write.",
        goes_to="out",
        commands=_GENERATE,
        metavar="FILE",
        required=True,
    ),
    Option(
        "with-traces",
        "switch",
        "Give each case the trace of an agent that does everything right.",
        goes_to="with_traces",
        commands=_GENERATE,
        default="false",
    ),
)

CI_FILES = (
    *("all", "github", "gitlab", "buildkite", "circleci", "jenkins"),
    *("gitlab-pip", "buildkite-pip", "circleci-pip", "jenkins-pip"),
)
"""One name for each file of a CI platform, and `all` for those that run the image."""

STARTER_FILES: tuple[Option, ...] = (
    Option(
        "agent",
        "text",
        "The agent that CI runs: a command line, an address, `openai:MODEL` or `anthropic:MODEL`. Without "
        "one, the recorded traces of the suite are judged.",
        goes_to="agent",
        commands=("init",),
    ),
    Option(
        "ci",
        "lines",
        "CI platform to write a file for; repeatable. Its file runs the image; the one with `-pip` installs "
        "agent-eval beside the job's own Python. Default: all, or github with --action.",
        goes_to="platforms",
        commands=("init",),
        choices=CI_FILES,
    ),
    Option(
        "action",
        "text",
        "Where the action lives, pinned by a commit that you have reviewed: owner/repository@commit.",
        goes_to="action",
        commands=("init",),
    ),
    Option(
        "image",
        "text",
        "Where the image lives, best with a digest that you have reviewed: registry/name@sha256:digest.",
        goes_to="image",
        commands=("init",),
    ),
)
