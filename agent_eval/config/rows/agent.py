"""Rows of the agent: which one, what it may see, and how it is run."""

from __future__ import annotations

from agent_eval.config.options import CI, RUNS_AN_AGENT, Option

AGENT: tuple[Option, ...] = (
    Option(
        "agent-command",
        "text",
        "Run this program on every case instead of judging recorded traces: a command that reads a task "
        "as JSON and writes its answer as JSON.",
        goes_to="agent.command",
        commands=(CI,),
    ),
    Option(
        "agent-url",
        "url",
        "The same for an agent behind an address, which is sent the task by POST.",
        goes_to="agent.url",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "agent-openai-base-url",
        "url",
        "The same for a model behind an OpenAI-compatible endpoint, named by `agent-model`; the key is "
        "`OPENAI_API_KEY` in the step's environment.",
        goes_to="agent.base_url",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "agent",
        "text",
        "The same for any kind of agent, such as `openai:MODEL` or `anthropic:MODEL`.",
        goes_to="agent.name",
        commands=RUNS_AN_AGENT,
        in_file=False,
    ),
    Option(
        "agent-model",
        "text",
        "The model: the one that is asked at `agent-openai-base-url`, and for any agent the one that the "
        "evidence names.",
        goes_to="agent.model",
        commands=(CI,),
    ),
    Option(
        "system-prompt",
        "path",
        "File with the system prompt of a hosted model.",
        goes_to="agent.system_prompt",
        commands=RUNS_AN_AGENT,
    ),
    Option(
        "agent-env",
        "list",
        "Names of environment variables that the agent's program may see, one a line or separated by "
        "commas. It sees `PATH`, `HOME` and the like, and no other; the job's own token is refused.",
        goes_to="agent.environment",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "agent-header",
        "lines",
        "Headers for an agent behind an address, each from an environment variable: `NAME=VARIABLE`, one "
        "a line.",
        goes_to="agent.headers",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "setup-command",
        "script",
        "Shell commands that install what the agent needs, run once before it and in the same place, by "
        "`sh -e`. They see no variable but `PATH`, `HOME` and the like.",
        goes_to="setup.command",
        commands=(CI,),
    ),
    Option(
        "setup-env",
        "list",
        "Names of environment variables that `setup-command` may see as well.",
        goes_to="setup.environment",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "setup-timeout-seconds",
        "amount",
        "How long `setup-command` may take.",
        goes_to="setup.seconds",
        commands=(CI,),
        default="900",
        unit="seconds",
    ),
    Option(
        "trials",
        "integer",
        "How often the agent runs each case, at most 1000.",
        goes_to="agent.trials",
        commands=RUNS_AN_AGENT,
        default="1",
    ),
    Option(
        "max-repairs",
        "count",
        "Attempts after a failed one, each told what the judges said, until one passes.",
        goes_to="agent.max_repairs",
        commands=RUNS_AN_AGENT,
        default="0",
    ),
    Option(
        "parallel",
        "parallel",
        "Cases at once, 1 to 256; `auto` adapts to what a hosted model takes.",
        goes_to="agent.parallel",
        commands=RUNS_AN_AGENT,
        default="1",
    ),
    Option(
        "strict-side-effects",
        "switch",
        "`true` fails an attempt with a tool call for which the case has no answer.",
        goes_to="agent.strict_side_effects",
        commands=RUNS_AN_AGENT,
        default="false",
    ),
    Option(
        "replay",
        "path",
        "File of recorded answers of tools, for calls that the case does not answer; a call that is not "
        "in it fails.",
        goes_to="agent.replay",
        commands=RUNS_AN_AGENT,
    ),
)
