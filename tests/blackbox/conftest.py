"""The installed program, built once for all workers, and the places in which rows begin."""

from pathlib import Path

import pytest
from filelock import FileLock

from tests.blackbox.installed import Program, installed
from tests.blackbox.rows import Places


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A directory of this session that all its workers share."""
    own = tmp_path_factory.getbasetemp()
    place = (own.parent if hasattr(request.config, "workerinput") else own) / "blackbox"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(scope="session")
def program(common: Path) -> Program:
    with FileLock(common / "installed.lock"):
        return installed(common / "installed")


@pytest.fixture(scope="session")
def places(common: Path, program: Program) -> Places:
    return Places(common / "places", program)
