"""The gate's rules: what each one limits, in which unit, and every word that is said of it.

A new rule is one row here, and its field in `contracts.gate.Thresholds`. The inputs of the CI job, decisions
(`gate.rules`), the comment and the terminal read this table. Only the standard library may be imported here,
because `agent-eval COMMAND --help` imports this.
"""

from typing import Literal, NamedTuple

Unit = Literal["share", "points", "cases"]
"""`share` of all cases of the candidate, `points` by which a rate of the compared cases moved, or `cases`."""


class Rule(NamedTuple):  # as every command imports it: half the start-up time of a dataclass
    """One rule of the gate.

    Example:
        >>> Rule(
        ...     "max_error_rate",
        ...     "at most",
        ...     unit="share",
        ...     measure="error_cases",
        ...     label="Error rate",
        ...     finding="{cases} could not be judged ({share})",
        ...     clause="{share} of cases could not be judged",
        ...     help="The share of cases that may end in an error, from 0 to 1.",
        ...     example=0.01,
        ...     is_absolute=True,
        ... ).title
        'Error rate, at most'

    Attributes:
        field: Its name in `Thresholds`, in `gate.yml` and in a decision.
        bound: Whether the limit is a least or a most.
        unit: What its figures count; decides how they are worked out and shown.
        measure: What it is held against. For `share` the number of cases in a field of `RunSummary`; for
            `cases` that in a field of `Measured`; for `points` the pair of baseline and candidate.
        label: Its name in a table.
        finding: Beginning of its sentence in a decision. `{cases}` is the number of cases in words, `{share}`
            the rate, `{moved}` says which way and how far the rate moved, and over which cases, `{sentence}`
            what is compared and by what the rest was lost.
        clause: What it measured, as a clause of a comment's first sentence. As in `finding`; `{moved}` says
            which way and how far alone, and `{fails}` is the verb in the number of the cases.
        help: One sentence for `--help` and the reference.
        example: A limit for the starter files and the guide.
        worse: For `points`, the way in which the rate gets worse.
        is_absolute: Whether it needs no baseline.
        rank: Its place among the reasons of a decision that breaks several rules, the lowest first.
    """

    field: str
    bound: Literal["at least", "at most"]
    unit: Unit
    measure: str
    label: str
    finding: str
    clause: str
    help: str
    example: float
    worse: Literal["fell", "rose"] = "rose"
    is_absolute: bool = False
    rank: int = 4

    @property
    def option(self) -> str:
        """Its name as an option: a flag without the dashes, an input of the CI job."""
        return self.field.replace("_", "-")

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return f"--{self.option}"

    @property
    def title(self) -> str:
        """Its name in a table, with the kind of limit."""
        return f"{self.label}, {self.bound}"

    @property
    def limits(self) -> str:
        """What its limit may be, in words."""
        return "a whole number from 0 on" if self.unit == "cases" else "a share from 0 to 1"


RULES: tuple[Rule, ...] = (
    Rule(
        "min_pass_rate",
        "at least",
        unit="share",
        measure="passed_cases",
        label="Pass rate",
        finding="{cases} passed ({share})",
        clause="the pass rate is {share}",
        help="The share of cases that must pass, from 0 to 1. Needs no baseline.",
        example=0.95,
        is_absolute=True,
        rank=3,
    ),
    Rule(
        "max_hard_fail_rate",
        "at most",
        unit="share",
        measure="hard_fail_cases",
        label="Hard-fail rate",
        finding="{cases} hard-failed ({share})",
        clause="{share} of cases fail hard",
        help="The share of cases that may fail hard, from 0 to 1. Needs no baseline.",
        example=0.05,
        is_absolute=True,
    ),
    Rule(
        "max_hard_fail_increase",
        "at most",
        unit="points",
        measure="pair_hard_failed",
        label="Hard-fail increase",
        finding="The hard fail rate {moved}",
        clause="the hard-fail rate {moved}",
        help="How far the hard fail rate may rise above the baseline's, 0 to 1.",
        example=0.0,
    ),
    Rule(
        "max_regressed_cases",
        "at most",
        unit="cases",
        measure="regressed",
        label="Regressed cases",
        finding="{cases} regressed",
        clause="{cases} regressed",
        help="How many cases may get worse than in the baseline.",
        example=0,
        rank=0,
    ),
    Rule(
        "max_new_hard_fail_cases",
        "at most",
        unit="cases",
        measure="new_hard_fails",
        label="New hard fails",
        finding="{cases} newly hard-failed",
        clause="{cases} newly {fails} hard",
        help="How many cases may fail hard that did not in the baseline.",
        example=0,
        rank=1,
    ),
)
"""Every rule, in the order of `Thresholds`."""

_BY_FIELD = {rule.field: rule for rule in RULES}


def find_rule(field: str) -> Rule | None:
    """Look up the row of a rule; None for a check that is no rule, such as `something_measured`."""
    return _BY_FIELD.get(field)
