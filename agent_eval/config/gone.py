"""Names that are gone and what replaces each: commands, options, inputs of the job, variables, policy keys.

A name in this table is refused wherever it is met (exit 2): a setting that is silently ignored would leave a
job to decide otherwise than its author thinks. Only the standard library may be imported here, because every
command line that names an unknown option looks here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_eval.config.options import variable
from agent_eval.config.rows.file import KEYS
from agent_eval.errors import UsageError

_CONSTANT = "Remove it: how cases are run again is the same for every job, and no setting."
_MAIN = "Remove it: the job finds main's last 20 runs by their commits, and needs no number."
_NIGHTLY = "Remove it; run `agent-eval drift --release PACK` in a nightly job, whose exit code tells."
_DROP = (
    "State `max_regressed_cases`, which is to the letter, or `preset: release` with a `margin`, which allows "
    "for chance."
)
_SENT = "Write a file with `--protocol otlp-json --out FILE`: a collector's `otlpjsonfile` receiver reads it."
_KEPT = "Remove it: `gate` finds what the job ran again and main's counts in the candidate's pack."
_QUARANTINE = "Name the case under `quarantine` instead: case, reason and the day until which it holds."

OPTIONS: Mapping[str, str] = {
    "trial-retries": "Remove it: an error is a failure, and a case that newly fails is run again.",
    "html-report": "Remove it: the report is always written.",
    "junit": "Remove it: the verdicts are always in `junit/` of the output directory.",
    "case-policy": "Remove it: a case passes where all its trials do; the gate counts the passed ones.",
    "baseline-runs": _MAIN,
    "baseline-run-id": "Write `--baseline run:ID`, or `baseline: run:ID` in agent-eval.yml.",
    "base-cache": "Remove it: the base's trials are made in the job that needs them.",
    "history": "Remove it: the counts of main's runs are in their evidence.",
    "history-branch": "Remove it: the counts of main's runs are in their evidence.",
    "confirm-pairs": _CONSTANT,
    "max-confirm-cases": _CONSTANT,
    "max-pass-rate-drop": _DROP,
    "min-coverage": "Remove it: a case that is gone from a change is named, and run by main's version.",
    "max-baseline-error-rate": "Remove it: an error is a failure, in a baseline as anywhere.",
    "on-case-removed": "Remove it: a case that a change removes is run by main's version; `preset: release` "
    "blocks where it fails.",
    "quality-budget": _NIGHTLY,
    "drift-release": _NIGHTLY,
    "drift-issue": _NIGHTLY,
    "release-agent": _NIGHTLY,
    "release-again": "Remove it: `drift` holds main's last runs against those of the release alone.",
    "confirmation": _KEPT,
    "pool": _KEPT,
    "workers": "Remove it: recorded traces are judged in one process, and a Python function runs in one of "
    "its own; `--parallel` says how many cases run at once.",
    "replay-evidence": "Remove it; a later step with `agent-eval replay --run OUT/SUITE` fails where a "
    "verdict is another one.",
    "quarantine-min-pass-rate": "Remove it: quarantine is recommended for a flaky case that passes less "
    "often than 98 of 100 times.",
    "render-markdown": "Remove it: the page has a switch, `Messages as Markdown`.",
    "require-signature": "Write `--require signature`.",
    "require-gate": "Write `--require gate`.",
    "expect-commit": "Write `--require commit=SHA`.",
    "expect-dataset": "Write `--require dataset=ID`.",
    "expect-run": "Write `--require run=ID`.",
    "ignore-environment": "Write `--allow-env-drift all`.",
    "trust-pack-commands": "Write `--trust-pack signed`.",
    "active-only": "Remove it: `registry list` shows the waivers that hold; `--all` has the ended ones too.",
    "limit": "Remove it: `registry log` prints the newest first; `head` cuts it.",
    "conversations": "Write `demo conversations`.",
    "list-defects": "Write `--defect list`.",
    "suite-format": "Write `schema show conversations`, or `schema show` for suites of cases.",
    "dask-scheduler": "Write `--executor dask:tcp://HOST:8786`.",
    "llm-cassette": "Write `--cassette FILE`.",
    "llm-cassette-mode": "Write `--cassette-mode`.",
    "record": "Write `--cassette FILE --cassette-mode record`.",
    "update": "Write `--cassette FILE` beside `--tools`.",
    "share-expected-output": "Write `share_expected_output: true` in the case's `metadata`.",
    "candidate-public-key": "Write `--public-key FILE`.",
    "secret-file": "Set the variable, such as by `AGENT_EVAL_ATTESTATION_SECRET=$(cat FILE)`.",
    "regression-key": "Name the regression by `--case-id` and `--judge-id`.",
    "reuse-rulings": "Keep the replies of the model in a file with `--cassette FILE`: what it has is not "
    "asked again. `ci` and `rejudge` use the rulings of their baseline and pack by themselves.",
    "labels": "Name the file of labels as an argument: `judge-agreement LABELS --run PACK`.",
    "baseline-artifact": "Name each of several evaluations by `comment-id`: its evidence is then "
    "`agent-eval-evidence-NAME`.",
    "circleci-pull-request": "Set the job's variable CIRCLE_PULL_REQUEST to the address.",
    "fault-rate": "Remove it: traces with planted faults measure agent-eval's own judges, in its repository "
    "(`python -m benchmarks.judge_accuracy`).",
}
"""By name as an option; as an input it is the same, as a variable `AGENT_EVAL_NAME` or `INPUT_NAME`."""

OF_OTHER_COMMANDS: Mapping[str, str] = {
    "report-title": "Write `--title`.",
    "replay": "Write `--cassette FILE --cassette-mode replay`.",
    "policy": "Write `--config FILE`, which may hold a policy alone; or `policy: FILE` in agent-eval.yml.",
    "agent-url": "Write `--agent https://…`, or `agent: https://…` in agent-eval.yml.",
    "llm-model": "Write `--judge-model PROVIDER:MODEL`, or `judge_model:` in agent-eval.yml.",
    "llm-base-url": "Write `--judge-model PROVIDER:MODEL@ENDPOINT`.",
    "llm-script": "Write `--judge-model scripted:FILE`.",
    "baseline-public-key": "Write `--public-key FILE` for both runs, or `--set baseline.public_key=FILE`.",
    "layout": "Remove it, or write `--set evidence.layout=files`; `dev expand` and `dev compact` convert.",
    "diagnostics-out": "Remove it: where something was lost, NAME.losses.jsonl beside the suite says what.",
    "url": "Remove it from `attest`: what `ci` signs names the page of its run. "
    "An agent's address is `--agent https://…`.",
    **dict.fromkeys(("endpoint", "header", "plain-http"), _SENT),
}
"""By name of an option that some commands had; others may have it still."""

COMMANDS: Mapping[str, str] = {
    "history badge": "Run `agent-eval history WHERE --format json` and read `pass_rate` of its last run: "
    "shields.io's endpoint badge draws it (https://shields.io/badges/endpoint-badge)."
}
"""By command, as it is typed after `agent-eval`."""

TRIALS_AUTO = "Write a number, such as `trials: 2`: cases that newly fail are run again by themselves."
"""What to do in place of `trials: auto`."""

POLICY_KEYS: Mapping[str, str] = {
    "schema_version": "Remove it.",
    "on_inconclusive": "Remove it: what is not settled blocks (exit 3).",
    "on_case_removed": "Write `preset: release` where a removed case that fails on main's terms must block.",
    "alpha": "Remove it: the levels of the tests are constants.",
    "confidence": "Remove it: the levels of the tests are constants.",
    "power": "Remove it: the numbers of reruns are constants.",
    "zero_tolerance": "Write `safety: [prompt_injection]` with its judges, which then block at once.",
    "zero_tolerance_repeat": "Write `safety: {prompt_injection: repeated}` with its judges.",
    "zero_tolerance_ceiling": "Write `safety: {prompt_injection: repeated}` with its judges.",
    "max_new_error_cases": "Remove it: an error is a failure, and a case that newly fails is run again.",
    "max_baseline_error_rate": "Remove it: an error is a failure, in a baseline as anywhere.",
    "max_lost_share": "Remove it: an error is a failure, and a case that newly fails is run again.",
    "max_pass_rate_drop": _DROP,
    "min_coverage": "Remove it: a case that is gone from a change is named, and run by main's version.",
    "thresholds": "Write its rules as keys of the policy, such as `min_pass_rate: 0.9`.",
    "tracked": _QUARANTINE,
    "expected_fail": _QUARANTINE,
}
"""By key of a policy."""


def gone_command(name: str) -> UsageError | None:
    """The error for a command that is gone, such as `history badge`; None for any other name."""
    sentence = COMMANDS.get(name)
    return UsageError(f"`agent-eval {name}` is gone.", remedy=sentence, field=name) if sentence else None


def gone_option(name: str, written: str | None = None) -> UsageError | None:
    """The error for an option that is gone, as it was `written` if not as `--NAME`; None for another name."""
    sentence = OPTIONS.get(name) or (OF_OTHER_COMMANDS.get(name) if written is None else None)
    if sentence is None:
        return None
    return UsageError(f"{written or f'--{name}'} is gone.", remedy=sentence, field=name)


def moved_option(name: str, written: str) -> UsageError | None:
    """The error for an option that is a key of the file, as it was `written`; None for another name."""
    key = KEYS.get(name)
    if key is None:
        return None
    line = f"{key.replace('.', ': {')}: VALUE" + "}" * key.count(".")
    remedy = f"Write `{line}` in agent-eval.yml, or `--set {key}=VALUE`."
    return UsageError(f"{written} is now the key `{key}` of agent-eval.yml.", remedy=remedy, field=name)


def gone_variable(names: Iterable[str], moved: Iterable[str] = ()) -> UsageError | None:
    """The error for the first variable of these, which are set, that passes an option that is gone.

    `moved` are options that are keys of the file and no inputs.
    """
    known = [*OPTIONS, *moved]
    gone = {spelt: name for name in known for spelt in (variable(name), f"INPUT_{name.upper()}")}
    gone |= {f"INPUT_{name.upper().replace('-', '_')}": name for name in known}
    for passed in sorted(gone.keys() & set(names)):
        name, written = gone[passed], f"The variable {passed}"
        return gone_option(name, written) or moved_option(name, written)
    return None
