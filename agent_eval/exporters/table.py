"""Write a pack as CSV: a row for each verdict of each trial, safe to open in a spreadsheet.

A spreadsheet runs a cell that begins like a formula, and what an agent wrote may do so. Such a text gets an
apostrophe before it, which spreadsheets show as text; numbers of this program are written as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from agent_eval.comparison.facts import trials_of
from agent_eval.evidence.reader import Pack
from agent_eval.storage.json import dumps

COLUMNS = (
    *("run_id", "dataset_id", "shard", "case_id", "trial", "trials", "decides"),
    *("case_outcome", "trial_outcome", "judge_id", "category", "outcome", "passed", "hard", "score"),
    *("weight", "failure", "reason", "evidence_refs", "evidence"),
    *("case_input_tokens", "case_output_tokens", "case_cost_usd", "case_latency_ms"),
)
"""The columns, in order. Tokens, cost and latency are those of the case, and repeat in each of its rows."""

_OF_CASE = ("input_tokens", "output_tokens", "cost_usd", "latency_ms")

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "|", "%")
"""How a text begins that a spreadsheet may run; the wide forms are read as the narrow ones."""


def csv_lines(pack: Pack) -> Iterator[str]:
    """Yield a pack as lines of CSV (RFC 4180), the names of the columns first."""
    yield _line({name: name for name in COLUMNS})
    of_run = {
        "run_id": pack.manifest.run_id,
        "dataset_id": pack.manifest.dataset_id,
        "shard": shard_name(pack),
    }
    for index, case in zip(pack.index(), pack.results(), strict=True):
        trials = trials_of(case)
        for number, trial in enumerate(trials):
            of_trial = {
                **of_run,
                **{f"case_{name}": index[name] for name in _OF_CASE},  # type: ignore[literal-required]
                "case_id": case["case_id"],
                "trial": number,
                "trials": len(trials),
                "decides": number == case["trial"],
                "case_outcome": case["outcome"],
                "trial_outcome": trial["outcome"],
            }
            for verdict in trial["verdicts"]:
                evidence = {
                    "evidence_refs": " ".join(map(str, verdict["evidence_refs"])) or None,
                    "evidence": dumps(verdict["evidence"]).decode() if verdict["evidence"] else None,
                }
                yield _line({**verdict, **of_trial, **evidence})


def shard_name(pack: Pack) -> str | None:
    """Name the part of the suite that the pack holds, such as `3/8`; None if it holds all of it."""
    shard = pack.config.execution_config.shard
    if shard is None:
        return None
    return str(shard.number) if shard.count is None else f"{shard.number}/{shard.count}"


def _line(values: Mapping[str, object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(cell(values.get(name)) for name in COLUMNS)
    return buffer.getvalue()


def cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet runs.

    Example:
        >>> cell('=HYPERLINK("https://example.org")'), cell("-1"), cell(-1), cell(None), cell(True)
        ('\\'=HYPERLINK("https://example.org")', "'-1", -1, '', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    begins = "".join(char for char in text[:200] if char.isprintable()).lstrip()
    is_safe = not begins.startswith(_FORMULA) and not text.startswith(("\t", "\r", "\n"))
    return text if is_safe else f"'{text}"
