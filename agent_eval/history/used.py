"""The records of main's runs that a decision rests on, as they are kept beside it in the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts.history import RunRecord
from agent_eval.history.files import decode, encode_all


def encode_used(newest: RunRecord | None, main: Sequence[RunRecord]) -> bytes:
    """Encode main's newest run of all, which may be after the base, and then its runs before the base.

    The newest is written twice where it is one of these; nothing is written without a newest run.
    """
    return encode_all([newest, *main]) if newest is not None else b""


def decode_used(data: bytes, *, source: str) -> tuple[RunRecord | None, list[RunRecord]]:
    """Read what `encode_used` wrote: the newest run, and main's runs before the base, the newest first.

    Raises:
        InvalidInput: It is no list of records.
    """
    records = decode(data, source=source)
    return (records[0], records[1:]) if records else (None, [])
