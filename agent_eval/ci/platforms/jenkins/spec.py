"""Jenkins: how it is recognised, its variables, limits, words and remedies."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option

INPUTS: tuple[Option, ...] = (
    Option(
        "jenkins-user",
        "text",
        "Account of Jenkins that reads the baseline: it may read the base branch's job and its artifacts.",
        goes_to="platform.jenkins_user",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
    Option(
        "jenkins-token",
        "secret",
        "API token of that account. Without it the job asks as anonymous.",
        goes_to="platform.jenkins_token",
        commands=(CI,),
        loosens="nothing",
        in_file=False,
    ),
)

JENKINS = PlatformSpec(
    name="jenkins",
    platform="agent_eval.ci.platforms.jenkins.job:Jenkins",
    detect=lambda environ: bool(environ.get("JENKINS_URL") and environ.get("JOB_URL")),
    comment_limit=65_536,
    summary_limit=1 << 20,
    job_files=r".*Jenkinsfile[^/]*",
    shows_tests=True,
    words=Words(change="change", full_report="build's artifacts"),
    inputs=INPUTS,
    commit_variable="GIT_COMMIT",
    secret_names=frozenset({"JENKINS_API_TOKEN", "JENKINS_SECRET", "JENKINS_AGENT_SECRET"}),
    remedies=Remedies(
        read_runs="Give `jenkins-user` and `jenkins-token` of an account that may read the base branch's "
        "job: Jenkins answers 404 also where an account may not look.",
        run_fork="Set the branch source to trust no fork, so that the Jenkinsfile comes from the target.",
        set_variable="Bind it with `withCredentials`, or set it in `environment`",
    ),
)
