"""`compare` and `gate` open a pack only if it was signed with the key that was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.attestations.keys import SigningKey
from agent_eval.operations.trust import Signer, attest
from tests.factories import make_config, make_pack, make_result
from tests.unit.cli.shell import Shell

COMPARE = ("compare", "--baseline", "baseline", "--candidate", "candidate")
GATE = ("gate", "--compare", "candidate/compare/baseline_delta.json", "--max-regressed-cases", "0")


@pytest.fixture(autouse=True)
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline signed with one key, and a candidate signed with another; and files of these keys."""
    monkeypatch.chdir(tmp_path)
    pems = []
    for name in ("baseline", "candidate"):
        key = SigningKey.generate()
        pack = make_pack(Path(name), [make_result("a")], config=make_config(run_id=name))
        attest(pack, Signer(key), environ={})
        Path(f"{name}.pub").write_bytes(key.public.pem)
        pems.append(key.public.pem)
    Path("both.pub").write_bytes(b"".join(reversed(pems)))


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        ((), None),
        (("--public-key", "both.pub"), None),
        (("--set", "baseline.public_key=baseline.pub"), None),
        (("--set", "baseline.public_key=candidate.pub"), "baseline"),
        (("--set", "baseline.public_key=baseline.pub", "--public-key", "baseline.pub"), "candidate"),
    ],
)
def test_a_pack_that_another_signed_is_neither_compared_nor_decided_on(
    flags: tuple[str, ...], refused: str | None, cli: Shell
) -> None:
    if refused is None:
        cli.json(*COMPARE, *flags)
        assert cli.json(*GATE, *flags)["gate_status"] == "passed"
        return
    cli.json(*COMPARE)
    for command in (COMPARE, GATE):
        error = cli.error(*command, *flags)
        assert error["code"] == "untrusted_pack"
        assert f"{refused}: attestations/" in error["message"]
    assert not Path("candidate/compare/gate_decision.json").exists()
