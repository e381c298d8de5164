"""`--shard 3/8`: which cases of a suite are run here, where several machines share the work.

A case's share follows from its id alone, so adding or removing cases moves no other case.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.selection import Selection, select

SHARD = "shard"
"""Key of `RunConfig.execution_config`: `number`, `count`, the `total` of cases of all shards, `positions`,
which says where this shard's cases stand among them, so that merging can restore their order."""

MOST_SHARES = 10_000
_MOST_CASES = 1 << 32

_FORM = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` parts of a suite, `number` counting from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, case_id: str) -> bool:
        """Whether a case belongs to this part. Every case belongs to exactly one of the parts."""
        return share_of(case_id, self.count) == self.number


def share_of(case_id: str, count: int) -> int:
    """The part a case belongs to, from 1 to `count`: its id's hash, evenly spread and never changing."""
    hashed = int.from_bytes(hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return hashed % count + 1


def parse_share(text: str) -> Share:
    """Read `3/8`.

    Raises:
        InvalidInput: It is not a number from 1 to the count, a slash and the count.
    """
    match = _FORM.fullmatch(text.strip())
    share = Share(int(match[1]), int(match[2])) if match else Share(0, 0)
    if not 1 <= share.number <= share.count <= MOST_SHARES:
        raise InvalidInput(
            f"there is no shard {text[:40]!r}",
            remedy="Write the number of the shard and how many there are, such as 3/8; the first is 1.",
            field="shard",
        )
    return share


def take_share(suite: SuiteSource, share: Share) -> SuiteSource:
    """The part of a suite.

    Raises:
        InvalidInput: A case is not what it must be, or an id stands twice.
        NothingMeasured: No case falls into this part.
    """
    chosen = select(suite, _positions(suite, share))
    if not chosen.case_count:
        raise NothingMeasured(
            f"{suite.path}: no case falls into shard {share} of its {suite.case_count} cases",
            remedy="Divide a small suite into fewer shards.",
            file=str(suite.path),
        )
    return chosen


def _positions(suite: SuiteSource, share: Share) -> Iterator[int]:
    for position, (_, case) in enumerate(suite.cases()):
        if share.holds(case.case_id):
            yield position


def shard_config(share: Share, whole: SuiteSource, part: SuiteSource) -> dict[str, Any]:
    """What a run of a share says of it in its `execution_config`."""
    assert isinstance(part.document, Selection)
    positions = encode_positions(part.document.positions, whole.case_count)
    stated = {"number": share.number, "count": share.count, "total": whole.case_count, "positions": positions}
    return {SHARD: stated}


def encode_positions(positions: Iterable[int], total: int) -> str:
    """Positions below `total` as text: a bit each, compressed, in base64."""
    bits = bytearray((total + 7) // 8)
    for position in positions:
        bits[position // 8] |= 1 << position % 8
    return base64.b64encode(zlib.compress(bytes(bits), 9)).decode()


def decode_positions(text: str, total: int) -> list[int]:
    """What `encode_positions` encoded.

    Raises:
        ValueError: It is not that.
    """
    size = (total + 7) // 8
    if not 0 <= total < _MOST_CASES:
        raise ValueError("too many cases")
    inflate = zlib.decompressobj()
    try:
        bits = inflate.decompress(base64.b64decode(text, validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(bits) != size:
        raise ValueError("another number of cases")
    found = [
        place * 8 + bit for place, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1
    ]
    if found and found[-1] >= total:
        raise ValueError("a position beyond the last")
    return found
