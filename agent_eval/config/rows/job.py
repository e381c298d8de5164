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
        default="auto",
    ),
    Option(
        "baseline-artifact",
        "text",
        "Name under which the evidence archive is uploaded and found again. Give each of several evaluations "
        "its own.",
        goes_to="baseline_artifact",
        commands=("ci",),
        default="agent-eval-evidence",
    ),
    Option(
        "base-branches",
        "list",
        "Branches beside the default one whose commits count as reviewed, each by its whole name. It counts "
        "only in the default branch's `agent-eval.yml`.",
        goes_to="base_branches",
        commands=("ci",),
    ),
    Option(
        "baseline-run-id",
        "integer",
        "Take the baseline from exactly this run.",
        goes_to="baseline_run_id",
        commands=("ci",),
    ),
    Option(
        "evidence",
        "path",
        "Judge nothing: decide on the evidence of the suites that earlier jobs of this run made, such as the "
        "merged shards of one: a pack, or a directory or archive of packs.",
        goes_to="evidence",
        commands=("ci",),
        in_file=False,
    ),
    Option(
        "report-run-id",
        "integer",
        "Run nothing: report on the sealed evidence that this finished run of a change left, by the rules of "
        "the base branch. For the second job, which comments on changes from forks.",
        goes_to="report_run_id",
        commands=("ci",),
        in_file=False,
    ),
    Option(
        "allow-fork-with-secrets",
        "switch",
        "Evaluate the code of a fork even in a job that has this repository's secrets and token. Only for "
        "jobs that a person approves one by one.",
        goes_to="allow_fork_with_secrets",
        commands=("ci",),
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
        default="agent-eval-out",
    ),
    Option(
        "report-title",
        "text",
        "Heading of the comment and the report.",
        goes_to="report_title",
        commands=("ci",),
        default="Agent evaluation",
    ),
    Option(
        "html-report",
        "switch",
        "Also write the report as one HTML file, to upload and open in a browser: both runs side by side, "
        "step by step.",
        goes_to="html_report",
        commands=("ci",),
        default="true",
    ),
    Option(
        "comment",
        "choice",
        "`auto` writes one comment on the change and keeps it up to date, `never` writes none.",
        goes_to="comment",
        commands=("ci",),
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
        default="default",
    ),
)
