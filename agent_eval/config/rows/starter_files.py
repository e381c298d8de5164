"""Rows of `init`, which writes the files to start from."""

from __future__ import annotations

from agent_eval.config.options import Option

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
