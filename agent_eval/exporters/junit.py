"""Write a pack as JUnit XML, which every CI server shows: a test suite a case, a test case a judge.

The elements and attributes are those of `junit-10.xsd`, the strictest schema in use. JUnit knows no
inconclusive test: an inconclusive verdict is an error of the type `inconclusive`, because it is no pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from agent_eval.comparison.facts import trials_of
from agent_eval.contracts.verdict import CaseIndexRow, CaseResultRow, VerdictRow
from agent_eval.evidence.reader import Pack
from agent_eval.exporters.table import shard_name
from agent_eval.storage.json import dumps

LONGEST_TEXT = 8_000
"""Characters of a reason or of evidence; CI servers refuse or cut longer ones."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_TEXT = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"}
# A parser turns raw line breaks and tabs of an attribute into blanks.
_IN_ATTRIBUTE = {**_IN_TEXT, ord('"'): "&quot;", ord("\n"): "&#10;", ord("\t"): "&#9;"}

_FAILURES = {"failed": "failure", "error": "error", "inconclusive": "error"}
"""Element by outcome of a verdict."""


def junit_lines(pack: Pack) -> Iterator[str]:
    """Yield a pack as lines of JUnit XML, in suite order."""
    results = pack.results()
    counts = _counts(verdict for case in results for verdict in case["verdicts"])
    name = f"{pack.manifest.dataset_id} {pack.manifest.run_id}"
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    totals = {key: counts[key] for key in ("tests", "failures", "errors")}
    yield f"<testsuites{_attributes({'name': name, **totals})}>\n"
    for index, case in zip(pack.index(), results, strict=True):
        yield from _case_lines(pack, case, index)
    yield "</testsuites>\n"


def _case_lines(pack: Pack, case: CaseResultRow, index: CaseIndexRow) -> Iterator[str]:
    latency = index["latency_ms"]
    started_at = None
    with suppress(ValueError):
        # JUnit has it local to its offset, without the offset.
        moment = datetime.fromisoformat(pack.config.started_at)
        started_at = moment.replace(tzinfo=None, microsecond=0).isoformat()
    attributes = {
        "name": case["case_id"],
        **_counts(case["verdicts"]),
        "timestamp": started_at,
        "time": None if latency is None else f"{latency / 1000:.3f}",
    }
    # What a case is apart from its verdicts: its run, its shard, and how each of its trials ended.
    config, trials = pack.config, trials_of(case)
    properties: list[tuple[str, object]] = [
        ("run_id", config.run_id),
        ("agent_version", config.agent_version),
        ("model", config.model),
        ("shard", shard_name(pack)),
        ("outcome", case["outcome"]),
        ("hard_failed", case["hard_failed"]),
        ("score", None if case["score"] is None else f"{case['score']:.6g}"),
        ("trials", len(trials)),
    ]
    if len(trials) > 1:
        properties += [("case_policy", case.get("case_policy") or ""), ("deciding_trial", case["trial"])]
        for number, trial in enumerate(trials):
            properties.append((f"trial.{number}.outcome", trial["outcome"]))
            properties += [(f"trial.{number}.{row['judge_id']}", row["outcome"]) for row in trial["verdicts"]]
    yield f"  <testsuite{_attributes(attributes)}>\n    <properties>\n"
    for name, value in properties:
        if value is not None:
            yield f"      <property{_attributes({'name': name, 'value': value})}/>\n"
    yield "    </properties>\n"
    for verdict in case["verdicts"]:
        yield from _verdict_lines(pack.manifest.dataset_id, verdict)
    yield "  </testsuite>\n"


def _verdict_lines(dataset_id: str, verdict: VerdictRow) -> Iterator[str]:
    # A dot separates package and class; one in an id would make packages of its parts.
    packages = [name.replace(".", "_") for name in (dataset_id, verdict["case_id"])]
    test = f"    <testcase{_attributes({'classname': '.'.join(packages), 'name': verdict['judge_id']})}"
    outcome, reason = verdict["outcome"], verdict["reason"][:LONGEST_TEXT]
    if outcome == "passed":
        yield f"{test}/>\n"
        return
    yield f"{test}>\n"
    if outcome == "skipped":
        yield f"      <skipped{_attributes({'message': reason})}/>\n"
    else:
        lines = [reason]
        if not verdict["hard"]:
            lines.append("This judge is not hard: its failure alone is no hard fail.")
        if verdict["evidence_refs"]:
            lines.append(f"Events: {', '.join(map(str, verdict['evidence_refs']))}")
        if verdict["evidence"]:
            evidence = dumps(verdict["evidence"]).decode()
            lines.append(f"Evidence: {evidence[:LONGEST_TEXT]}{'…' if len(evidence) > LONGEST_TEXT else ''}")
        element, body = _FAILURES[outcome], _text("\n".join(lines)).translate(_IN_TEXT)
        about = _attributes({"type": verdict["failure"] or outcome, "message": reason})
        yield f"      <{element}{about}>{body}</{element}>\n"
    yield "    </testcase>\n"


def _counts(verdicts: Iterable[VerdictRow]) -> dict[str, int]:
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for verdict in verdicts:
        counts["tests"] += 1
        outcome = verdict["outcome"]
        if outcome != "passed":
            counts["skipped" if outcome == "skipped" else _FAILURES[outcome] + "s"] += 1
    return counts


def _attributes(values: Mapping[str, object]) -> str:
    """Write attributes; those without a value are left out."""
    words = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }
    return "".join(f' {name}="{_text(word).translate(_IN_ATTRIBUTE)}"' for name, word in words.items())


def _text(text: str) -> str:
    """Replace what XML cannot hold at all, not even escaped: most control characters, lone surrogates."""
    return _NOT_IN_XML.sub("\ufffd", text)
