"""Inputs, outputs and settings of `agent-eval ci`: gathered from flags, environment and file, and checked.

The command's flags, `action.yml`, the file `agent-eval.yml` and the reference in the guides are made from
the rows of inputs, or tested against them. A value is looked for in this order, the first non-empty one
counts:

1. the flag (`--max-regressed-cases 3`),
2. the variable in which a platform's runner passes the input,
3. `AGENT_EVAL_<NAME>` with underscores (`AGENT_EVAL_MAX_REGRESSED_CASES`),
4. the key `policy.max_regressed_cases` in `agent-eval.yml`,
5. the row's default.

`--set KEY=VALUE` states a key as a flag would.

Because an empty value counts as not given, `action.yml` must give no default of its own (the token aside):
the runner would pass it as if the user had written it, and `agent-eval.yml` would never be read.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agent_eval.agents.catalog import kind_of
from agent_eval.ci.platforms.catalog import detected_platform, platform_specs
from agent_eval.ci.platforms.spec import PlatformSettings
from agent_eval.config.assembly import PARTS, assemble, check_agent, refuse_without_agent
from agent_eval.config.gone import TRIALS_AUTO, gone_variable
from agent_eval.config.options import CI, SECRET, Option, variable
from agent_eval.config.project_file import CONFIG_FILE, OF_THE_MODEL, ProjectFile
from agent_eval.config.rows.file import KEYS
from agent_eval.config.spec import AgentSpec, Identity, Judging, Limits
from agent_eval.config.table import options_of, settings_of
from agent_eval.config.values import WrongValue, parse
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import Preset
from agent_eval.errors import UsageError
from agent_eval.gate.policy_file import parse_policy
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import DEFAULT_LIMITS
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules
from agent_eval.suites.paths import any_of_conversations

PLATFORM_INPUTS: tuple[Option, ...] = tuple(row for spec in platform_specs() for row in spec.inputs)
"""Rows that one platform needs. The job takes those of every platform; each platform reads its own."""

INPUTS: tuple[Option, ...] = (*options_of(CI), *(row for row in PLATFORM_INPUTS if row.commands))
"""The rows that every platform has, then those of each platform."""

SECRET_INPUTS = tuple(row.name for row in INPUTS if row.kind in SECRET)

SETTINGS: tuple[Option, ...] = (
    *INPUTS,
    *settings_of(CI),
    *(row for row in PLATFORM_INPUTS if not row.commands),
)
"""Everything that a job can be told: its inputs, and what only the file and `--set` can say."""

INPUT_BY_NAME = {name: row for row in INPUTS for name in row.names}
"""By name and by every other name that is accepted."""


class Output(NamedTuple):
    """One value that the job sets for the steps after it."""

    name: str
    description: str


OUTPUTS: tuple[Output, ...] = (
    Output(
        "outcome",
        "`passed`, `failed`, `inconclusive`, `no-baseline` or `error`: the worst over all "
        "suites. `inconclusive` is not settled.",
    ),
    Output("passed", "`true` when the outcome is `passed`, else `false`."),
    Output("pass-rate", "Share of cases that passed, from 0 to 1, over all suites."),
    Output("hard-fail-rate", "Share of cases that failed hard, from 0 to 1, over all suites."),
    Output("regressed-cases", "How many cases got worse than in the baseline; empty without one."),
    Output(
        "new-hard-fail-cases", "How many cases fail hard that did not in the baseline; empty without one."
    ),
    Output("baseline-run-id", "The run the baseline came from; empty without one."),
    Output("baseline-sha", "The commit the baseline came from; empty without one."),
    Output("evidence-pack", "Directories of the evidence packs, one a line, in the order of the suites."),
    Output("evidence-archive", "One deterministic zip of all evidence packs: the file to upload."),
    Output("report", "The full report as a markdown file."),
    Output(
        "html-report",
        "The report as one HTML file, which loads nothing: upload it as a file of its own. Empty where it "
        "could not be written.",
    ),
    Output("comment-url", "Address of the comment; empty when none was written."),
)

_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value as text, and its source for error messages, such as `--min-pass-rate`."""

    text: str
    source: str


NAMED_RUN = "run:"
"""How `baseline` begins that names one run of this place; its number follows."""


def parse_value(row: Option, stated: StatedValue) -> Any:
    """Read the value of an input; None where its text is empty. Errors name where it came from."""
    text = stated.text
    if len(text) > _LONGEST or not all(char.isprintable() or char in "\n\r\t" for char in text):
        raise wrong_value(stated, row, "printable text of reasonable length", quoted=False)
    if not text:
        return None
    if not row.is_listed and row.kind not in _OF_LINES and ("\n" in text or "\r" in text):
        raise wrong_value(stated, row, "a single line", quoted=False)
    if row.name == "trials" and text == "auto":
        raise UsageError(
            f"`trials: auto` is gone (from {stated.source}).", remedy=TRIALS_AUTO, field="trials"
        )
    try:
        value = parse(row, text)
    except WrongValue as wrong:
        raise wrong_value(stated, row, wrong.wanted, quoted=wrong.may_be_shown) from None
    if row.part == "own_policy":
        parse_policy({row.goes_to.partition(".")[2]: value}, source=stated.source)
    pattern, wanted = _PATTERNS.get(row.name, (None, ""))
    if pattern is not None and not all(map(pattern.fullmatch, value if row.is_listed else [value])):
        raise wrong_value(stated, row, wanted)
    return value


def wrong_value(stated: StatedValue, row: Option, wanted: str, *, quoted: bool = True) -> UsageError:
    """Build the error for a wrong value. A secret is never quoted, not even a broken one."""
    value = f" {stated.text[:80]!r}" if quoted and row.kind not in SECRET else ""
    return UsageError(
        f"{name_of(row)}:{value} is not {wanted} (from {stated.source}).",
        remedy=f"Set `{name_of(row)}` to {wanted}." if quoted else "Correct the value.",
        field=row.name,
    )


_PATTERNS = {
    "comment-id": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
        "letters, digits, dots, hyphens and underscores, at most 64",
    ),
    "baseline": (re.compile(rf"(?!{NAMED_RUN}).*|{NAMED_RUN}[1-9]\d{{0,17}}"), "a pack, name or run:NUMBER"),
    # Who may push a branch that fits a pattern would be trusted.
    "base-branches": (re.compile(r"[^\s*?\[\\^~:]+"), "a list of branches, each by its whole name"),
}
"""By input: what its value, or each of its values, must match, and that in words."""

_OF_LINES = frozenset({"script", "private key"})
"""Kinds with one value of several lines."""

_OF_THE_COMMENT = ("title", "comment", "comment-id", *(row.name for row in PLATFORM_INPUTS))
OF_THE_FILE = ("config", "set", "label", "judge-model")
"""Inputs that say what the other values are read from, or that state keys of the file."""

EVIDENCE_NAME = "agent-eval-evidence"
"""The name under which evidence is uploaded and found again, unless `comment-id` is stated."""

DEFAULT = "default"
"""The source of a value that holds because none was given."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The shell commands that install what the agent needs, and the variables that they may see."""

    command: str = ""
    environment: tuple[str, ...] = ()
    seconds: float = 900.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The checked settings of one job: parts of the run specification, and what only the job has.

    The table of options says which input goes to which field. `agent` is None where recorded traces are
    judged; `platform` has the rows of every platform by field, and each platform reads its own.
    """

    suite: tuple[str, ...] = ()
    judging: Judging
    agent: AgentSpec | None
    setup: Setup
    limits: Limits
    identity: Identity
    thresholds: Thresholds = field(default_factory=Thresholds)
    redaction: RedactionRules = NO_RULES
    policy: Path | None = None
    own_policy: Mapping[str, Any] = field(default_factory=dict)
    preset: Preset | None = None
    base_agent: str | None = None
    registry_path: Path
    baseline_name: str
    baseline: str
    evidence_name: str = EVIDENCE_NAME
    report_run_id: int | None = None
    evidence: Path | None = None
    base_branches: tuple[str, ...] = ()
    require_baseline: bool
    allow_fork_with_secrets: bool
    out: Path
    report_title: str
    comment: str
    comment_id: str
    fail_on: str
    signing_key: str | None = field(default=None, repr=False)
    attest: bool = False
    baseline_public_key: Path | None = None
    platform: Mapping[str, Any] = field(repr=False)

    @property
    def for_platform(self) -> PlatformSettings:
        """The settings that the platform reads."""
        return PlatformSettings(
            comment_id=self.comment_id,
            evidence_name=self.evidence_name,
            report_run_id=self.report_run_id,
            out=self.out,
            own=self.platform,
        )

    @property
    def variables_of_agent(self) -> frozenset[str]:
        """Names of variables that agent, setup and headers are given."""
        agent = self.agent or AgentSpec()
        headers = (variable for _, variable in agent.headers)
        return frozenset((*self.setup.environment, *agent.environment, *agent.key_variables, *headers))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that nothing the job writes may hold, and no agent may see."""
        of_platform = (self.platform[row.field] for row in PLATFORM_INPUTS if row.kind in SECRET)
        return (*of_platform, *filter(None, [self.signing_key, self.judging.llm.key]))


def gather(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None, *, content: bytes | None = None
) -> dict[str, StatedValue]:
    """Take the first non-empty value of every input, by input name, in the order that this module says.

    `flags` has the command line's values by input name, `content` that of `file` where it was read already.
    The flag of a threshold must not be empty: a variable that is not set must not remove a rule.
    """
    for row in INPUTS:
        if row.part == "thresholds" and row.name in flags and not flags[row.name].strip():
            raise UsageError(
                f"{row.flag} is empty.",
                remedy="Give it a number, or leave the flag out; check the variable it is taken from.",
                field=row.name,
            )
    from_file: Mapping[str, str] = {}
    if file is not None and (content is not None or file.is_file()):
        from_file, _ = read_values(file, content)
    if flags.get("judge-model"):
        from_file = {name: text for name, text in from_file.items() if name not in OF_THE_MODEL}
    file_name = file.name if file is not None else CONFIG_FILE
    values = {row.name: first_stated(row, flags, environ, from_file, file_name) for row in SETTINGS}
    return with_own_comment(values, flags, environ)


def with_settings(flags: Mapping[str, str], environ: Mapping[str, str]) -> tuple[dict[str, str], Path | None]:
    """Add to the flags what `set`, `label` and `judge-model` state; also return the file of `config`."""
    named, settings, labels, model = (
        parse_value(INPUT_BY_NAME[name], first_stated(INPUT_BY_NAME[name], flags, environ, {}, CONFIG_FILE))
        for name in OF_THE_FILE
    )
    stated = ProjectFile.stated(settings or (), labels or (), model, SETTINGS)
    return {**stated, **flags, **({"judge-model": model} if model else {})}, named


_OWN_OF_AN_EVALUATION = ("config", "suite", "agent", "agent-command", "label")
"""No addresses: that of a preview differs from push to push. No rules: another judge judges the same."""


def with_own_comment(
    values: dict[str, StatedValue], flags: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, StatedValue]:
    """Derive the comment's id, where none is stated, from what the workflow says of this evaluation.

    Two jobs of one run share their files and differ in their inputs: only these count, so that a change of
    `agent-eval.yml` does not begin a second comment.
    """
    if values["comment-id"].source != DEFAULT:
        return values
    rows = [INPUT_BY_NAME[name] for name in _OWN_OF_AN_EVALUATION if name in INPUT_BY_NAME]
    stated = {row.name: first_stated(row, flags, environ, {}, "") for row in rows}
    own = {name: value.text for name, value in stated.items() if value.source != DEFAULT}
    if not own:
        return values
    digest = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:8]
    suite = re.sub(r"[^A-Za-z0-9]+", "-", own.get("suite", "").partition("\n")[0]).strip("-")[:40]
    return {**values, "comment-id": StatedValue("-".join(filter(None, [suite, digest])), DEFAULT)}


OWN_VARIABLES = frozenset(
    {
        "AGENT_EVAL_ATTESTATION_SECRET",
        "AGENT_EVAL_CLOCK",
        "AGENT_EVAL_DEBUG",
        "AGENT_EVAL_PACKAGE",
        "AGENT_EVAL_RUN_ID",
        "AGENT_EVAL_TOOLS",
    }
)
"""Variables of this prefix that are no input: other commands, templates and agents' tools read them."""

_OF_A_RESULT = ("AGENT_EVAL_RESULT_", "AGENT_EVAL_TEST_")
"""What begins the names of variables in which an earlier job of a pipeline passes its result on."""


def refuse_unknown_variables(environ: Mapping[str, str], named: Iterable[str] = ()) -> None:
    """Refuse a variable that looks like an input and is none, by a `UsageError` with the nearest input.

    Unread, it would leave the job to decide by other settings. A runner makes variables of its own prefix
    from declared inputs alone. `named` are variables that the settings name for the agent or its setup.
    """
    filled = [name for name, value in environ.items() if value.strip()]
    if (gone := gone_variable(filled, KEYS.keys() - INPUT_BY_NAME.keys())) is not None:
        raise gone
    runner = detected_platform(environ).spec
    prefixes = {"AGENT_EVAL_": [variable(name) for name in INPUT_BY_NAME]}
    if runner.input_prefix:
        prefixes[runner.input_prefix] = [runner.input_variable(name) for name in INPUT_BY_NAME]
    passed_over = OWN_VARIABLES.union(named)
    for prefix, ours in prefixes.items():
        others = sorted({name for name in filled if name.startswith(prefix)}.difference(ours, passed_over))
        for unknown in (name for name in others if not name.startswith(_OF_A_RESULT)):
            words = {known.removeprefix(prefix): known for known in ours}
            near = difflib.get_close_matches(unknown.removeprefix(prefix), words, n=1)
            hint = f"Did you mean {words[near[0]]}? " if near else ""
            raise UsageError(
                f"The variable {unknown[:80]} is no input of the job.",
                remedy=f"{hint}Remove it, or give it another name.",
                field=unknown[:80],
            )


def gather_for_comment(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path, content: bytes | None
) -> dict[str, StatedValue]:
    """As `gather`, but only the inputs that identify the comment and its author; the others' defaults.

    With these the comment can report that another setting is wrong, instead of showing an earlier result.
    """
    rows = [row for row in INPUTS if row.name in _OF_THE_COMMENT]
    from_file = ProjectFile.parse(content, str(file), rows, lenient=True).texts if content is not None else {}
    values = {
        row.name: first_stated(row, flags, environ, from_file, file.name)
        if row.name in _OF_THE_COMMENT
        else StatedValue(row.default, DEFAULT)
        for row in SETTINGS
    }
    return with_own_comment(values, flags, environ)


def first_stated(
    row: Option,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    from_file: Mapping[str, str],
    file_name: str,
) -> StatedValue:
    """Take the first non-empty value of an input: flag, runner's variable, own variable, file, default.

    No place may state it by two of its names.
    """
    inputs = row.names if row.name in INPUT_BY_NAME else ()
    runners = [spec for spec in platform_specs() if spec.input_prefix]
    of_runners = {spec.input_variable(name): name for name in inputs for spec in runners}
    places = (
        [(flags.get(name, ""), f"--{name}" if inputs else f"--set {KEYS[row.name]}") for name in row.names],
        [(environ.get(key, ""), f"input {name}") for key, name in of_runners.items()],
        [(environ.get(variable(name), ""), variable(name)) for name in inputs],
        [(from_file.get(row.name, ""), f"{KEYS.get(row.name, row.name)} in {file_name}")],
    )
    for place in places:
        stated = [StatedValue(text.strip(), source) for text, source in place if text.strip()]
        if len(stated) > 1:
            first, second = stated[0].source, stated[1].source
            why = f"{row.name} is given twice: as {first} and as {second}."
            raise UsageError(why, remedy=f"Leave out {second}.", field=row.name)
        if stated:
            return stated[0]
    return StatedValue(row.default, DEFAULT)


def settings_from(values: Mapping[str, StatedValue], *, complete: bool = True) -> Settings:
    """Check every value that `gather` took, and build the settings.

    Unless `complete`, what the job needs may be missing, as before `agent-eval.yml` is read.
    """
    rows = [row for row in SETTINGS if row.name not in OF_THE_FILE]
    parsed = {row.goes_to: parse_value(row, values[row.name]) for row in rows}
    # A platform gets an empty text for a text input that has no value.
    unset = {row.goes_to: "" if row.kind in ("text", "url", "secret") else None for row in PLATFORM_INPUTS}
    stated = {place: value for place, value in parsed.items() if value is not None}
    parts: dict[str, Callable[..., Any]] = {
        **PARTS,
        "setup": Setup,
        "thresholds": Thresholds,
        "own_policy": dict,
        "platform": dict,
    }
    fields = assemble({**unset, **stated}, parts)
    reports = fields.get("report_run_id") is not None
    if complete and not reports and not fields.get("suite"):
        raise UsageError(
            "No suite is given.",
            remedy=f"Give input `suite`, the flag --suite, or `suites` in {CONFIG_FILE}.",
            field="suite",
        )
    if values["comment-id"].source != DEFAULT:
        fields["evidence_name"] = f"{EVIDENCE_NAME}-{fields['comment_id']}"
    agent = fields.pop("agent")
    if not complete or reports:
        return Settings(**fields, agent=None)
    _refuse_function(fields.get("base_agent"), "base-agent")
    rows = [row for row in SETTINGS if row.name not in OF_THE_FILE and values[row.name].source != DEFAULT]
    check_agent(rows, spell=_spelled)
    if agent.is_named:
        _refuse_function(agent.name, "agent")
    elif not any_of_conversations(fields["suite"]):
        agent = None
        refuse_without_agent(rows, spell=_spelled, origin=lambda row: f" (from {values[row.name].source})")
    return Settings(**fields, agent=agent)


def name_of(row: Option) -> str:
    """The name by which a job is told this: its input's, else its key of `agent-eval.yml`."""
    return row.name if row.name in INPUT_BY_NAME else KEYS[row.name]


def _spelled(row: Option) -> str:
    return row.name if row.name in INPUT_BY_NAME else f"`{KEYS[row.name]}`"


def _refuse_function(name: str | None, field: str) -> None:
    kind = kind_of(name or "")
    if kind is not None and kind.sees_environment:
        raise UsageError(
            f"{field}: {name!r} would see the job's token.",
            remedy="Give a command line, such as `python agent.py`, of a program that calls the function.",
            field=field,
        )


def read_values(
    file: Path, data: bytes | None, *, lenient: bool = False
) -> tuple[Mapping[str, str], list[str]]:
    """Read `agent-eval.yml` as text by option, from `data` where it is given; also list keys left out.

    `lenient` leaves out a key that this version does not know: another version of the program wrote the file.
    """
    read = ProjectFile.parse(
        read_bytes(file, max_bytes=DEFAULT_LIMITS.max_bytes) if data is None else data,
        str(file),
        SETTINGS,
        lenient=lenient,
    )
    return read.texts, read.unknown


def base_branches_in(file: Path, data: bytes) -> tuple[str, ...]:
    """Read the list `baseline.branches` of an `agent-eval.yml`, as any key is read: whole names only."""
    row = next(row for row in SETTINGS if row.name == "base-branches")
    text = read_values(file, data, lenient=True)[0].get(row.name, "")
    return parse_value(row, StatedValue(text.strip(), f"{KEYS[row.name]} in {file.name}")) or ()
