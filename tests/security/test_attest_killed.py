"""`attest` that is killed at any rename loses nothing, and done again it leaves a pack that verifies."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval.attestations.files import GATE, RESULT
from agent_eval.attestations.keys import SigningKey
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.trust import Signer, attest, open_trusted
from tests.factories import make_config, make_pack, make_result
from tests.security.attested_packs import SECRET, decide, trusting

KEY = SigningKey.generate()
RENAMES = 12
"""Two statements, three files each, and as many times derived.json."""

KILLED = """
import os, signal, sys
from pathlib import Path
from agent_eval.attestations.keys import read_signing_key
from agent_eval.operations.trust import Signer, attest
remaining, replace = int(sys.argv[1]), os.replace

def killed_after(*arguments, **keywords):
    global remaining
    replace(*arguments, **keywords)
    remaining -= 1
    if not remaining:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = killed_after
attest(Path("p"), Signer(read_signing_key(Path("key.pem")), b"secret"), environ={})
"""


def attest_and_kill(place: Path, renames: int) -> int:
    """Attest in a process that is killed right after a rename; its return code."""
    (place / "key.pem").write_bytes(KEY.pem())
    command = [sys.executable, "-c", KILLED, str(renames)]
    return subprocess.run(command, cwd=place, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("renames", range(1, RENAMES + 1))
def test_attest_recovers_from_a_kill_after_any_rename(tmp_path: Path, renames: int) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")], config=make_config())
    decide(root)
    verdicts = (root / "cases/a/verdicts.json").read_bytes()
    assert attest_and_kill(tmp_path, renames) == -signal.SIGKILL
    assert (root / "cases/a/verdicts.json").read_bytes() == verdicts
    attest(root, Signer(KEY, SECRET), environ={})
    trusted = open_trusted(root, trusting(KEY, secret=SECRET, gate=True))
    assert len(trusted.verified) == 4


def test_there_are_no_further_renames(tmp_path: Path) -> None:
    decide(make_pack(tmp_path / "p", [make_result("a")], config=make_config()))
    assert attest_and_kill(tmp_path, RENAMES + 1) == 0


@pytest.mark.parametrize("name", ["attestations/other.json", "compare/x.json", "run/extra.json"])
def test_attest_removes_no_file_but_its_own(tmp_path: Path, name: str) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")], config=make_config())
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_bytes(b"{}")
    with pytest.raises(InvalidPack, match="added after"):
        attest(root, Signer(KEY), environ={})
    assert (root / name).exists()


def test_attest_removes_nothing_through_a_link(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")], config=make_config())
    outside = tmp_path / "attestations"
    outside.mkdir()
    (outside / Path(RESULT.bundle).name).write_bytes(b"not of the pack")
    (root / "attestations").symlink_to(outside)
    with pytest.raises(InvalidPack, match="symbolic link"):
        attest(root, Signer(KEY), environ={})
    assert (outside / Path(RESULT.bundle).name).read_bytes() == b"not of the pack"


def test_a_file_of_its_own_that_is_not_listed_is_made_again_and_not_trusted(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")], config=make_config())
    (root / "attestations").mkdir()
    for name in (RESULT.bundle, GATE.bundle):
        (root / name).write_bytes(b"planted")
    with pytest.raises(InvalidPack, match="added after"):
        open_pack(root)
    attest(root, Signer(KEY), environ={})
    assert open_trusted(root, trusting(KEY)).key_id == KEY.public.key_id
    assert not (root / GATE.bundle).exists()
