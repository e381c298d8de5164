"""`attest` mends what a kill left of its own, and removes nothing else; `test_fault_injection` kills it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.attestations.files import GATE, RESULT
from agent_eval.attestations.keys import SigningKey
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.trust import Signer, attest, open_trusted
from tests.factories import make_config, make_pack, make_result
from tests.security.attested_packs import trusting

KEY = SigningKey.generate()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_pack(tmp_path / "p", [make_result("a")], config=make_config())


@pytest.mark.parametrize("name", ["attestations/other.json", "compare/x.json", "run/extra.json"])
def test_attest_removes_no_file_but_its_own(root: Path, name: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_bytes(b"{}")
    with pytest.raises(InvalidPack, match="added after"):
        attest(root, Signer(KEY), environ={})
    assert (root / name).exists()


def test_attest_removes_nothing_through_a_link(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "attestations"
    outside.mkdir()
    (outside / Path(RESULT.bundle).name).write_bytes(b"not of the pack")
    (root / "attestations").symlink_to(outside)
    with pytest.raises(InvalidPack, match="symbolic link"):
        attest(root, Signer(KEY), environ={})
    assert (outside / Path(RESULT.bundle).name).read_bytes() == b"not of the pack"


def test_a_file_of_its_own_that_is_not_listed_is_made_again_and_not_trusted(root: Path) -> None:
    (root / "attestations").mkdir()
    for name in (RESULT.bundle, GATE.bundle):
        (root / name).write_bytes(b"planted")
    with pytest.raises(InvalidPack, match="added after"):
        open_pack(root)
    attest(root, Signer(KEY), environ={})
    assert open_trusted(root, trusting(KEY)).key_id == KEY.public.key_id
    assert not (root / GATE.bundle).exists()
