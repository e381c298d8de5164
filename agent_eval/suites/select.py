"""Select a part of a suite, as a suite, without reading it into memory.

`choose` selects cases by their ids (`select_cases`) and by a share such as 3/8 (`take_share`).
`encode_positions` records in a pack which cases a share had. `refuse_duplicates` finds duplicate case ids.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from typing_extensions import override

from agent_eval.contracts import SHARD_CASES, SuiteShard
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.suites.document import (
    Document,
    RawCase,
    Shard,
    WholeDocument,
    duplicate_problem,
    whole_shards,
)
from agent_eval.suites.reader import SuiteSource

MOST_SHARES = 10_000
_MOST_CASES = 1 << 32
_SHARE = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")

TAGS = "tags"
"""Member of a case's metadata with its tags."""


@dataclass(frozen=True)
class ChosenCases:
    """The part of a suite that a run judges, with the record of the choice for its pack.

    `case_ids` are sorted, `shard` is the requested share of them; None for all.
    """

    suite: SuiteSource
    case_ids: list[str] | None = None
    shard: SuiteShard | None = None


def choose(source: SuiteSource, cases: Collection[str], shard: str | None) -> ChosenCases:
    """Choose the requested cases of a suite.

    Raises:
        NothingMeasured: The suite has no such case, or the share has no cases.
        InvalidInput: Malformed suite or `shard`.
    """
    case_ids = None
    if cases:
        source, case_ids = select_cases(source, cases), sorted(set(cases))
    if shard is None:
        return ChosenCases(source, case_ids)
    share = parse_share(shard)
    part = take_share(source, share)
    assert isinstance(part.document, Selection)
    positions = encode_positions(part.document.positions, source.case_count)
    record = SuiteShard(number=share.number, count=share.count, total=source.case_count, positions=positions)
    return ChosenCases(part, case_ids, record)


def select_cases(source: SuiteSource, case_ids: Collection[str]) -> SuiteSource:
    """Select cases by their ids, in suite order; path and digest are those of the file.

    Raises:
        NothingMeasured: The suite has no case with one of these ids. Ignoring that would report on fewer
            cases than requested.
    """
    known: list[str] = []
    selected = []
    for raw, case in source.cases():
        known.append(case.case_id)
        if case.case_id in case_ids:
            selected.append(raw)
    missing = sorted(set(case_ids) - set(known))
    if missing:
        nearest = get_close_matches(missing[0], known, n=1)
        raise NothingMeasured(
            f"{source.path} has no case {missing[0]!r}",
            remedy=f"Did you mean {nearest[0]!r}?" if nearest else "Take the case_id from the suite.",
            file=str(source.path),
            case_id=missing[0],
            missing=missing,
        )
    payload = {**source.document.raw_header, "cases": selected}
    return SuiteSource(WholeDocument(source.path, source.digest, payload), source.header)


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` parts of a suite; `number` counts from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, case_id: str) -> bool:
        """Whether a case belongs to this part. Every case belongs to exactly one of the parts."""
        return share_of(case_id, self.count) == self.number


def parse_share(text: str) -> Share:
    """Parse a share such as `3/8`."""
    match = _SHARE.fullmatch(text.strip())
    share = Share(int(match[1]), int(match[2])) if match else Share(0, 0)
    if not 1 <= share.number <= share.count <= MOST_SHARES:
        raise InvalidInput(
            f"there is no shard {text[:40]!r}",
            remedy="Write the number of the shard and how many there are, such as 3/8; the first is 1.",
            field="shard",
        )
    return share


def share_of(case_id: str, count: int) -> int:
    """Return the part that a case belongs to, from 1 to `count`, by the hash of its id.

    The parts are about equal in size, and a case never changes its part.
    """
    hashed = int.from_bytes(hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return hashed % count + 1


class EmptyShard(NothingMeasured):
    """No case of a suite falls into a shard, which is no failure: `merge` needs no pack of it."""


def take_share(suite: SuiteSource, share: Share) -> SuiteSource:
    """Select the cases of a suite that belong to a share.

    Raises:
        InvalidInput: Malformed case, or duplicate case id.
        EmptyShard: No case belongs to this share.
    """
    part = select(suite, (at for at, (_, case) in enumerate(suite.cases()) if share.holds(case.case_id)))
    if not part.case_count:
        raise EmptyShard(
            f"{suite.path}: no case falls into shard {share} of its {suite.case_count} cases",
            remedy="Divide a small suite into fewer shards.",
            file=str(suite.path),
        )
    return part


def select(suite: SuiteSource, positions: Iterable[int]) -> SuiteSource:
    """Select the cases at the given positions, which rise."""
    return SuiteSource(Selection(suite.document, positions), suite.header)


class Selection(Document):
    """Some cases of another document, each with its place in the file, whose path, digest and header it has.

    `positions` are the rising positions of the selected cases in `whole`.
    """

    def __init__(self, whole: Document, positions: Iterable[int]) -> None:
        self.whole = whole
        self.path, self.digest = whole.path, whole.digest
        self.raw_header, self.header_line, self.problems = whole.raw_header, whole.header_line, whole.problems
        self.is_evidence = whole.is_evidence
        self.positions = array("Q", positions)
        self.shards = whole_shards(len(self.positions))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        positions = self.positions[shard.first : shard.first + shard.count]
        number = 0
        while number < len(positions):
            source = self.whole.shards[positions[number] // SHARD_CASES]
            for position, raw_case in enumerate(self.whole.read(source), start=source.first):
                if position == positions[number]:
                    yield raw_case
                    number += 1
                    if number == len(positions):
                        return

    @override
    def case_at(self, position: int) -> RawCase:
        return self.whole.case_at(self.positions[position])


def encode_positions(positions: Iterable[int], total: int) -> str:
    """Encode positions below `total` as text: one bit for each, compressed, in base64."""
    bits = bytearray((total + 7) // 8)
    for position in positions:
        bits[position // 8] |= 1 << position % 8
    return base64.b64encode(zlib.compress(bytes(bits), 9)).decode()


def decode_positions(text: str, total: int) -> list[int]:
    """Decode the positions that `encode_positions` encoded.

    Raises:
        ValueError: Malformed text, or another `total`.
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
    positions = [
        index * 8 + bit for index, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1
    ]
    if positions and positions[-1] >= total:
        raise ValueError("a position beyond the last")
    return positions


def refuse_duplicates(suite: SuiteSource, ids: Iterable[str]) -> None:
    """Refuse the first case whose id an earlier case has; `ids` are in suite order from the first case.

    Raises:
        InvalidInput: Duplicate id; names both places.
    """
    first: dict[str, int] = {}
    for position, case_id in enumerate(ids):
        earlier = first.setdefault(case_id, position)
        if earlier != position:
            places = (suite.document.case_at(at).place for at in (earlier, position))
            raise duplicate_problem(case_id, *places).to_error(str(suite.path))


def wanted_ids(
    source: SuiteSource, cases: Collection[str], texts: Sequence[str], tags: Sequence[str]
) -> Collection[str]:
    """Return the ids of the cases that are asked for, in suite order; none where all are.

    The id has one of the texts, in any letter case, and the case one of the tags; any will do where none is
    given.

    Raises:
        NothingMeasured: No case has such a name and such a tag.
        InvalidInput: Malformed suite.
    """
    if not texts and not tags:
        return cases
    known: dict[str, list[str]] = {}
    for _, case in source.cases():
        own = case.metadata.get(TAGS)
        known[case.case_id] = [tag for tag in own if isinstance(tag, str)] if isinstance(own, list) else []
    folded = [text.casefold() for text in texts]
    matching = [
        case_id
        for case_id, own in known.items()
        if (not cases or case_id in cases)
        and (not folded or any(text in case_id.casefold() for text in folded))
        and (not tags or not set(tags).isdisjoint(own))
    ]
    if matching:
        return matching
    named, tagged = (" or ".join(map(repr, wanted)) for wanted in (texts, tags))
    wanted = " and ".join([f"a name with {named}"] * bool(texts) + [f"the tag {tagged}"] * bool(tags))
    names, all_tags = list(known), sorted({tag for own in known.values() for tag in own})
    near = get_close_matches(texts[0], names, n=1) if texts else get_close_matches(tags[0], all_tags, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    there = f"Its tags are {', '.join(all_tags[:20])}." if all_tags else "Its cases have no tags."
    if texts and not tags:
        there = f"Its names include {', '.join(map(repr, names[:3]))}."
    raise NothingMeasured(
        f"{source.path} has no case with {wanted}", remedy=f"{hint}{there}", file=str(source.path)
    )
