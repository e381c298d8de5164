"""A part of a suite, as a suite, without holding it in memory."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from agent_eval.contracts import SHARD_CASES, SuiteShard
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.suites.document import Document, RawCase, Shard, WholeDocument, duplicate_problem
from agent_eval.suites.reader import SuiteSource


class Selection(Document):
    """Some cases of another document, in its order; path, digest and header stay those of the file.

    Args:
        whole: Where the cases are.
        positions: Positions of the selected ones in `whole`, rising.
    """

    def __init__(self, whole: Document, positions: Iterable[int]) -> None:
        self.whole = whole
        self.path, self.digest = whole.path, whole.digest
        self.raw_header, self.header_line, self.problems = whole.raw_header, whole.header_line, whole.problems
        self.positions = array("Q", positions)
        count = len(self.positions)
        self.shards = [
            Shard(index, first, min(SHARD_CASES, count - first))
            for index, first in enumerate(range(0, count, SHARD_CASES))
        ]

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The selected cases of a shard, each with its place in the file. Raises like `Document.read`."""
        wanted = self.positions[shard.first : shard.first + shard.count]
        number = 0
        while number < len(wanted):
            source = self.whole.shards[wanted[number] // SHARD_CASES]
            for position, found in enumerate(self.whole.read(source), start=source.first):
                if position == wanted[number]:
                    yield found
                    number += 1
                    if number == len(wanted):
                        return

    def case_at(self, position: int) -> RawCase:
        """The selected case at a position among the selected ones. Raises like `Document.read`."""
        return self.whole.case_at(self.positions[position])


def select(suite: SuiteSource, positions: Iterable[int]) -> SuiteSource:
    """The suite with the cases at these positions only, which rise."""
    return SuiteSource(Selection(suite.document, positions), suite.header)


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


def shard_config(share: Share, whole: SuiteSource, part: SuiteSource) -> SuiteShard:
    """What the pack of a share records of it."""
    assert isinstance(part.document, Selection)
    positions = encode_positions(part.document.positions, whole.case_count)
    return SuiteShard(number=share.number, count=share.count, total=whole.case_count, positions=positions)


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


@dataclass(frozen=True)
class ChosenCases:
    """The part of a suite that a run judges, and what its pack records of the choice.

    Attributes:
        suite: The cases that were chosen.
        case_ids: The ids that were asked for, sorted; None where all cases were.
        shard: The part of these; None for all of them.
    """

    suite: SuiteSource
    case_ids: list[str] | None = None
    shard: SuiteShard | None = None


def choose(source: SuiteSource, cases: Collection[str], shard: str | None) -> ChosenCases:
    """Choose the cases of a suite that were asked for.

    Args:
        source: The suite.
        cases: Ids; all when empty.
        shard: One of several parts of these, such as `3/8`; None for all.

    Raises:
        NothingMeasured: There is no such case, or none in this shard.
        InvalidInput: The suite is not what it must be, or `shard` is no shard.
    """
    case_ids = None
    if cases:
        source, case_ids = select_cases(source, cases), sorted(set(cases))
    if shard is None:
        return ChosenCases(source, case_ids)
    share = parse_share(shard)
    part = take_share(source, share)
    return ChosenCases(part, case_ids, shard_config(share, source, part))


def select_cases(source: SuiteSource, wanted: Collection[str]) -> SuiteSource:
    """The suite with the wanted cases only, in suite order; path and digest stay those of the file.

    Raises:
        NothingMeasured: The suite has no case of one of these names: leaving it out quietly would
            report on less than was asked for.
        InvalidInput: The suite is not what it must be.
    """
    known: list[str] = []
    selected = []
    for raw, case in source.cases():
        known.append(case.case_id)
        if case.case_id in wanted:
            selected.append(raw)
    missing = sorted(set(wanted) - set(known))
    if missing:
        nearest = get_close_matches(missing[0], known, n=1)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else "Take the case_id from the suite."
        raise NothingMeasured(
            f"{source.path} has no case {missing[0]!r}",
            remedy=hint,
            file=str(source.path),
            case_id=missing[0],
            missing=missing,
        )
    payload = {**source.document.raw_header, "cases": selected}
    return SuiteSource(WholeDocument(source.path, source.digest, payload), source.header)


def refuse_duplicates(suite: SuiteSource, ids: array[int]) -> None:
    """Refuse the first case whose id stood before.

    Args:
        suite: The suite.
        ids: `id_hash` of its cases in suite order, from the first one on.

    Raises:
        InvalidInput: Names both places.
    """
    ordered = sorted(ids)
    if all(one != other for one, other in pairwise(ordered)):
        return
    seen: dict[int, list[int]] = {}
    for position, hashed in enumerate(ids):
        alike = seen.setdefault(hashed, [])
        for first in alike:
            _refuse_if_equal(suite, first, position)
        alike.append(position)


def _refuse_if_equal(suite: SuiteSource, first: int, second: int) -> None:
    """Hashes may collide by accident; ids decide."""
    one, other = _case_at(suite, first), _case_at(suite, second)
    case_id = other.raw["case_id"]
    if one.raw["case_id"] == case_id:
        raise duplicate_problem(case_id, one.place, other.place).to_error(str(suite.path))


def _case_at(suite: SuiteSource, position: int) -> RawCase:
    shard = suite.shards[position // SHARD_CASES]
    return next(found for found in suite.document.read(shard) if found.place.position == position)
