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

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack
from agent_eval.gate.agreement import (
    LABELS_PER_VERDICT,
    Confusion,
    Estimate,
    Labelled,
    confusion,
    kappa,
    may_block,
    pass_rate,
    share,
)
from agent_eval.operations.packs import open_to_show
from agent_eval.storage.json import dumps, read_json

_SHOWN = 20
"""Disagreements and wanted labels that the record lists for each criterion."""

Verdict = Literal["passed", "failed"]
Drawn = Literal["random", "by-verdict", "other"]


class Item(NamedTuple):
    """A conversation: id of its case, number of its trial from 0."""

    case_id: str
    trial: int


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


_File = TypeVar("_File", bound=BaseModel)


@dataclass
class _Criterion:
    """Everything that packs and labels say of one criterion, as one judge and prompt read it."""

    text: str
    digest: str
    judged: dict[Item, tuple[str, str]] = field(default_factory=dict)
    """Verdict and reason of the judge."""
    labels: dict[Item, list[Label]] = field(default_factory=lambda: defaultdict(list))

    def labelled(self) -> Iterator[tuple[Item, Labelled]]:
        """Yield each labelled conversation that was judged, with the first person's verdict."""
        for item, labels in self.labels.items():
            verdict, _ = self.judged[item]
            if verdict in ("passed", "failed"):
                yield item, Labelled(item.case_id, labels[0].human, verdict)


@dataclass(frozen=True)
class JudgeAgreement:
    """Result of `judge_agreement`: the record as JSON values, and the same in prose."""

    record: dict[str, Any]
    lines: list[str]


def judge_agreement(runs: Sequence[Path], labels: Path, out: Path | None = None) -> JudgeAgreement:
    """Compare the rulings of an LLM judge with what people found.

    `out` is where the record is written, for `--judge-agreement`; None for nowhere.

    Raises:
        InvalidInput: The labels are malformed, or of a conversation or criterion that no pack has.
        NothingMeasured: There is no label on anything that was judged passed or failed.
    """
    remedy = "Write it as the guide to LLM judges shows."
    read = _read(LabelFile, labels, "file of labels", remedy)
    criteria = _criteria(open_to_show(path) for path in runs)
    _add_labels(criteria, read, labels)
    rows = [_row(criterion, read.drawn) for criterion in criteria if any(criterion.labelled())]
    if not rows:
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
        "criteria": rows,
    }
    if out is not None:
        write_output(out, dumps(record, indent=True))
    return JudgeAgreement(record, [line for row in rows for line in _prose(row, read.drawn)])


def earned_digests(path: Path) -> frozenset[str]:
    """Return the digests of the criteria that count by a record."""
    remedy = "Write it with agent-eval judge-agreement --out."
    record = _read(AgreementRecord, path, "record of judge-agreement", remedy)
    return frozenset(row.digest for row in record.criteria if row.blocking)


def _read(kind: type[_File], path: Path, name: str, remedy: str) -> _File:
    value = read_json(path)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        what = f"{path} is no {name}: {place}: {first['msg'][:200]}"
        raise InvalidInput(what, remedy=remedy, file=str(path), field=place) from None


def _criteria(packs: Iterator[Pack]) -> list[_Criterion]:
    """Collect what the packs say of each criterion; another judge or prompt makes another one."""
    criteria: dict[str, _Criterion] = {}
    verdicts = (
        (Item(row["case_id"], number), verdict)
        for pack in packs
        for row in pack.results()
        for number, trial in enumerate(row.get("trials") or [row])
        for verdict in trial["verdicts"]
        if verdict["judge_id"] == "llm"
    )
    for item, verdict in verdicts:
        for row in verdict["evidence"].get("criteria") or []:
            text, digest = str(row.get("criterion")), str(row.get("digest"))
            criterion = criteria.setdefault(digest, _Criterion(text, digest))
            criterion.judged.setdefault(item, (str(row.get("outcome")), str(row.get("reason"))))
    return list(criteria.values())


def _add_labels(criteria: Sequence[_Criterion], read: LabelFile, path: Path) -> None:
    for number, label in enumerate(read.labels):
        item = Item(label.case_id, label.trial)
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
    differing = [(item, row) for item, row in criterion.labelled() if row.human != row.judge]
    labelled = [row for _, row in criterion.labelled()]
    people = confusion(
        [
            Labelled(item.case_id, labels[0].human, labels[1].human)
            for item, labels in criterion.labels.items()
            if len(labels) > 1
        ]
    )
    verdicts = [verdict for verdict, _ in criterion.judged.values()]
    passed, failed = verdicts.count("passed"), verdicts.count("failed")
    cells = confusion(labelled)
    # What the judge found of every case, whether or not people did: agreement of the judge with itself.
    alone = confusion(
        [Labelled(item.case_id, v, v) for item, (v, _) in criterion.judged.items() if v in _RULED]
    )
    return {
        "criterion": criterion.text,
        "digest": criterion.digest,
        "blocking": may_block(labelled) and drawn != "other",
        "judged": {"passed": passed, "failed": failed, "neither": len(verdicts) - passed - failed},
        "cases": cells.cases,
        "confusion": {name: _number(getattr(cells, name)) for name in Confusion.__dataclass_fields__},
        "right_when_failed": _right(confusion(labelled, "failed")),
        "right_when_passed": _right(confusion(labelled, "passed")),
        "accuracy": _figure(share(cells.right, cells.cases)),
        "kappa": kappa(cells),
        "human_kappa": kappa(people),
        "pass_rate": _figure(pass_rate(labelled, alone.both_passed, alone.cases)),
        "disagreements": [
            {
                **item._asdict(),
                "human": row.human,
                "judge": row.judge,
                "reason": criterion.judged[item][1][:500],
            }
            for item, row in differing[:_SHOWN]
        ],
        "labels_wanted": {verdict: _wanted(criterion, verdict) for verdict in ("failed", "passed")},
    }


_RULED = ("passed", "failed")


def _number(cases: Fraction) -> float:
    return int(cases) if cases.denominator == 1 else round(float(cases), 4)


def _right(cells: Confusion) -> dict[str, Any]:
    return {"right": _number(cells.right), "of": cells.cases, **_figure(share(cells.right, cells.cases))}


def _figure(estimate: Estimate) -> dict[str, Any]:
    interval = [round(estimate.interval.low, 4), round(estimate.interval.high, 4)]
    return {"value": None if estimate.value is None else round(estimate.value, 4), "interval": interval}


def _wanted(criterion: _Criterion, verdict: str) -> dict[str, Any]:
    """Say which cases to label next, one trial each: drawn at random, the same ones in every run."""
    done = {item.case_id for item, row in criterion.labelled() if row.judge == verdict}
    missing = max(0, LABELS_PER_VERDICT - len(done))
    judged = [item for item, (ruled, _) in criterion.judged.items() if ruled == verdict]
    drawn: dict[str, Item] = {}
    for item in sorted(judged, key=lambda item: _draw(criterion.digest, item)):
        if item.case_id not in done:
            drawn.setdefault(item.case_id, item)
    following = [item._asdict() for item in drawn.values()][: min(missing, _SHOWN)]
    return {"missing": missing, "next": following}


def _draw(digest: str, item: Item) -> str:
    text = f"{digest} {item.trial} {item.case_id}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _prose(row: Mapping[str, Any], drawn: Drawn) -> list[str]:
    cells, rate = row["confusion"], row["pass_rate"]
    lines = [
        f"{row['criterion'][:200]} ({'blocks' if row['blocking'] else 'advisory'}, {row['digest']})",
        *(
            f"  When it says {verdict}, it is right in {figure['right']:g} of {figure['of']} cases"
            f" (at least {figure['interval'][0]:.0%})."
            for verdict in ("failed", "passed")
            if (figure := row[f"right_when_{verdict}"])["of"]
        ),
        f"  Both passed {cells['both_passed']:g}, both failed {cells['both_failed']:g}, wrongly failed"
        f" {cells['wrongly_failed']:g}, wrongly passed {cells['wrongly_passed']:g}.",
        f"  {_kappa_words('Kappa', row['kappa'])}"
        + ("" if row["human_kappa"] is None else f" {_kappa_words('Between people', row['human_kappa'])}"),
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
            lines.append(
                f"  {wanted['missing']} more labelled cases of those judged {verdict} are wanted{more}."
            )
    return lines


def _kappa_words(name: str, kappa: float | None) -> str:
    return f"{name} cannot be estimated." if kappa is None else f"{name} {kappa:.2f}."
