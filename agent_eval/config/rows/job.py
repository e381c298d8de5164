"""Rows of the CI job: where the baseline comes from, and where the result goes."""

from __future__ import annotations

from agent_eval.config.options import Option

JOB: tuple[Option, ...] = (
    Option(
        "baseline",
        "text",
        "`auto` finds the evidence of an earlier run, `none` compares with nothing, anything else is the "
        "path of an evidence pack or archive, or the name of a baseline in the registry.",
        goes_to="baseline",
        commands=("ci",),
        loosens="other",
        default="auto",
    ),
    Option(
        "baseline-artifact",
        "text",
        "Name under which the evidence archive is uploaded and found again. Give each of several evaluations "
        "its own.",
        goes_to="baseline_artifact",
        commands=("ci",),
        loosens="other",
        default="agent-eval-evidence",
    ),
    Option(
        "base-branches",
        "list",
        "Branches beside the default one whose commits count as reviewed, each by its whole name. It counts "
        "only in the default branch's `agent-eval.yml`.",
        goes_to="base_branches",
        commands=("ci",),
        loosens="other",
    ),
    Option(
        "baseline-run-id",
        "integer",
        "Take the baseline from exactly this run.",
        goes_to="baseline_run_id",
        commands=("ci",),
        loosens="other",
    ),
    Option(
        "evidence",
        "path",
        "Judge nothing: decide on the evidence of the suites that earlier jobs of this run made, such as the "
        "merged shards of one: a pack, or a directory or archive of packs.",
        goes_to="evidence",
        commands=("ci",),
        loosens="other",
        in_file=False,
    ),
    Option(
        "report-run-id",
        "integer",
        "Run nothing: report on the sealed evidence that this finished run of a change left, by the rules of "
        "the base branch. For the second job, which comments on changes from forks.",
        goes_to="report_run_id",
        commands=("ci",),
        loosens="other",
        in_file=False,
    ),
    Option(
        "baseline-runs",
        "count",
        "Hold the suite against so many of the base branch's last runs in its history, red ones included, "
        "and not against one alone; until each case has 20 trials. Less than 4: against one run.",
        goes_to="baseline_runs",
        commands=("ci",),
        loosens="other",
        default="0",
        bounds=(0, 100),
    ),
    Option(
        "drift-release",
        "text",
        "Hold the base branch's last runs against this release, in scheduled runs and those started by hand: "
        "the path of its evidence (a pack, an archive, or a directory of these: several runs of a suite know "
        "its rate better), or the name of a baseline in the registry. Empty: nothing is held.",
        goes_to="drift_release",
        commands=("ci",),
        loosens="other",
    ),
    Option(
        "drift-issue",
        "choice",
        "Where the base branch lost quality since `drift-release`: `auto` opens one issue in such a run, "
        "keeps it up to date and closes it when the loss is mended, `always` does so in every run of the "
        "base branch, `never` writes none.",
        goes_to="drift_issue",
        commands=("ci",),
        loosens="later",
        default="auto",
        choices=("always", "auto", "never"),
    ),
    Option(
        "release-agent",
        "text",
        "The released agent, run again while a loss since `drift-release` is shown, to tell a model that "
        "moved from code that did: `auto` takes the agent of the release's commit, built in a worktree where "
        "it is a program; anything else is written as for `agent`. Empty: it is not run.",
        goes_to="release_agent",
        commands=("ci",),
        loosens="other",
        in_file=False,
    ),
    Option(
        "allow-fork-with-secrets",
        "switch",
        "Evaluate the code of a fork even in a job that has this repository's secrets and token. Only for "
        "jobs that a person approves one by one.",
        goes_to="allow_fork_with_secrets",
        commands=("ci",),
        loosens="on",
        default="false",
        in_file=False,
    ),
    Option(
        "out",
        "path",
        "Directory for the evidence packs, the archive and the report; what an earlier run of this job "
        "left there is replaced, anything else is not touched.",
        goes_to="out",
        commands=("ci",),
        loosens="nothing",
        default="agent-eval-out",
    ),
    Option(
        "report-title",
        "text",
        "Heading of the comment and the report.",
        goes_to="report_title",
        commands=("ci",),
        loosens="nothing",
        default="Agent evaluation",
    ),
    Option(
        "html-report",
        "switch",
        "Also write the report as one HTML file, to upload and open in a browser: both runs side by side, "
        "step by step.",
        goes_to="html_report",
        commands=("ci",),
        loosens="nothing",
        default="true",
    ),
    Option(
        "comment",
        "choice",
        "`auto` writes one comment on the change and keeps it up to date, `never` writes none.",
        goes_to="comment",
        commands=("ci",),
        loosens="later",
        default="auto",
        choices=("auto", "never"),
    ),
    Option(
        "junit",
        "choice",
        "Write each suite's verdicts as JUnit XML into the directory `junit` of `out`: `auto` where the "
        "platform shows test results, `always` or `never`.",
        goes_to="junit",
        commands=("ci",),
        loosens="nothing",
        default="auto",
        choices=("auto", "always", "never"),
    ),
    Option(
        "comment-id",
        "text",
        "Tells several evaluations of one change apart: each id has its own comment. Letters, "
        "digits, dots, hyphens and underscores, at most 64.",
        goes_to="comment_id",
        commands=("ci",),
        loosens="nothing",
        default="default",
    ),
)
