"""`judge-agreement`: how well an LLM judge agrees with people, criterion by criterion.

A file of labels says what people found, and how they came to label these conversations and no others:

    {"kind": "judge_labels", "drawn": "by-verdict", "labels": [
      {"case_id": "refund", "criterion": "The agent is polite.", "human": "failed", "by": "ann"}]}

`drawn` is `random` (from all conversations), `by-verdict` (at random from those judged passed, and from those
judged failed), or `other`: people label the failures that they see, and figures are of these labels alone.
`trial` counts from 0. Labels of two people on one conversation say how far people agree.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack
from agent_eval.gate.agreement import LABELS_PER_VERDICT, Confusion, Estimate, kappa, pass_rate, share
from agent_eval.operations.agreement_record import KIND
from agent_eval.operations.packs import open_to_show
from agent_eval.storage.json import dumps, read_json

LABELS = "judge_labels"
_SHOWN = 20
"""Disagreements and wanted labels that the record lists for each criterion."""

Verdict = Literal["passed", "failed"]
Drawn = Literal["random", "by-verdict", "other"]
Item = tuple[str, int]
"""A conversation: id of its case, number of its trial."""


class Label(BaseModel):
    """What one person found of one criterion on one conversation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    case_id: str
    trial: int = Field(default=0, ge=0)
    criterion: str
    human: Verdict
    by: str | None = None
    note: str | None = None


class LabelFile(BaseModel):
    """A file of labels."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Literal["judge_labels"]
    schema_version: str | None = None
    drawn: Drawn
    labels: list[Label]


@dataclass(frozen=True, slots=True)
class _Judged:
    """One conversation as the judge found it."""

    verdict: str
    reason: str


@dataclass
class _Criterion:
    """Everything that packs and labels say of one criterion, as one judge and prompt read it."""

    text: str
    digest: str
    judged: dict[Item, _Judged] = field(default_factory=dict)
    labels: dict[Item, list[Label]] = field(default_factory=lambda: defaultdict(list))

    def items(self, verdict: str) -> list[Item]:
        return [item for item, judged in self.judged.items() if judged.verdict == verdict]

    def labelled(self) -> Iterator[tuple[Item, str, str]]:
        """Yield each labelled item with the first person's verdict and the judge's."""
        for item, labels in self.labels.items():
            judged = self.judged[item].verdict
            if judged in ("passed", "failed"):
                yield item, labels[0].human, judged

    def confusion(self) -> Confusion:
        cells = [(human, judge) for _, human, judge in self.labelled()]
        return Confusion(
            cells.count(("passed", "passed")),
            cells.count(("passed", "failed")),
            cells.count(("failed", "passed")),
            cells.count(("failed", "failed")),
        )

    def of_people(self) -> Confusion:
        """Compare the first two people who labelled the same conversation."""
        pairs = [(labels[0].human, labels[1].human) for labels in self.labels.values() if len(labels) > 1]
        return Confusion(
            pairs.count(("passed", "passed")),
            pairs.count(("passed", "failed")),
            pairs.count(("failed", "passed")),
            pairs.count(("failed", "failed")),
        )


@dataclass(frozen=True)
class JudgeAgreement:
    """Result of `judge_agreement`.

    Attributes:
        record: The record as JSON values.
        lines: The same in prose.

    Example:
        >>> JudgeAgreement({"criteria": []}, []).record["criteria"]
        []
    """

    record: dict[str, Any]
    lines: list[str]


def judge_agreement(runs: Sequence[Path], labels: Path, out: Path | None = None) -> JudgeAgreement:
    """Compare the rulings of an LLM judge with what people found.

    Args:
        runs: Packs with the judge's rulings.
        labels: File of labels.
        out: Where the record is written, for `--judge-agreement`; None for nowhere.

    Raises:
        InvalidInput: The labels are malformed, or of a conversation or criterion that no pack has.
        InvalidPack: A pack does not verify.
        NothingMeasured: There is no label on anything that was judged passed or failed.
        StorageError: The record cannot be written.
    """
    read = _read_labels(labels)
    criteria = _criteria(open_to_show(path) for path in runs)
    _add_labels(criteria, read, labels)
    used = [criterion for criterion in criteria if criterion.confusion().total]
    if not used:
        raise NothingMeasured(
            f"{labels} has no label on a conversation that was judged passed or failed",
            remedy="Label some conversations of the packs.",
            file=str(labels),
        )
    rows = [_row(criterion, read.drawn) for criterion in used]
    record = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "drawn": read.drawn,
        "labels": len(read.labels),
        "criteria": rows,
    }
    if out is not None:
        write_output(out, dumps(record, indent=True))
    return JudgeAgreement(record, [line for row in rows for line in _prose(row, read.drawn)])


def _read_labels(path: Path) -> LabelFile:
    value = read_json(path)
    try:
        return LabelFile.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidInput(
            f"{path} is no file of labels: {place}: {first['msg'][:200]}",
            remedy="Write it as the guide to LLM judges shows.",
            file=str(path),
            field=place,
        ) from None


def _criteria(packs: Iterator[Pack]) -> list[_Criterion]:
    """Collect what the packs say of each criterion; another judge or prompt makes another one."""
    criteria: dict[str, _Criterion] = {}
    for pack in packs:
        for row in pack.results():
            for number, trial in enumerate(row.get("trials") or [row]):
                for verdict in trial["verdicts"]:
                    if verdict["judge_id"] == "llm":
                        _add_ruling(criteria, (row["case_id"], number), verdict["evidence"])
    return list(criteria.values())


def _add_ruling(criteria: dict[str, _Criterion], item: Item, evidence: Mapping[str, Any]) -> None:
    for row in evidence.get("criteria") or []:
        text, digest = str(row.get("criterion")), str(row.get("digest"))
        criterion = criteria.setdefault(digest, _Criterion(text, digest))
        criterion.judged.setdefault(item, _Judged(str(row.get("outcome")), str(row.get("reason"))))


def _add_labels(criteria: Sequence[_Criterion], read: LabelFile, path: Path) -> None:
    for number, label in enumerate(read.labels):
        item = (label.case_id, label.trial)
        fitting = [row for row in criteria if row.text == label.criterion and item in row.judged]
        if not fitting:
            raise InvalidInput(
                f"{path}: labels[{number}]: no pack has a ruling on this criterion for case"
                f" {label.case_id!r}, trial {label.trial}",
                remedy="Name the pack that was labelled with --run, and write criterion and case as it does.",
                file=str(path),
                field=f"labels[{number}]",
            )
        for criterion in fitting:
            criterion.labels[item].append(label)


def _row(criterion: _Criterion, drawn: Drawn) -> dict[str, Any]:
    confusion = criterion.confusion()
    passed, failed = len(criterion.items("passed")), len(criterion.items("failed"))
    people = criterion.of_people()
    return {
        "criterion": criterion.text,
        "digest": criterion.digest,
        "blocking": confusion.may_block and drawn != "other",
        "judged": {
            "passed": passed,
            "failed": failed,
            "neither": len(criterion.judged) - passed - failed,
        },
        "confusion": {name: getattr(confusion, name) for name in Confusion.__dataclass_fields__},
        "right_when_failed": _figure(
            share(confusion.both_failed, confusion.judged_failed),
            right=confusion.both_failed,
            of=confusion.judged_failed,
        ),
        "right_when_passed": _figure(
            share(confusion.both_passed, confusion.judged_passed),
            right=confusion.both_passed,
            of=confusion.judged_passed,
        ),
        "accuracy": _figure(share(confusion.agreed, confusion.total)),
        "kappa": _figure(kappa(confusion)),
        "human_kappa": _figure(kappa(people)) if people.total else None,
        "pass_rate": _figure(pass_rate(confusion, passed, passed + failed)),
        "disagreements": _disagreements(criterion),
        "labels_wanted": _wanted(criterion, confusion),
    }


def _figure(estimate: Estimate, **counts: int) -> dict[str, Any]:
    interval = [round(estimate.interval.low, 4), round(estimate.interval.high, 4)]
    value = None if estimate.value is None else round(estimate.value, 4)
    return {**counts, "value": value, "interval": interval}


def _disagreements(criterion: _Criterion) -> list[dict[str, Any]]:
    rows = [
        {
            "case_id": item[0],
            "trial": item[1],
            "human": human,
            "judge": judge,
            "reason": criterion.judged[item].reason[:500],
        }
        for item, human, judge in criterion.labelled()
        if human != judge
    ]
    return rows[:_SHOWN]


def _wanted(criterion: _Criterion, confusion: Confusion) -> dict[str, Any]:
    """Say which conversations to label next: at random within each verdict, the same ones in every run."""
    wanted: dict[str, Any] = {}
    for verdict, labelled in (("failed", confusion.judged_failed), ("passed", confusion.judged_passed)):
        missing = max(0, LABELS_PER_VERDICT - labelled)
        open_items = [item for item in criterion.items(verdict) if item not in criterion.labels]
        drawn = sorted(open_items, key=lambda item: _draw(criterion.digest, item))[: min(missing, _SHOWN)]
        wanted[verdict] = {
            "missing": missing,
            "next": [{"case_id": case_id, "trial": trial} for case_id, trial in drawn],
        }
    return wanted


def _draw(digest: str, item: Item) -> str:
    return hashlib.sha256(f"{digest} {item[1]} {item[0]}".encode("utf-8", "backslashreplace")).hexdigest()


def _prose(row: Mapping[str, Any], drawn: Drawn) -> list[str]:
    cells, rate = row["confusion"], row["pass_rate"]
    lines = [
        f"{row['criterion'][:200]} ({'blocks' if row['blocking'] else 'advisory'}, {row['digest']})",
        *(
            f"  When it says {verdict}, it is right {figure['right']} of {figure['of']}"
            f" (at least {figure['interval'][0]:.0%})."
            for verdict in ("failed", "passed")
            if (figure := row[f"right_when_{verdict}"])["of"]
        ),
        f"  Both passed {cells['both_passed']}, both failed {cells['both_failed']}, wrongly failed"
        f" {cells['wrongly_failed']}, wrongly passed {cells['wrongly_passed']}.",
        f"  {_kappa_words('Kappa', row['kappa'])}"
        + (f" {_kappa_words('Between people', row['human_kappa'])}" if row["human_kappa"] else ""),
        f"  People would pass {rate['value']:.0%} ({rate['interval'][0]:.0%} to {rate['interval'][1]:.0%}).",
    ]
    if drawn == "other":
        lines.append("  The labels were not drawn at random, so these figures are of them alone.")
    for differing in row["disagreements"]:
        where = f"{differing['case_id'][:80]}, trial {differing['trial']}"
        verdicts = f"human {differing['human']}, judge {differing['judge']}"
        lines.append(f"  Read {where}: {verdicts}: {differing['reason'][:160]}")
    for verdict, wanted in row["labels_wanted"].items():
        if wanted["missing"]:
            names = ", ".join(item["case_id"][:60] for item in wanted["next"][:5])
            more = f"; next: {names}" if names else "; make some, for instance with a defect of the agent"
            lines.append(f"  {wanted['missing']} more labels of those judged {verdict} are wanted{more}.")
    return lines


def _kappa_words(name: str, figure: Mapping[str, Any]) -> str:
    low, high = figure["interval"]
    value = "cannot be estimated" if figure["value"] is None else f"{figure['value']:.2f}"
    return f"{name} {value} ({low:.2f} to {high:.2f})."
