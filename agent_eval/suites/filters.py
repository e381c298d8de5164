"""Choose cases by texts in their names and by their tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

from agent_eval.errors import NothingMeasured
from agent_eval.suites.reader import SuiteSource

TAGS = "tags"
"""Member of a case's metadata with its tags."""


_NAMES_SHOWN = 3


def wanted_ids(
    source: SuiteSource, cases: Collection[str], texts: Sequence[str], tags: Sequence[str]
) -> Collection[str]:
    """Return the ids of the cases that are asked for, in suite order; none where all are.

    Args:
        texts: Texts of which the id has one, in any letter case; any id if empty.
        tags: Tags of which the case has one; any case if empty.

    Raises:
        NothingMeasured: No case has such a name and such a tag.
        InvalidInput: Malformed suite.
    """
    if not texts and not tags:
        return cases
    known: list[tuple[str, list[str]]] = [
        (case.case_id, _tags(case.metadata.get(TAGS))) for _, case in source.cases()
    ]
    folded = [text.casefold() for text in texts]
    matching = [
        case_id
        for case_id, own in known
        if (not cases or case_id in cases)
        and (not folded or any(text in case_id.casefold() for text in folded))
        and (not tags or not set(tags).isdisjoint(own))
    ]
    if not matching:
        raise _nothing(source, known, texts, tags)
    return matching


def _tags(value: Any) -> list[str]:
    return [tag for tag in value if isinstance(tag, str)] if isinstance(value, list) else []


def _nothing(
    source: SuiteSource, known: Sequence[tuple[str, list[str]]], texts: Sequence[str], tags: Sequence[str]
) -> NothingMeasured:
    wanted = " and ".join(
        [f"a name with {' or '.join(map(repr, texts))}"] * bool(texts)
        + [f"the tag {' or '.join(map(repr, tags))}"] * bool(tags)
    )
    names = [case_id for case_id, _ in known]
    all_tags = sorted({tag for _, own in known for tag in own})
    near = [*get_close_matches(texts[0], names, n=1)] if texts else get_close_matches(tags[0], all_tags, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    there = f"Its tags are {', '.join(all_tags[:20])}." if all_tags else "Its cases have no tags."
    if texts and not tags:
        there = f"Its names include {', '.join(map(repr, names[:_NAMES_SHOWN]))}."
    return NothingMeasured(
        f"{source.path} has no case with {wanted}", remedy=f"{hint}{there}", file=str(source.path)
    )
