"""GitLab CI: how it is recognised, its variables, limits, words and remedies."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option

INPUTS: tuple[Option, ...] = (
    Option(
        "gitlab-token",
        "secret",
        "Token of GitLab: the scope `read_api` reads the baseline, `api` also writes the note on the merge "
        "request and the drift issue. Default: CI_JOB_TOKEN, which may read earlier jobs on GitLab Premium, "
        "and write neither.",
        goes_to="platform.gitlab_token",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
    Option(
        "gitlab-api-url",
        "url",
        "REST address of GitLab. Default: CI_API_V4_URL, which GitLab sets.",
        goes_to="platform.gitlab_api_url",
        commands=(CI,),
        loosens="other",
        in_file=False,
    ),
    Option(
        "baseline-job",
        "text",
        "Name of the GitLab job whose artifacts hold the baseline. Default: this job's name.",
        goes_to="platform.baseline_job",
        commands=(CI,),
        loosens="other",
    ),
)

NOTE_LIMIT = 250_000
"""Characters of a note: a quarter of what GitLab takes, which leaves room for escaped lines."""

GITLAB = PlatformSpec(
    name="gitlab",
    platform="agent_eval.ci.platforms.gitlab.job:GitLab",
    detect=lambda environ: environ.get("GITLAB_CI") == "true",
    comment_limit=NOTE_LIMIT,
    summary_limit=1 << 20,
    comments_elsewhere="agent_eval.ci.platforms.gitlab.hosted:comments_on",
    shows_tests=True,
    words=Words(change="merge request", full_report="job's artifacts"),
    inputs=INPUTS,
    commit_variable="CI_COMMIT_SHA",
    secret_names=frozenset(
        {
            "CI_JOB_TOKEN",
            "CI_BUILD_TOKEN",
            "CI_REPOSITORY_URL",  # It holds the job's token.
            "CI_REGISTRY_PASSWORD",
            "CI_DEPLOY_PASSWORD",
            "CI_DEPENDENCY_PROXY_PASSWORD",
            "GITLAB_TOKEN",
            "GITLAB_PRIVATE_TOKEN",
        }
    ),
    job_files=r"(.*/)?\.gitlab/.*|.*gitlab-ci[^/]*",
    secret_prefixes=("CI_JOB_JWT",),
    remedies=Remedies(
        read_runs="Set `gitlab-token` (AGENT_EVAL_GITLAB_TOKEN) to a token with the scope `read_api`: the "
        "job's own token reads earlier jobs on GitLab Premium only, and only where the project's job token "
        "permissions allow it.",
        write_comment="The token may not write notes: it needs the scope `api` and the role Reporter",
        write_issue="The token may not read and write issues: it needs the scope `api` and the role Reporter",
        write_from_fork="The job of a fork has no token for this project",
        run_fork="Run the pipeline in the fork: there it has none of this project's variables.",
        set_variable="Set it under Settings > CI/CD > Variables; protected variables are absent in the "
        "pipelines of merge requests",
    ),
)
