"""Rows of a run: what is judged, by whom, the agent, conversations, limits, and what a pack records of it."""

from __future__ import annotations

from agent_eval.config.options import REGISTRY, RUNS_AN_AGENT, SECONDS_BOUNDS, Command, Option
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS

# fmt: off
# A row is its name and kind, its help, and where its value goes: two to five lines, and not fifteen.

_READS_THE_FILE: tuple[Command, ...] = (
    *("run", "stability-check", "rejudge", "compare", "ci"),
    *("history show", "report markdown", "report html"),
)
"""Commands that do what `agent-eval.yml` says; `gate` also takes a file of a policy alone."""

RUN: tuple[Option, ...] = (
    Option("config", "path", "Configuration file. Default: agent-eval.yml, where there is one.",
           goes_to="config", commands=_READS_THE_FILE, metavar="FILE"),
    Option("set", "lines",
           "In place of a key of agent-eval.yml, such as limits.case.seconds=60; the value is YAML. "
           "Repeatable.",
           goes_to="set_values", commands=(*_READS_THE_FILE, "gate"), metavar="KEY=VALUE"),
    Option("suite", "path", "Suite, with recorded traces unless an agent is run: .json, .jsonl or .yaml.",
           goes_to="suite", commands=("stability-check",), metavar="FILE", required=True),
    Option("suite", "lines",
           "Suite, with recorded traces unless an agent is run: .json, .jsonl or .yaml, or a quoted glob. "
           "Repeatable, and the same as a SUITE without a flag.",
           goes_to="suite", commands=("run",), metavar="FILE"),
    Option("suite", "lines",
           "Suites to score, one a line: paths or globs such as `suites/*.jsonl`. Each has its own evidence "
           "pack and its own baseline; the worst outcome counts.",
           goes_to="suite", commands=("ci",), required=True),
    Option("out", "path",
           "The evidence pack to write; of several suites, the directory of their packs. Default: "
           "runs/SUITE-TIME.",
           goes_to="output.pack", commands=("run",), metavar="DIRECTORY"),
    Option("out", "path", "The evidence pack to write.", goes_to="output.pack", commands=("rejudge",),
           metavar="DIRECTORY", required=True),
    Option("judge", "list",
           "Judges, one a line or separated by commas: built-in names, entry points or `module:Class`. "
           "Default: tool_contract, policy, trajectory_step, regex, json_schema, final_output.",
           goes_to="judging.judges", commands=("run", "stability-check", "replay", "ci"),
           metavar="NAME", aliases=("judges",)),
    Option("judge", "list",
           "Judge to apply: a built-in or plug-in name, or `module:Class`. Repeat for several. Required "
           "unless the pack is of a suite of conversations, which `strict` and `llm` judge.",
           goes_to="judging.judges", commands=("rejudge",), metavar="NAME", aliases=("judges",)),
    Option("judge-config", "path", "JSON or YAML file with each judge's configuration, by judge name.",
           goes_to="judging.judge_config",
           commands=("run", "stability-check", "replay", "rejudge", "ci"),
           metavar="FILE"),
    Option("redact-pattern", "lines",
           "Text to replace by [redacted] in everything that is written: NAME=REGEX, an expression of RE2 "
           "and a name for messages. Repeat it for several.",
           goes_to="redaction.patterns", commands=("run", "rejudge", "ci"), metavar="NAME=REGEX"),
    Option("redact-field", "list",
           "Field of cases, events and answers whose value is replaced, also where a text repeats it: a "
           "name at any depth, as ssn, or with those above, as customer.ssn.",
           goes_to="redaction.fields", commands=("run", "rejudge", "ci"), metavar="NAME"),
    Option("redact-personal", "switch",
           "Replace e-mail addresses, card numbers, and the values of fields that hold the name of a person.",
           goes_to="redaction.personal", commands=("run", "rejudge", "ci"), default="false"),
    Option("executor", "choice",
           "Where recorded traces are judged or an agent is run: on this machine, or on a Dask cluster.",
           goes_to="judging.executor", commands=("run",), default="local",
           choices=("local", "dask")),
    Option("dask-scheduler", "text", "Scheduler of the cluster: tcp://host:8786.",
           goes_to="judging.dask_scheduler", commands=("run",), metavar="ADDRESS"),
    Option("case", "lines", "Only this case. Repeatable.", goes_to="cases",
           commands=("run", "stability-check", "replay"), metavar="ID"),
    Option("shard", "text",
           "Only the cases of shard K of N, which `merge` joins with the others; such as 3/8.",
           goes_to="shard", commands=("run",), metavar="K/N"),
    Option("layout", "choice", "A folder a case, or shards; auto takes shards beyond 2,000 cases.",
           goes_to="output.layout", commands=("run", "rejudge"), default="auto",
           choices=("auto", "files", "compact")),
    Option("fresh", "switch",
           "Start over: replace the evidence of an earlier run of an agent or of a registered baseline, and "
           "discard the journal of an unfinished run.",
           goes_to="output.fresh", commands=("run", "rejudge"), default="false"),
    Option("registry-path", "path",
           "The registry, whose baselines are not replaced unless --fresh is set; need not exist.",
           goes_to="output.registry", commands=("run", "rejudge"), default=REGISTRY,
           metavar="FILE"),
    Option("run-id", "text", "Name of this run; made from the time when not given.",
           goes_to="identity.run_id", commands=("run", "rejudge")),
    Option("agent-version", "text", "Version of the agent.", goes_to="identity.agent_version",
           commands=("run",), default="unknown"),
    Option("model", "text",
           "Model of the agent, which the evidence names; with `base-url` and no agent, the one that is "
           "asked there.",
           goes_to="identity.model", commands=("run", "ci"), default="unknown",
           aliases=("agent-model",)),
    Option("seed", "seed", "Seed of the run.", goes_to="identity.seed", commands=("run",),
           default="0", metavar="INTEGER"),
    Option("prompt-hash", "text",
           "Digest of the agent's prompts; that of the system prompt's file when not given.",
           goes_to="identity.prompt_hash", commands=("run", "ci")),
    Option("policy-hash", "text", "Digest of the agent's policy.", goes_to="identity.policy_hash",
           commands=("run", "ci")),
    Option("container-image", "text", "Image the agent ran in, best with its digest.",
           goes_to="identity.container_image", commands=("run", "ci")),
    Option("git-commit", "text", "Commit of the agent; read from the checkout when not given.",
           goes_to="identity.git_commit", commands=("run",)),
    Option("dependency-lock-hash", "text",
           "Digest of the agent's locked dependencies; that of the lock file in the working directory when "
           "not given.",
           goes_to="identity.dependency_lock_hash", commands=("run", "ci")),
)

_CONNECTS: tuple[Command, ...] = (*RUNS_AN_AGENT, "replay")
"""Commands that can name an agent."""
_ON_THE_COMMAND_LINE: tuple[Command, ...] = ("run", "stability-check")

_REPAIRS = "Attempts after a failed one, each told what the judges said, until one passes."

AGENT: tuple[Option, ...] = (
    Option("agent-command", "text",
           "Run this program on every case instead of judging recorded traces: a command that reads a task "
           "as JSON and writes its answer as JSON.",
           goes_to="agent.command", commands=_CONNECTS, metavar="COMMAND", aliases=("propose-command",)),
    Option("repair-command", "text", "With `agent-command`: what is run after a failed attempt instead.",
           goes_to="agent.repair_command", commands=("run", "stability-check", "replay"),
           metavar="COMMAND"),
    Option("agent-url", "url", "Run the agent behind this address, which is sent the task by POST.",
           goes_to="agent.url", commands=_CONNECTS),
    Option("agent", "text",
           "Run any kind of agent, written as its kind and what to run, such as `openai:MODEL`, or a "
           "command line, or an address. The guide to live agents lists every kind.",
           goes_to="agent.name", commands=_CONNECTS),
    Option("base-url", "url",
           "Endpoint of a hosted model or an AUI agent. Where no agent is named, it is `model` behind this "
           "OpenAI-compatible endpoint; the key is `OPENAI_API_KEY` in the environment.",
           goes_to="agent.base_url", commands=_CONNECTS, aliases=("agent-openai-base-url",)),
    Option("system-prompt", "path", "File with the system prompt of a hosted model.",
           goes_to="agent.system_prompt", commands=_CONNECTS, metavar="FILE"),
    Option("keep-agent-alive", "switch",
           "Keep the agent's program alive for a conversation: for each turn it reads a line of JSON, and "
           "writes one.",
           goes_to="agent.keep_alive", commands=_CONNECTS, default="false"),
    Option("user-prompt", "path",
           "File with the prompt of the model that plays the users of conversations, in place of the "
           "released one.",
           goes_to="agent.user_prompt", commands=RUNS_AN_AGENT, metavar="FILE"),
    Option("agent-env", "variables",
           "Names of environment variables that the agent's program may see, one a line or separated by "
           "commas. It sees `PATH`, `HOME` and the like, and no other; the job's own token is refused.",
           goes_to="agent.environment", commands=_CONNECTS, metavar="NAME"),
    Option("agent-header", "headers",
           "Headers for an agent behind an address, each from an environment variable: `NAME=VARIABLE`, one "
           "a line.",
           goes_to="agent.headers", commands=_CONNECTS, metavar="NAME=VARIABLE"),
    Option("agent-gateway", "switch",
           "What answers at `agent-url` is a gateway or load balancer that the change does not build. Its "
           "429, 502, 503 and 504, and a connection that it breaks, are then infrastructure: sent again, "
           "and no fault of the agent. Without it they are the agent's own answers.",
           goes_to="agent.gateway", commands=_CONNECTS, default="false"),
    Option("setup-command", "script",
           "Shell commands that install what the agent needs, run once before it and in the same place, by "
           "`sh -e`. They see no variable but `PATH`, `HOME` and the like.",
           goes_to="setup.command", commands=("ci",), metavar="COMMANDS"),
    Option("setup-env", "variables", "Names of environment variables that `setup-command` may see as well.",
           goes_to="setup.environment", commands=("ci",), metavar="NAME"),
    Option("setup-timeout-seconds", "amount", "How long `setup-command` may take.", goes_to="setup.seconds",
           commands=("ci",), default="900", unit="seconds", bounds=SECONDS_BOUNDS),
    Option("case-commands", "switch",
           "Run the `setup` and `teardown` commands of cases before and after each of their trials, in the "
           "agent's environment. Without it a suite that has such commands is refused.",
           goes_to="agent.case_commands", commands=RUNS_AN_AGENT, default="false"),
    Option("case-command-timeout-seconds", "amount", "How long a `setup` or `teardown` command may take.",
           goes_to="agent.case_command_seconds", commands=RUNS_AN_AGENT, default="60", unit="seconds",
           bounds=SECONDS_BOUNDS),
    Option("trials", "integer",
           "How often the agent runs each case, at most 1000. More trials show smaller losses.",
           goes_to="agent.trials", commands=("run", "ci"), default="1", bounds=(1, 1000),
           metavar="N", aliases=("loops",), recorded="trials"),
    Option("max-repairs", "count", _REPAIRS, goes_to="agent.max_repairs",
           commands=("run", "stability-check", "ci"), default="0",
           metavar="N", recorded="max_repairs"),
    Option("parallel", "parallel", "Cases at once, 1 to 256; `auto` adapts to what a hosted model takes.",
           goes_to="agent.parallel", commands=_CONNECTS, default="1", metavar="N|auto"),
    Option("strict-side-effects", "switch",
           "Fail an attempt with a tool call for which the case has no answer.",
           goes_to="agent.strict_side_effects", commands=RUNS_AN_AGENT, default="false",
           recorded="strict_side_effects"),
    Option("share-expected-output", "switch",
           "Hand the expected output to the agent; one that gets the answer is not evaluated.",
           goes_to="agent.share_expected_output", commands=_ON_THE_COMMAND_LINE, default="false",
           recorded="share_expected_output"),
    Option("tools", "text", "Live tools: an address, or `module:function`.", goes_to="agent.tools",
           commands=("run", "stability-check", "replay"), metavar="TOOLS",
           recorded="tool_server"),
    Option("record", "path", "Call live tools and write what they answer to this file.",
           goes_to="agent.record", commands=_ON_THE_COMMAND_LINE, metavar="FILE"),
    Option("replay", "path",
           "File of recorded answers of tools, for calls that the case does not answer; a call that is not "
           "in it fails.",
           goes_to="agent.replay", commands=_CONNECTS, metavar="FILE"),
    Option("update", "path", "Call live tools and refresh this file of recorded answers.",
           goes_to="agent.update", commands=_ON_THE_COMMAND_LINE, metavar="FILE"),
    Option("resume", "switch", "Go on with what an ended run has finished.", goes_to="agent.resume",
           commands=_ON_THE_COMMAND_LINE, default="false"),
)

_KEEPS_REPLIES: tuple[Command, ...] = ("run", "rejudge", "stability-check")
"""Of these, the commands that may use a file of kept replies: one that a change brings along never gates."""

_ASKS: tuple[Command, ...] = ("run", "rejudge", "replay", "stability-check", "ci")
"""Commands that may ask a model."""

LLM: tuple[Option, ...] = (
    Option("llm-key", "secret",
           "API key of the model that judges and plays users. Default: `LLM_API_KEY`, else the provider's "
           "own variable.",
           goes_to="judging.llm.key", commands=_ASKS, metavar="KEY"),
    Option("provider", "choice",
           "Provider of the model that judges and plays users. `scripted` replies from a file, without "
           "network.",
           goes_to="judging.llm.provider", commands=_ASKS, default=DEFAULT_PROVIDER,
           choices=tuple(MODELS)),
    Option("llm-model", "text",
           "Name of that model. Default: the suite's `judgeModel`, else the provider's default.",
           goes_to="judging.llm.model", commands=_ASKS, metavar="NAME"),
    Option("llm-base-url", "url", "Endpoint of that model, where it is not the provider's own.",
           goes_to="judging.llm.base_url", commands=_ASKS),
    Option("llm-script", "path", "File with the replies of a `scripted` model.", goes_to="judging.llm.script",
           commands=_ASKS, metavar="FILE"),
    Option("judge-votes", "integer",
           "Votes of the `llm` judge on each criterion, at most 9. 2 asks twice, and a third time where the "
           "two differ.",
           goes_to="judging.llm.votes", commands=_ASKS, default="1", bounds=(1, 9), metavar="N"),
    Option("judge-agreement", "path",
           "Record of `agent-eval judge-agreement`: advisory criteria that agreed with people count.",
           goes_to="judging.llm.agreement", commands=_ASKS, metavar="FILE"),
    Option("reuse-rulings", "path",
           "Evidence pack whose rulings of LLM judges are used again, where the same judge is asked the "
           "same. `rejudge` uses those of its own pack, and `ci` those of the baseline.",
           goes_to="judging.llm.reuse", commands=("rejudge",), metavar="PACK"),
    Option("llm-cassette", "path",
           "File of kept replies of that model: what it has is not asked again, and new replies are added.",
           goes_to="judging.llm.cassette", commands=_KEEPS_REPLIES, metavar="FILE"),
    Option("llm-cassette-mode", "choice",
           "auto asks the model what the file does not have, record asks it everything, replay nothing.",
           goes_to="judging.llm.cassette_mode", commands=_KEEPS_REPLIES, default="auto",
           choices=("auto", "record", "replay")),
    Option("run", "lines", "Evidence pack, or archive of one, with the judge's rulings. Repeatable.",
           goes_to="runs", commands=("judge-agreement",), metavar="PACK", required=True),
    Option("out", "path",
           "Write the record to this file, for `--judge-agreement` of later runs; `-` for stdout.",
           goes_to="out", commands=("judge-agreement",), metavar="FILE"),
)

CONVERSATIONS: tuple[Option, ...] = (
    Option("test", "list",
           "Only tests, or cases, whose name has one of these texts, in any letter case. Separated by "
           "commas.",
           goes_to="tests", commands=("run", "plan"), metavar="TEXT"),
    Option("tag", "list", "Only tests, or cases, with one of these tags. Separated by commas.",
           goes_to="tags", commands=("run", "plan"), metavar="TAG"),
    Option("pass-threshold", "amount",
           "Percent of the weights of a case's strict and LLM evaluations, together, that suffice to pass.",
           goes_to="judging.pass_threshold", commands=("run", "rejudge", "stability-check", "ci"),
           default="100", unit="percent", bounds=(0.001, 100)),
    Option("debug", "switch", "Show the agent's raw responses in the reports on conversations.",
           goes_to="output.debug", commands=("run",), default="false"),
    Option("suite-key-env", "variables",
           "Environment variables that a suite of conversations may name for its API key, as `${NAME}`. "
           "Default: `AUI_API_KEY`.",
           goes_to="agent.key_variables", commands=RUNS_AN_AGENT, metavar="NAME"),
    Option("loops", "integer", "How often each test would be run.", goes_to="loops", commands=("plan",),
           default="1", bounds=(1, 1000), metavar="N"),
    Option("provider", "choice", "Provider of the model that would judge and play users.", goes_to="provider",
           commands=("plan",), default=DEFAULT_PROVIDER, choices=tuple(MODELS)),
    Option("llm-model", "text",
           "Name of that model. Default: the suite's `judgeModel`, else the provider's default.",
           goes_to="llm_model", commands=("plan",), metavar="NAME"),
    Option("price", "list",
           "Price of a model that has no published one, in US dollars for a million tokens of input and "
           "output, as `small=0.25/2`.",
           goes_to="prices", commands=("plan",), metavar="MODEL=INPUT/OUTPUT"),
    Option("port", "count", "Port of this machine; 0 for a free one.", goes_to="port",
           commands=("dev demo-agent",), default="8600", bounds=(0, 65_535), metavar="N"),
    Option("defect", "list",
           "Make the agents worse in this way; `list` lists the names. Repeatable.",
           goes_to="defects", commands=("dev demo-agent",), metavar="NAME"),
)

LIMITS: tuple[Option, ...] = (
    Option("command-timeout-seconds", "amount", "Time of each attempt.", goes_to="limits.attempt.seconds",
           commands=RUNS_AN_AGENT, default="30", unit="seconds", bounds=SECONDS_BOUNDS,
           recorded="attempt_limits.seconds"),
    Option("max-output-bytes", "integer", "What an attempt may write or answer.",
           goes_to="limits.attempt.output_bytes", commands=RUNS_AN_AGENT, unit="bytes",
           recorded="attempt_limits.output_bytes"),
    Option("max-steps", "integer", "Answers of a model in an attempt.", goes_to="limits.attempt.steps",
           commands=RUNS_AN_AGENT, unit="steps", recorded="attempt_limits.steps"),
    Option("max-tool-calls", "integer", "Tool calls in an attempt.", goes_to="limits.attempt.tool_calls",
           commands=RUNS_AN_AGENT, unit="calls", recorded="attempt_limits.tool_calls"),
    Option("max-attempt-tokens", "integer", "Tokens of an attempt, as reported.",
           goes_to="limits.attempt.tokens", commands=RUNS_AN_AGENT, unit="tokens",
           recorded="attempt_limits.tokens"),
    Option("max-case-seconds", "amount", "Time of all attempts at a case.", goes_to="limits.trial.seconds",
           commands=RUNS_AN_AGENT, unit="seconds", bounds=SECONDS_BOUNDS, recorded="case_limits.seconds"),
    Option("max-case-steps", "integer", "Messages and tool calls of the agent in all attempts at a case.",
           goes_to="limits.trial.steps", commands=RUNS_AN_AGENT, unit="steps", recorded="case_limits.steps"),
    Option("max-case-tool-calls", "integer", "Tool calls in all attempts at a case.",
           goes_to="limits.trial.tool_calls", commands=RUNS_AN_AGENT, unit="calls",
           recorded="case_limits.tool_calls"),
    Option("max-case-tokens", "integer", "Tokens of all attempts at a case.", goes_to="limits.trial.tokens",
           commands=RUNS_AN_AGENT, unit="tokens", recorded="case_limits.tokens"),
    Option("max-case-cost", "amount", "US dollars for all attempts at a case.",
           goes_to="limits.trial.cost_usd", commands=RUNS_AN_AGENT, unit="USD",
           recorded="case_limits.cost_usd"),
    Option("max-run-seconds", "amount",
           "Time of a whole run, which stops cleanly when it reaches that and can be resumed. In the CI "
           "job, the first run has half of it, and what is run again the other half; a first run that is "
           "cut short is not evaluated.",
           goes_to="limits.run.seconds", commands=RUNS_AN_AGENT, unit="seconds", bounds=SECONDS_BOUNDS),
    Option("max-run-cost", "amount",
           "US dollars for a whole run, which stops cleanly when it reaches that and can be resumed. In the "
           "CI job, the first run has half of it, and what is run again the other half; a first run that is "
           "cut short is not evaluated.",
           goes_to="limits.run.cost_usd", commands=RUNS_AN_AGENT, unit="USD"),
    Option("price", "list",
           "Price of a model that has no published one, in US dollars for a million tokens of input and "
           "output, as `small=0.25/2`. Limits of cost count by it.",
           goes_to="judging.llm.prices", commands=RUNS_AN_AGENT, metavar="MODEL=INPUT/OUTPUT"),
)
