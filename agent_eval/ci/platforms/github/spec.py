"""GitHub Actions: how it is recognised, its variables, limits, words and remedies."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option
from agent_eval.config.table import options_of

USUAL_AUTHOR = "github-actions[bot]"
"""The author of what is written with a workflow's own token."""

INPUTS: tuple[Option, ...] = (
    Option(
        "github-token",
        "secret",
        "Token for the baseline artifact and the comment.",
        goes_to="platform.github_token",
        commands=(CI,),
        action_default="${{ github.token }}",
        in_file=False,
    ),
    Option(
        "github-api-url",
        "url",
        "REST address of GitHub, for GitHub Enterprise. Default: GITHUB_API_URL, which the runner sets.",
        goes_to="platform.github_api_url",
        commands=(CI,),
        in_file=False,
    ),
    Option(
        "baseline-workflow",
        "text",
        "File name or id of the workflow whose runs may be the baseline. Default: this workflow.",
        goes_to="platform.baseline_workflow",
        commands=(CI,),
    ),
    Option(
        "upload-evidence",
        "switch",
        "Upload the evidence archive as the artifact `baseline-artifact` from within this step, not by a "
        "later one.",
        goes_to="platform.upload_evidence",
        commands=(CI,),
        default="false",
    ),
    Option(
        "comment-author",
        "text",
        "Login under which the token writes comments and issues, for tokens that cannot say it themselves. "
        "Default: asked from GitHub, else `github-actions[bot]`.",
        goes_to="platform.comment_author",
        commands=(CI,),
    ),
)

ACTION_INPUTS: tuple[Option, ...] = (*options_of(CI), *INPUTS)
"""Inputs of the action, in the order of `action.yml`."""

GITHUB = PlatformSpec(
    name="github",
    platform="agent_eval.ci.platforms.github.job:GitHub",
    detect=lambda environ: environ.get("GITHUB_ACTIONS") == "true",
    comment_limit=65_536,
    summary_limit=1 << 20,
    comments_elsewhere="agent_eval.ci.platforms.github.api:comments_on",
    alert_boxes=True,
    words=Words(change="pull request", full_report="job summary"),
    inputs=INPUTS,
    input_prefix="INPUT_",
    reporter="agent_eval.ci.platforms.github.step:GitHubStep",
    workspace_variable="GITHUB_WORKSPACE",
    secret_names=frozenset(
        {"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "RUNNER_TOKEN"}
    ),
    secret_prefixes=("INPUT_", "ACTIONS_"),
    job_files=r"(.*/)?\.github/.*|(.*/)?action\.ya?ml",
    command_files=("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
    remedies=Remedies(
        read_runs="Grant the job `actions: read`, and check `baseline-workflow` where it is set.",
        write_comment="The token may not write comments: grant the job `pull-requests: write`",
        write_from_fork="A pull request from a fork runs with a token that may only read",
        run_fork="Use `on: pull_request`: there a fork's code has no secrets and a token that may only read.",
        set_variable="Set it in the step's `env`; a fork's pull request has no secrets",
    ),
)
