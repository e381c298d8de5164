"""The inputs that run an agent; without them recorded traces are judged. A part of the table in `inputs`."""

from __future__ import annotations

from agent_eval.ci.table import Input

AGENT_INPUTS: tuple[Input, ...] = (
    Input(
        "agent-command",
        "text",
        "",
        "Run this program on every case instead of judging recorded traces: a command that reads a task as "
        "JSON and writes its answer as JSON.",
        part="agent",
    ),
    Input(
        "agent-url",
        "url",
        "",
        "The same for an agent behind an address, which is sent the task by POST.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-openai-base-url",
        "url",
        "",
        "The same for a model behind an OpenAI-compatible endpoint, named by `agent-model`; the key is "
        "`OPENAI_API_KEY` in the step's environment.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent",
        "text",
        "",
        "The same for any kind of agent, such as `openai:MODEL` or `anthropic:MODEL`.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-model",
        "text",
        "",
        "The model: the one that is asked at `agent-openai-base-url`, and for any agent the one that the "
        "evidence names.",
        part="agent",
    ),
    Input("system-prompt", "path", "", "File with the system prompt of a hosted model.", part="agent"),
    Input(
        "agent-env",
        "list",
        "",
        "Names of environment variables that the agent's program may see, one a line or separated by commas. "
        "It sees `PATH`, `HOME` and the like, and no other; the job's own token is refused.",
        in_file=False,
        part="agent",
    ),
    Input(
        "agent-header",
        "lines",
        "",
        "Headers for an agent behind an address, each from an environment variable: `NAME=VARIABLE`, one a "
        "line.",
        in_file=False,
        part="agent",
    ),
    Input(
        "setup-command",
        "script",
        "",
        "Shell commands that install what the agent needs, run once before it and in the same place, by "
        "`sh -e`. They see no variable but `PATH`, `HOME` and the like.",
        part="agent",
    ),
    Input(
        "setup-env",
        "list",
        "",
        "Names of environment variables that `setup-command` may see as well.",
        in_file=False,
        part="agent",
    ),
    Input("setup-timeout-seconds", "amount", "900", "How long `setup-command` may take.", part="agent"),
    Input("trials", "integer", "1", "How often the agent runs each case, at most 1000.", part="agent"),
    Input(
        "max-repairs",
        "count",
        "0",
        "Attempts after a failed one, each told what the judges said, until one passes.",
        part="agent",
    ),
    Input(
        "parallel",
        "parallel",
        "1",
        "Cases at once, 1 to 256; `auto` adapts to what a hosted model takes.",
        part="agent",
    ),
    Input("command-timeout-seconds", "amount", "30", "Time of each attempt.", part="agent"),
    Input("max-output-bytes", "integer", "", "What an attempt may write or answer.", part="agent"),
    Input("max-steps", "integer", "", "Answers of a model in an attempt.", part="agent"),
    Input("max-tool-calls", "integer", "", "Tool calls in an attempt.", part="agent"),
    Input("max-case-seconds", "amount", "", "Time of all attempts at a case.", part="agent"),
    Input("max-case-tokens", "integer", "", "Tokens of all attempts at a case.", part="agent"),
    Input("max-case-cost", "amount", "", "US dollars for all attempts at a case.", part="agent"),
    Input(
        "max-run-seconds",
        "amount",
        "",
        "Time of a whole suite; a suite that reaches it is not evaluated.",
        part="agent",
    ),
    Input(
        "max-run-cost",
        "amount",
        "",
        "US dollars for a whole suite; a suite that reaches it is not evaluated.",
        part="agent",
    ),
    Input(
        "strict-side-effects",
        "switch",
        "false",
        "`true` fails an attempt with a tool call for which the case has no answer.",
        part="agent",
    ),
    Input(
        "replay",
        "path",
        "",
        "File of recorded answers of tools, for calls that the case does not answer; a call that is not in "
        "it fails.",
        part="agent",
    ),
)
"""In the order of `action.yml`."""
