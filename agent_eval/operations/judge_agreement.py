"""`judge-agreement`: how well an LLM judge agrees with people, criterion by criterion.

A file of labels says what people found, and how they came to label these conversations and no others:

    {"kind": "judge_labels", "drawn": "by-verdict", "labels": [
      {"case_id": "refund", "criterion": "The agent is polite.", "human": "failed", "by": "ann"}]}

`drawn` is `random` (from all conversations), `by-verdict` (at random from those judged passed, and from those
judged failed), or `other`: people label the failures that they see, and figures are of these labels alone.
`trial` counts from 0. Labels of two people on one conversation say how far people agree. Each case
counts once, also where several of its trials are labelled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.derived import write_output
from agent_eval.gate.statistics import wilson
from agent_eval.operations.packs import open_to_show, validated
from agent_eval.storage.json import dumps, read_json

LABELS_PER_VERDICT = 30
MOST_WRONG = 3
"""A criterion may block once 30 cases that were judged failed and 30 that were judged passed are labelled,
drawn at random within each verdict, with at most 3 of 30 wrong in each. A judge that is right in 95 % of
cases passes this with probability 0.94 for each verdict, one that is right in 80 % with 0.12."""


class Labelled(NamedTuple):
    """Two verdicts, each `passed` or `failed`, on one trial of a case: a person's, and the judge's."""

    case_id: str
    human: str
    judge: str


class Confusion(NamedTuple):
    """Number of cases by the human's and the judge's verdict; a case is divided over its labelled trials."""

    both_passed: Fraction
    wrongly_failed: Fraction
    wrongly_passed: Fraction
    both_failed: Fraction

    @property
    def cases(self) -> int:
        """All cases."""
        return int(sum(self))

    @property
    def right(self) -> Fraction:
        """Cases with the same verdict."""
        return self.both_passed + self.both_failed


def confusion(labelled: Sequence[Labelled], judge: str | None = None) -> Confusion:
    """Count cases by their labelled trials, or by those with one verdict of the judge."""
    rows = [row for row in labelled if judge in (None, row.judge)]
    trials = Counter(row.case_id for row in rows)
    cells: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for row in rows:
        cells[row.human, row.judge] += Fraction(1, trials[row.case_id])
    return Confusion(*(cells[cell] for cell in product(("passed", "failed"), repeat=2)))


def may_block(labelled: Sequence[Labelled]) -> bool:
    """Tell whether enough cases are labelled of each verdict of the judge, with few enough errors."""
    of_verdicts = [confusion(labelled, verdict) for verdict in _RULED]
    return all(
        cells.cases >= LABELS_PER_VERDICT
        and (cells.cases - cells.right) * LABELS_PER_VERDICT <= MOST_WRONG * cells.cases
        for cells in of_verdicts
    )


def kappa(cells: Confusion) -> float | None:
    """Compute Cohen's kappa; None where all verdicts are the same.

    Source: J. Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement
    20 (1960) 37-46.
    """
    human = (cells.both_passed + cells.wrongly_failed, cells.wrongly_passed + cells.both_failed)
    judge = (cells.both_passed + cells.wrongly_passed, cells.wrongly_failed + cells.both_failed)
    # Times the square of the cases.
    by_chance = human[0] * judge[0] + human[1] * judge[1]
    total = cells.cases**2
    return (
        float((cells.right * cells.cases - by_chance) / (total - by_chance)) if by_chance != total else None
    )


_SHOWN = 20
"""Disagreements that the record lists for each criterion."""

_RULED = ("failed", "passed")
Drawn = Literal["random", "by-verdict", "other"]


_Item = tuple[str, int]
"""A conversation: id of its case, number of its trial from 0."""


class Label(BaseModel):
    """What one person found of one criterion on one conversation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    case_id: str
    trial: int = Field(default=0, ge=0)
    criterion: str
    human: Literal["passed", "failed"]
    by: str | None = None
    note: str | None = None


class LabelFile(BaseModel):
    """A file of labels."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Literal["judge_labels"]
    schema_version: str | None = None
    drawn: Drawn
    labels: list[Label]


class CriterionAgreement(BaseModel):
    """What labels say of one criterion, as exactly one judge and prompt read it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    criterion: str
    digest: str = Field(min_length=1)
    blocking: bool


class AgreementRecord(BaseModel):
    """What `judge-agreement` writes."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Literal["judge_agreement"]
    criteria: list[CriterionAgreement]


@dataclass
class _Criterion:
    """Everything that packs and labels say of one criterion; another judge or prompt makes another one."""

    text: str
    digest: str
    judged: dict[_Item, tuple[str, str]] = field(default_factory=dict)
    """Verdict and reason of the judge."""
    labels: dict[_Item, list[Label]] = field(default_factory=lambda: defaultdict(list))

    def labelled(self) -> dict[_Item, Labelled]:
        """Map each labelled conversation that was judged to the first person's verdict and the judge's."""
        return {
            item: Labelled(item[0], labels[0].human, self.judged[item][0])
            for item, labels in self.labels.items()
            if self.judged[item][0] in _RULED
        }


def judge_agreement(runs: Sequence[Path], labels: Path, out: Path | None = None) -> dict[str, Any]:
    """Compare the rulings of an LLM judge with what people found; returns the record as JSON values.

    `out` is where the record is written, for `judge_model.agreement`; None for nowhere.

    Raises:
        InvalidInput: The labels are malformed, or of a conversation or criterion that no pack has.
        NothingMeasured: There is no label on anything that was judged passed or failed.
    """
    what = "a file of labels, which the guide to LLM judges shows"
    read = validated(LabelFile, read_json(labels), str(labels), what)
    by_digest: dict[str, _Criterion] = {}
    for row in (row for path in runs for row in open_to_show(path).results()):
        for number, trial in enumerate(row.get("trials") or [row]):
            rulings = [each["evidence"] for each in trial["verdicts"] if each["judge_id"] == "llm"]
            for ruled in (each for evidence in rulings for each in evidence.get("criteria") or []):
                text, digest = str(ruled.get("criterion")), str(ruled.get("digest"))
                criterion = by_digest.setdefault(digest, _Criterion(text, digest))
                verdict = str(ruled.get("outcome")), str(ruled.get("reason"))
                criterion.judged.setdefault((row["case_id"], number), verdict)
    criteria = list(by_digest.values())
    for number, label in enumerate(read.labels):
        item = label.case_id, label.trial
        fitting = [row for row in criteria if row.text == label.criterion and item in row.judged]
        if not fitting:
            raise InvalidInput(
                f"{labels}: labels[{number}]: no pack has a ruling on this criterion for case"
                f" {label.case_id!r}, trial {label.trial}",
                remedy="Name the pack that was labelled with --run, and write criterion and case as it does.",
                file=str(labels),
                field=f"labels[{number}]",
            )
        for criterion in fitting:
            criterion.labels[item].append(label)
    described = [_row(criterion, read.drawn) for criterion in criteria if criterion.labelled()]
    if not described:
        raise NothingMeasured(
            f"{labels} has no label on a conversation that was judged passed or failed",
            remedy="Label some conversations of the packs.",
            file=str(labels),
        )
    record = {
        "kind": "judge_agreement",
        "schema_version": SCHEMA_VERSION,
        "drawn": read.drawn,
        "labels": len(read.labels),
        "criteria": described,
    }
    if out is not None:
        write_output(out, dumps(record, indent=True))
    return record


def earned_digests(path: Path) -> frozenset[str]:
    """Return the digests of the criteria that count by a record."""
    what = "a record, which `agent-eval judge-agreement --out` writes"
    record = validated(AgreementRecord, read_json(path), str(path), what)
    return frozenset(row.digest for row in record.criteria if row.blocking)


def _row(criterion: _Criterion, drawn: Drawn) -> dict[str, Any]:
    labelled = criterion.labelled()
    rows = list(labelled.values())
    people = [
        Labelled(case_id, labels[0].human, labels[1].human)
        for (case_id, _), labels in criterion.labels.items()
        if len(labels) > 1
    ]
    verdicts = Counter(
        verdict if verdict in _RULED else "neither" for verdict, _ in criterion.judged.values()
    )
    right: dict[str, dict[str, Any]] = {}
    for verdict in _RULED:  # in how many cases it is right, with the interval over the cases
        cells = confusion(rows, verdict)
        interval = wilson(cells.right, cells.cases)
        right[verdict] = {
            "right": _number(cells.right),
            "of": cells.cases,
            "value": round(float(cells.right / cells.cases), 4) if cells.cases else None,
            "interval": [round(interval.low, 4), round(interval.high, 4)],
        }
    disagreements = [
        {
            "case_id": case_id,
            "trial": trial,
            "human": row.human,
            "judge": row.judge,
            "reason": criterion.judged[case_id, trial][1][:500],
        }
        for (case_id, trial), row in labelled.items()
        if row.human != row.judge
    ]
    cells = confusion(rows)
    return {
        "criterion": criterion.text,
        "digest": criterion.digest,
        "blocking": may_block(rows) and drawn != "other",
        "judged": {name: verdicts[name] for name in ("passed", "failed", "neither")},
        "cases": cells.cases,
        "confusion": {name: _number(cell) for name, cell in cells._asdict().items()},
        **{f"right_when_{verdict}": figures for verdict, figures in right.items()},
        "kappa": kappa(cells),
        "human_kappa": kappa(confusion(people)),
        "disagreements": disagreements[:_SHOWN],
        "labels_wanted": {
            verdict: max(0, LABELS_PER_VERDICT - figures["of"]) for verdict, figures in right.items()
        },
    }


def _number(cases: Fraction) -> float:
    return int(cases) if cases.denominator == 1 else round(float(cases), 4)


def agreement_text(record: Mapping[str, Any]) -> Iterator[str]:
    """Say in lines what a record says: of each criterion how often the judge is right, and what to read."""
    for row in record["criteria"]:
        yield f"{row['criterion'][:200]} ({'blocks' if row['blocking'] else 'advisory'}, {row['digest']})"
        for verdict in _RULED:
            figure = row[f"right_when_{verdict}"]
            if figure["of"]:
                yield (
                    f"  When it says {verdict}, it is right in {figure['right']:g} of {figure['of']} cases"
                    f" (at least {figure['interval'][0]:.0%})."
                )
        cells = ", ".join(f"{name.replace('_', ' ')} {cell:g}" for name, cell in row["confusion"].items())
        yield f"  {cells.capitalize()}."
        for name, value in (("Kappa", row["kappa"]), ("Kappa between people", row["human_kappa"])):
            if value is not None:
                yield f"  {name} {value:.2f}."
        if record["drawn"] == "other":
            yield "  The labels were not drawn at random, so these figures are of them alone."
        for differing in row["disagreements"]:
            where = f"{differing['case_id'][:80]}, trial {differing['trial']}"
            verdicts = f"human {differing['human']}, judge {differing['judge']}"
            yield f"  Read {where}: {verdicts}: {differing['reason'][:160]}"
        for verdict, missing in row["labels_wanted"].items():
            if missing:
                yield (
                    f"  {missing} more labelled cases of those judged {verdict} are wanted, drawn at random; "
                    "where there are too few, make some, for instance with a defect of the agent."
                )
