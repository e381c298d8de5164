"""Rows of what is judged, and by which judges."""

from __future__ import annotations

from agent_eval.config.options import CI, Option

JUDGED: tuple[Option, ...] = (
    Option(
        "suite",
        "lines",
        "Suites to score, one a line: paths or globs such as `suites/*.jsonl`. Each has its own evidence "
        "pack and its own baseline; the worst outcome counts.",
        goes_to="suite",
        commands=(CI,),
        required=True,
    ),
    Option(
        "judges",
        "list",
        "Judges, one a line or separated by commas: built-in names, entry points or `module:Class`. "
        "Default: tool_contract, policy, trajectory_step, regex, json_schema.",
        goes_to="judging.judges",
        commands=(CI,),
    ),
    Option(
        "judge-config",
        "path",
        "JSON or YAML file with each judge's configuration, by judge name.",
        goes_to="judging.judge_config",
        commands=(CI,),
    ),
    Option(
        "case-policy",
        "case policy",
        "When a case with several trials passes: `all`, `any`, `majority`, or `pass_rate>=0.75`.",
        goes_to="judging.case_policy",
        commands=(CI,),
        default="all",
    ),
)
