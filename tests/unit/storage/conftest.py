"""Fixtures for tests that touch the disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OF_THE_MACHINE

NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of a user whom permissions bind: for root, the test becomes nobody for its duration."""
    directory = Path(tempfile.mkdtemp(dir=OF_THE_MACHINE))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield directory
    finally:
        if was_root:
            os.seteuid(0)
        directory.chmod(0o755)
        for folder in [path for path in directory.rglob("*") if path.is_dir()]:
            folder.chmod(0o755)
        shutil.rmtree(directory)
