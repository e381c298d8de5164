"""The image is built once; where it cannot be built its tests are skipped, but never on CI."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.image import Image, build, missing
from tests.extent import unavailable


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The project's own image, built without a network."""
    reason = missing()
    if reason:
        unavailable(f"of the image, which {reason}")
    scratch = tmp_path_factory.mktemp("container")
    try:
        yield build(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout that belongs to a user who is not root, as on a runner."""
    directory = tmp_path / "workspace"
    directory.mkdir()
    examples = Path(__file__).parents[2] / "examples"
    for name in ("suite_good.json", "suite_bad.json"):
        shutil.copyfile(examples / name, directory / name)
    for path in (directory, *directory.iterdir()):
        os.chown(path, 1001, 1001)
    return directory
