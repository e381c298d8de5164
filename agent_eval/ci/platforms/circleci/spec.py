"""CircleCI: how it is recognised, its variables, limits, words and remedies."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option

INPUTS: tuple[Option, ...] = (
    Option(
        "circleci-token",
        "secret",
        "Personal API token of CircleCI, from a restricted context, for the baseline. Jobs have no token of "
        "their own.",
        goes_to="platform.circleci_token",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
    Option(
        "circleci-project-slug",
        "text",
        "The project as CircleCI's API names it; give `<< pipeline.project.slug >>`.",
        goes_to="platform.circleci_project_slug",
        commands=(CI,),
        loosens="other",
        in_file=False,
    ),
    Option(
        "circleci-pull-request",
        "text",
        "Address of the pull request or merge request, for the comment. Default: CIRCLE_PULL_REQUEST, which "
        "not every kind of project has.",
        goes_to="platform.circleci_pull_request",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
    Option(
        "circleci-api-url",
        "url",
        "REST address of CircleCI. Default: https://circleci.com/api/v2.",
        goes_to="platform.circleci_api_url",
        commands=(CI,),
        loosens="other",
        in_file=False,
    ),
)

CIRCLECI = PlatformSpec(
    name="circleci",
    platform="agent_eval.ci.platforms.circleci.job:CircleCI",
    detect=lambda environ: environ.get("CIRCLECI") == "true",
    comment_limit=65_536,
    summary_limit=1 << 20,
    job_files=r"(.*/)?\.circleci/.*",
    shows_tests=True,
    words=Words(change="pull request", full_report="job's artifacts"),
    inputs=INPUTS,
    commit_variable="CIRCLE_SHA1",
    secret_names=frozenset({"CIRCLE_TOKEN", "CIRCLE_OIDC_TOKEN", "CIRCLE_OIDC_TOKEN_V2", "CIRCLECI_TOKEN"}),
    remedies=Remedies(
        read_runs="Set `circleci-token` to a personal token of an account that may read the project, and "
        "`circleci-project-slug` to `<< pipeline.project.slug >>`.",
        run_fork="Leave `Pass secrets to builds from forked pull requests` off.",
        write_comment="The token may not write comments: give it the right to, on the repository",
        set_variable="Set it in a context, or in the project's environment variables",
    ),
)
