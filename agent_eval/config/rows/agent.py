"""Rows of the agent: which one, what it may see, and how it is run."""

from __future__ import annotations

from agent_eval.config.options import RUNS_AN_AGENT, SECONDS_BOUNDS, Command, Option

_CONNECTS: tuple[Command, ...] = (*RUNS_AN_AGENT, "replay-exec")
"""Commands that can name an agent."""
_ON_THE_COMMAND_LINE: tuple[Command, ...] = ("run", "run-loop", "stability-check")

_REPAIRS = "Attempts after a failed one, each told what the judges said, until one passes."

AGENT: tuple[Option, ...] = (
    Option(
        "agent-command",
        "text",
        "Run this program on every case instead of judging recorded traces: a command that reads a task as "
        "JSON and writes its answer as JSON.",
        goes_to="agent.command",
        commands=_CONNECTS,
        metavar="COMMAND",
        aliases=("propose-command",),
    ),
    Option(
        "repair-command",
        "text",
        "With `agent-command`: what is run after a failed attempt instead.",
        goes_to="agent.repair_command",
        commands=("run", "run-loop", "stability-check", "replay-exec"),
        metavar="COMMAND",
    ),
    Option(
        "agent-url",
        "url",
        "Run the agent behind this address, which is sent the task by POST.",
        goes_to="agent.url",
        commands=_CONNECTS,
        in_file=False,
    ),
    Option(
        "agent",
        "text",
        "Run any kind of agent, written as its kind and what to run, such as `openai:MODEL`, or a command "
        "line, or an address. The guide to live agents lists every kind.",
        goes_to="agent.name",
        commands=_CONNECTS,
        in_file=False,
    ),
    Option(
        "base-url",
        "url",
        "Endpoint of a hosted model or an AUI agent. Where no agent is named, it is `model` behind this "
        "OpenAI-compatible endpoint; the key is `OPENAI_API_KEY` in the environment.",
        goes_to="agent.base_url",
        commands=_CONNECTS,
        aliases=("agent-openai-base-url",),
        in_file=False,
    ),
    Option(
        "system-prompt",
        "path",
        "File with the system prompt of a hosted model.",
        goes_to="agent.system_prompt",
        commands=_CONNECTS,
        metavar="FILE",
    ),
    Option(
        "keep-agent-alive",
        "switch",
        "Keep the agent's program alive for a conversation: for each turn it reads a line of JSON, and "
        "writes one.",
        goes_to="agent.keep_alive",
        commands=_CONNECTS,
        default="false",
    ),
    Option(
        "user-prompt",
        "path",
        "File with the prompt of the model that plays the users of conversations, in place of the released "
        "one.",
        goes_to="agent.user_prompt",
        commands=RUNS_AN_AGENT,
        metavar="FILE",
    ),
    Option(
        "agent-env",
        "variables",
        "Names of environment variables that the agent's program may see, one a line or separated by commas. "
        "It sees `PATH`, `HOME` and the like, and no other; the job's own token is refused.",
        goes_to="agent.environment",
        commands=_CONNECTS,
        metavar="NAME",
        in_file=False,
    ),
    Option(
        "agent-header",
        "headers",
        "Headers for an agent behind an address, each from an environment variable: `NAME=VARIABLE`, one a "
        "line.",
        goes_to="agent.headers",
        commands=_CONNECTS,
        metavar="NAME=VARIABLE",
        in_file=False,
    ),
    Option(
        "agent-gateway",
        "switch",
        "What answers at `agent-url` is a gateway or load balancer that the change does not build. Its 429, "
        "502, 503 and 504, and a connection that it breaks, are then infrastructure: sent again, and no "
        "fault of the agent. Without it they are the agent's own answers.",
        goes_to="agent.gateway",
        commands=_CONNECTS,
        default="false",
    ),
    Option(
        "setup-command",
        "script",
        "Shell commands that install what the agent needs, run once before it and in the same place, by "
        "`sh -e`. They see no variable but `PATH`, `HOME` and the like.",
        goes_to="setup.command",
        commands=("ci",),
        metavar="COMMANDS",
    ),
    Option(
        "setup-env",
        "variables",
        "Names of environment variables that `setup-command` may see as well.",
        goes_to="setup.environment",
        commands=("ci",),
        metavar="NAME",
        in_file=False,
    ),
    Option(
        "setup-timeout-seconds",
        "amount",
        "How long `setup-command` may take.",
        goes_to="setup.seconds",
        commands=("ci",),
        default="900",
        unit="seconds",
        bounds=SECONDS_BOUNDS,
    ),
    Option(
        "case-commands",
        "switch",
        "Run the `setup` and `teardown` commands of cases before and after each of their trials, in the "
        "agent's environment. Without it a suite that has such commands is refused.",
        goes_to="agent.case_commands",
        commands=RUNS_AN_AGENT,
        default="false",
        in_file=False,
    ),
    Option(
        "case-command-timeout-seconds",
        "amount",
        "How long a `setup` or `teardown` command may take.",
        goes_to="agent.case_command_seconds",
        commands=RUNS_AN_AGENT,
        default="60",
        unit="seconds",
        bounds=SECONDS_BOUNDS,
    ),
    Option(
        "trials",
        "integer",
        "How often the agent runs each case, at most 1000. More trials show smaller losses.",
        goes_to="agent.trials",
        commands=("run", "run-loop", "ci"),
        default="1",
        bounds=(1, 1000),
        metavar="N",
        aliases=("loops",),
        recorded="trials",
    ),
    Option(
        "max-repairs",
        "count",
        _REPAIRS,
        goes_to="agent.max_repairs",
        commands=("run", "ci"),
        default="0",
        metavar="N",
        recorded="max_repairs",
    ),
    Option(
        "max-repairs",
        "count",
        _REPAIRS,
        goes_to="agent.max_repairs",
        commands=("run-loop", "stability-check"),
        default="2",
        metavar="N",
        recorded="max_repairs",
    ),
    Option(
        "parallel",
        "parallel",
        "Cases at once, 1 to 256; `auto` adapts to what a hosted model takes.",
        goes_to="agent.parallel",
        commands=_CONNECTS,
        default="1",
        metavar="N|auto",
    ),
    Option(
        "strict-side-effects",
        "switch",
        "Fail an attempt with a tool call for which the case has no answer.",
        goes_to="agent.strict_side_effects",
        commands=RUNS_AN_AGENT,
        default="false",
        recorded="strict_side_effects",
    ),
    Option(
        "share-expected-output",
        "switch",
        "Hand the expected output to the agent; one that gets the answer is not evaluated.",
        goes_to="agent.share_expected_output",
        commands=_ON_THE_COMMAND_LINE,
        default="false",
        recorded="share_expected_output",
    ),
    Option(
        "tools",
        "text",
        "Live tools: an address, or `module:function`.",
        goes_to="agent.tools",
        commands=("run", "run-loop", "stability-check", "replay-exec"),
        metavar="TOOLS",
        recorded="tool_server",
    ),
    Option(
        "record",
        "path",
        "Call live tools and write what they answer to this file.",
        goes_to="agent.record",
        commands=_ON_THE_COMMAND_LINE,
        metavar="FILE",
    ),
    Option(
        "replay",
        "path",
        "File of recorded answers of tools, for calls that the case does not answer; a call that is not in "
        "it fails.",
        goes_to="agent.replay",
        commands=_CONNECTS,
        metavar="FILE",
    ),
    Option(
        "update",
        "path",
        "Call live tools and refresh this file of recorded answers.",
        goes_to="agent.update",
        commands=_ON_THE_COMMAND_LINE,
        metavar="FILE",
    ),
    Option(
        "resume",
        "switch",
        "Go on with what an ended run has finished.",
        goes_to="agent.resume",
        commands=_ON_THE_COMMAND_LINE,
        default="false",
    ),
)
