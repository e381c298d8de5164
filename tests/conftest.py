"""Fixtures that every test may use."""

import difflib
import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.extent import FULL, NIGHTLY, is_in_sample, unavailable
from tests.left_out import RECORDS, Recorder, skip_marked

# No deadline: a busy machine is slow now and then, which says nothing about the code.
settings.register_profile("full", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
# A changed source fails at the first example or passes; which example is smallest does not matter.
settings.register_profile(
    "mutation", deadline=None, max_examples=10, phases=[Phase.explicit, Phase.generate], database=None,
    derandomize=True,
)  # fmt: skip
settings.load_profile("full" if FULL else "quick")


MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 4 << 30
"""Bytes; all tests together need less than one GB at a time."""
TEMPORARY_ROOT = "PYTEST_DEBUG_TEMPROOT"
"""Where pytest makes the temporary directories of tests."""
OF_THE_MACHINE = Path(tempfile.gettempdir())
"""Temporary files that all users reach, or that are too large for memory. Tests make theirs elsewhere."""


def pytest_configure(config: pytest.Config) -> None:
    """Record what is left out; take back SIGINT, which a shell makes its background jobs ignore."""
    if TEMPORARY_ROOT not in os.environ and has_room_for_tests(MEMORY):
        # Half of what the tests wait for is a disk that syncs; a killed process loses no more in memory.
        os.environ[TEMPORARY_ROOT] = str(MEMORY)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    directory = os.environ.get(RECORDS)
    if directory and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(directory)))


def has_room_for_tests(directory: Path) -> bool:
    """Whether files can be written there in plenty, and executed."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return False
    state = os.statvfs(directory)
    return state.f_bavail * state.f_frsize >= ENOUGH_MEMORY and not state.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that this run is too short for, unless they are asked for."""
    for mark, has_time in (("slow", FULL), ("cross", NIGHTLY)):
        if not has_time and mark not in config.option.markexpr:
            skip_marked(items, mark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what is not in the sample: here, so that the summary has one line for all of them."""
    if not is_in_sample(item.nodeid):
        pytest.skip("further whole commands")


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests themselves, which stay to the end: a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what programs keep for their user, or for a moment, where the tests keep theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def browser() -> str:
    """The path of Chromium. Without one the test is skipped; on CI, where .ci/browser installs it, fails."""
    from tests.pictures import browser as find

    return find() or unavailable("without Chromium (apt-get install chromium)")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a golden file: `golden("comment/passed.md", text)`.

    The file lies in `golden/` beside the test. `UPDATE_GOLDEN=1` writes it instead.
    """
    directory = request.path.parent / "golden"

    def check(name: str, text: str) -> None:
        path = directory / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        expected = path.read_bytes().decode() if path.is_file() else ""
        if text != expected:
            diff = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"golden/{name}", "now"
            )
            pytest.fail(f"{''.join(diff)}\n\nUPDATE_GOLDEN=1 accepts what is there now.", pytrace=False)

    return check
