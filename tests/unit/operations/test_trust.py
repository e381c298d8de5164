"""`compare` and `gate` open a pack only if it was signed with the key that was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.attestations.dsse import UntrustedPack
from agent_eval.attestations.keys import SigningKey
from agent_eval.cli.main import main
from agent_eval.operations.compare import PackSources, compare_packs
from agent_eval.operations.gate import Rules, decide_on
from agent_eval.operations.trust import Signer, SignerKeys, attest
from tests.factories import make_config, make_pack, make_result

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
RULES = Rules.stated({"max_regressed_cases": 0})


@pytest.fixture
def packs(tmp_path: Path) -> tuple[Path, Path]:
    """A baseline signed with KEY, and a candidate signed with OTHER."""
    paths = []
    for name, key in (("baseline", KEY), ("candidate", OTHER)):
        path = make_pack(tmp_path / name, [make_result("a")], config=make_config(run_id=name))
        attest(path, Signer(key), environ={})
        paths.append(path)
    return paths[0], paths[1]


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        (SignerKeys(), ""),
        (SignerKeys(KEY.public, OTHER.public), ""),
        (SignerKeys(OTHER.public, None), "baseline"),
        (SignerKeys(KEY.public, KEY.public), "candidate"),
    ],
)
def test_a_pack_that_another_signed_is_neither_compared_nor_decided_on(
    packs: tuple[Path, Path], keys: SignerKeys, refused: str
) -> None:
    baseline, candidate = packs
    if refused:
        with pytest.raises(UntrustedPack, match=rf"{refused}: attestations/.*not signed by a trusted key"):
            compare_packs(baseline, candidate, keys=keys, environ={})
    result = compare_packs(baseline, candidate, environ={})
    sources = PackSources(str(baseline), candidate, keys=keys)
    if refused:
        with pytest.raises(UntrustedPack, match=f"{refused}: attestations/"):
            decide_on(result.path, RULES, packs=sources, environ={})
        assert not (candidate / "compare/gate_decision.json").exists()
    else:
        assert decide_on(result.path, RULES, packs=sources, environ={}).decision.passed


def test_keys_are_files_on_the_command_line(
    packs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, key in (("key.pub", KEY), ("other.pub", OTHER)):
        (tmp_path / name).write_bytes(key.public.pem)
    baseline, candidate = map(str, packs)
    compare = ["compare", "--baseline", baseline, "--candidate", candidate]
    of_baseline = "baseline.public_key={}"
    assert main([*compare, "--set", of_baseline.format(tmp_path / "key.pub")]) == 0
    assert main([*compare, "--set", of_baseline.format(tmp_path / "other.pub")]) == 2
    (tmp_path / "both.pub").write_bytes(OTHER.public.pem + KEY.public.pem)
    assert main([*compare, "--public-key", str(tmp_path / "both.pub")]) == 0
    assert main([*compare, "--public-key", str(tmp_path / "key.pub")]) == 2
    gate = ["gate", "--compare", f"{candidate}/compare/baseline_delta.json", "--max-regressed-cases", "0"]
    assert main([*gate, "--public-key", str(tmp_path / "both.pub")]) == 0
    assert main([*gate, "--public-key", str(tmp_path / "key.pub")]) == 2
    assert '"untrusted_pack"' in capsys.readouterr().err
