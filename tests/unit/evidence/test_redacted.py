"""Packs that are read without the secrets that their run did not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.evidence.redacted import RedactedPack
from agent_eval.storage.redaction import Redactor
from tests.factories import make_case, make_pack, make_result

SECRET = "refund-4f81b7"


def packed(place: Path, layout: str) -> Pack:
    results = [make_result(SECRET, failed="policy"), make_result("other")]
    cases = [make_case(name, output=f"The key is {SECRET}.") for name in (SECRET, "other")]
    return open_pack(make_pack(place / "pack", results, cases=cases, layout=layout))


@pytest.mark.parametrize("layout", ["files", "compact"])
def test_a_case_is_found_by_its_id_and_read_without_the_secret(tmp_path: Path, layout: str) -> None:
    pack = packed(tmp_path, layout)
    shown = RedactedPack(pack, Redactor({SECRET: "KEY"}))
    assert [row["case_id"] for row in shown.results()] == pack.case_ids() == [SECRET, "other"]
    assert [row["case_id"] for row in shown.index()] == [SECRET, "other"]
    assert shown.results_by_id()[SECRET]["outcome"] == "failed"
    assert shown.trajectory(SECRET).recorded.events[-1].content == "The key is [redacted:KEY]."
    assert SECRET not in str(shown.raw_trajectory("other"))
    assert SECRET in str(pack.raw_trajectory("other"))


def test_without_secrets_everything_is_as_it_was_recorded(tmp_path: Path) -> None:
    pack = packed(tmp_path, "files")
    shown = RedactedPack(pack, Redactor({"of-another-agent": "KEY"}))
    assert list(shown.results()) == list(pack.results())
    assert list(shown.index()) == list(pack.index())
    assert (shown.config, shown.manifest_sha256) == (pack.config, pack.manifest_sha256)
    assert shown.raw_trajectory("other") == pack.raw_trajectory("other")
