"""Buildkite: how it is recognised, its variables, limits, words and remedies."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option

INPUTS: tuple[Option, ...] = (
    Option(
        "buildkite-token",
        "secret",
        "API token of Buildkite with the scopes `read_builds` and `read_artifacts`, for the baseline. The "
        "job's own token lists no builds.",
        goes_to="platform.buildkite_token",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
    Option(
        "buildkite-api-url",
        "url",
        "REST address of Buildkite. Default: https://api.buildkite.com/v2.",
        goes_to="platform.buildkite_api_url",
        commands=(CI,),
        loosens="other",
        in_file=False,
    ),
)

BUILDKITE = PlatformSpec(
    name="buildkite",
    platform="agent_eval.ci.platforms.buildkite.job:Buildkite",
    detect=lambda environ: environ.get("BUILDKITE") == "true",
    comment_limit=250_000,  # An annotation takes 1 MiB, and a character up to four bytes.
    summary_limit=1 << 20,
    words=Words(change="pull request", full_report="build's artifacts"),
    inputs=INPUTS,
    commit_variable="BUILDKITE_COMMIT",
    secret_names=frozenset({"BUILDKITE_AGENT_TOKEN", "BUILDKITE_API_TOKEN"}),
    job_files=r"(.*/)?\.buildkite/.*",
    secret_prefixes=("BUILDKITE_AGENT_ACCESS_TOKEN", "BUILDKITE_AGENT_JOB_API_"),
    remedies=Remedies(
        read_runs="Give `buildkite-token` the scopes `read_builds` and `read_artifacts`.",
        write_comment="The agent may not annotate the build",
        write_from_fork="The build of a fork may not annotate",
        run_fork="Build forks in a cluster of their own, which has no secrets.",
        set_variable="Set it with the pipeline's secrets, or in an agent's `environment` hook",
    ),
)
