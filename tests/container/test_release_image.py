"""The digest that a release writes into action.yml, from a layout that a builder of images wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release import LABEL, CannotRelease, Layout, check, verified_digest
from tests.container.image import ROOT, Buildah, missing
from tests.extent import unavailable

pytestmark = [pytest.mark.container, pytest.mark.slow]

COMMIT = "c" * 40
VERSION = check(ROOT)


def index_of(buildah: Buildah, name: str, revisions: dict[str, str]) -> str:
    """Build an empty image for each platform, from the commit named for it; return their index."""
    buildah("manifest", "create", name)
    for architecture, revision in revisions.items():
        container = buildah("from", "scratch")
        labels = {"version": str(VERSION), "revision": revision}
        options = [f"--label={LABEL}{key}={value}" for key, value in labels.items()]
        buildah("config", "--os", "linux", "--arch", architecture, *options, container)
        image = f"localhost/{name}-{architecture}"
        buildah("commit", "--quiet", "--rm", container, image)
        buildah("manifest", "add", name, image)
    return name


def test_the_digest_is_the_one_under_which_the_builder_published_the_index(tmp_path: Path):
    reason = missing()
    if reason:
        unavailable(f"of an image for two platforms, which {reason}")
    buildah = Buildah(tmp_path / "store")

    name = index_of(buildah, "sound", {"amd64": COMMIT, "arm64": COMMIT})
    published = tmp_path / "digest"
    layout = tmp_path / "layout"
    buildah("manifest", "push", "--all", f"--digestfile={published}", name, f"oci:{layout}:release")
    assert verified_digest(Layout(layout), VERSION, COMMIT) == published.read_text().strip()

    name = index_of(buildah, "mixed", {"amd64": COMMIT, "arm64": "d" * 40})
    mixed = tmp_path / "mixed"
    buildah("manifest", "push", "--all", name, f"oci:{mixed}:release")
    with pytest.raises(CannotRelease, match="linux/arm64"):
        verified_digest(Layout(mixed), VERSION, COMMIT)
