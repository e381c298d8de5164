"""Each package of the image's locks has a wheel with a locked hash on both platforms; nothing is compiled."""

import re

import pytest
from packaging.utils import parse_wheel_filename

from tests.container.image import LOCKS, wheels
from tests.contract.test_locks import pins
from tests.extent import unavailable

pytestmark = pytest.mark.slow

UNREACHABLE = re.compile(r"Retrying|ConnectionError|Temporary failure in name resolution|timed out")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_locked_package_has_a_wheel_with_a_locked_hash(machine: str):
    try:
        directory = wheels(machine)
    except RuntimeError as failed:
        if UNREACHABLE.search(str(failed)):
            unavailable(f"without the package index, from which the wheels for {machine} come")
        raise
    found = {}
    compiled = set()
    for path in directory.iterdir():
        name, version, _, tags = parse_wheel_filename(path.name)
        found[name] = str(version)
        platforms = {tag.platform for tag in tags}
        assert all(platform == "any" or platform.endswith(f"_{machine}") for platform in platforms), path.name
        compiled |= {name} if "any" not in platforms else set()
    locked = {name: version for lock in LOCKS for name, version in pins(lock.rpartition("/")[2]).items()}
    assert found == locked
    assert {"cryptography", "google-re2", "orjson", "pydantic-core"} <= compiled
