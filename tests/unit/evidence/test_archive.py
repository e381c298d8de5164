"""Several packs in one zip, and what artifact stores make of it."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval.errors import AlteredPack, InvalidInput, InvalidPack
from agent_eval.evidence.archive import open_bundle, write_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from tests.factories import make_config, make_pack, make_result, pretty, seal


@pytest.fixture
def packs(tmp_path: Path) -> dict[str, Path]:
    return {
        "shop": make_pack(tmp_path / "one", [make_result("a"), make_result("b", failed="policy")]),
        "chat": make_pack(tmp_path / "two", [make_result("../x")], layout="compact"),
    }


Member = tuple[str, Path | bytes]


def zipped(out: Path, *members: Member) -> Path:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content if isinstance(content, bytes) else content.read_bytes())
    return out


def below(root: Path, prefix: str = "") -> list[Member]:
    return [(prefix + path.relative_to(root).as_posix(), path) for path in root.rglob("*") if path.is_file()]


def _with_valid_seal(root: Path) -> None:
    path = root / "cases/a/verdicts.json"
    row = json.loads(path.read_bytes())
    row["verdicts"][0]["reason"] = "All is well."
    path.write_bytes(pretty(row))
    seal(root, make_config(), layout="files", case_ids=["a", "b"])


def _add(root: Path) -> None:
    (root / "compare").mkdir()
    (root / "compare/x").touch()


ALTERATIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a verdict and a valid seal": (_with_valid_seal, "cases/a/verdicts.json"),
    "a verdict": (lambda root: (root / "cases/a/verdicts.json").write_bytes(b"{}"), "cases/a/verdicts.json"),
    "a file added": (_add, "compare/x"),
    "a file removed": (lambda root: (root / "cases/b/trajectory.json").unlink(), "cases/b/trajectory.json"),
    "a decision": (lambda root: (root / "compare/gate.json").write_bytes(b"[]"), "compare/gate.json"),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_what_is_archived_is_what_was_sealed(tmp_path: Path, packs: dict[str, Path], alteration: str) -> None:
    alter, path = ALTERATIONS[alteration]
    opened = open_pack(packs["shop"])
    if alteration == "a decision":
        write_output(packs["shop"] / "compare/gate.json", b"{}")
        write_bundle({"shop": opened}, tmp_path / "before.zip")
        assert open_bundle(tmp_path / "before.zip")["shop"].read("compare/gate.json") == b"{}"
    alter(packs["shop"])
    with pytest.raises(AlteredPack) as caught:
        write_bundle({"shop": opened, "chat": packs["chat"]}, tmp_path / "b.zip")
    assert caught.value.message == f"A sealed pack was altered while the job ran: `shop/{path}`."
    assert caught.value.exit_code == 4
    assert not (tmp_path / "b.zip").exists()


def test_the_same_packs_give_the_same_bytes(tmp_path: Path, packs: dict[str, Path]) -> None:
    write_bundle(packs, tmp_path / "one.zip")
    write_bundle(dict(reversed(packs.items())), tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("slug", "prefix", "beside"),
    [
        ("", "", []),
        ("out/evidence/shop", "out/evidence/shop/", [("out/report.md", b"#")]),
        ("chat", "chat/", [("web/manifest.json", b'{"name": "app"}')]),
    ],
    ids=["at the root", "at any depth", "beside a manifest of another program"],
)
def test_packs_are_found(
    tmp_path: Path, packs: dict[str, Path], slug: str, prefix: str, beside: list[Member]
) -> None:
    opened = open_bundle(zipped(tmp_path / "a.zip", *below(packs["shop"], prefix), *beside))
    assert {slug: pack.summary.total_cases for slug, pack in opened.items()} == {slug: 2}


def test_what_lies_within_a_pack_is_not_taken_for_a_pack(tmp_path: Path, packs: dict[str, Path]) -> None:
    inner = below(packs["chat"], "chat/compare/inner/")
    artifact = zipped(tmp_path / "a.zip", *below(packs["chat"], "chat/"), *inner)
    with pytest.raises(InvalidPack, match="added after the pack was sealed"):
        open_bundle(artifact)


def test_slugs_that_lead_elsewhere_are_not_written(tmp_path: Path, packs: dict[str, Path]) -> None:
    with pytest.raises(InvalidInput, match="empty part"):
        write_bundle({"../shop": packs["shop"]}, tmp_path / "b.zip")
    (packs["shop"] / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidPack, match="symbolic link"):
        write_bundle(packs, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()
