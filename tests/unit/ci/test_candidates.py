"""An archive that is not what the platform recorded of it is withheld, whatever it contains."""

from __future__ import annotations

import pytest

from agent_eval.ci.candidates import MAX_ARCHIVE_BYTES, Withheld, checked_archive, refuse_large_archive
from agent_eval.storage.files import sha256_bytes


def test_an_archive_is_taken_with_its_recorded_digest_or_where_none_is_recorded() -> None:
    assert checked_archive(b"data", sha256_bytes(b"data"), "run 17") == b"data"
    assert checked_archive(b"data", None, "run 17") == b"data"


def test_an_archive_with_another_digest_is_withheld_and_that_is_said_at_the_top() -> None:
    with pytest.raises(Withheld, match="evidence of run 17 is not what was recorded") as refused:
        checked_archive(b"data", sha256_bytes(b"other"), "run 17")
    assert refused.value.loud


def test_an_archive_may_have_the_largest_size_and_not_a_byte_more() -> None:
    refuse_large_archive(MAX_ARCHIVE_BYTES, "run 17")
    with pytest.raises(Withheld, match="268,435,457 bytes, at most 268,435,456 are read") as refused:
        refuse_large_archive(MAX_ARCHIVE_BYTES + 1, "run 17")
    assert not refused.value.loud
