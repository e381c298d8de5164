"""Commands that are killed at any moment leave the previous evidence whole, or the new one."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from tests.e2e.program import agent_eval, start, tree
from tests.extent import amount
from tests.factories import make_case, make_suite

MOMENTS = amount(3, 4, 8)
CASES = 260

RUN = "run --suite b.json --out candidate --run-id c --set evidence.layout="
COMMANDS = {
    "run, files": f"{RUN}files",
    "run, compact": f"{RUN}compact",
    "compare": "compare --baseline baseline --candidate candidate",
    "gate": "gate --compare candidate/compare/baseline_delta.json --max-regressed-cases 9",
    "ci": "ci --suite b.json --baseline baseline --out out --fail-on never",
}
PACKS = ("baseline", "candidate", "out/shop")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two compared runs of the same suite, of which the second is a little worse."""
    place = tmp_path_factory.mktemp("compared")
    for name, out, tool in (("a", "baseline", "lookup"), ("b", "candidate", "search")):
        called = {number: tool if number < 5 else "lookup" for number in range(CASES)}
        policy = {"required_tools": ["lookup"]}
        cases = [make_case(f"case-{number}", each, policy=policy) for number, each in called.items()]
        (place / f"{name}.json").write_text(json.dumps(make_suite(*cases)))
        assert agent_eval("run", "--suite", f"{name}.json", "--out", out, cwd=place).code == 0
    assert agent_eval(*COMMANDS["compare"].split(), cwd=place).code == 0
    return place


@pytest.fixture
def place(compared: Path, tmp_path: Path) -> Path:
    """A copy of the compared runs."""
    return Path(shutil.copytree(compared, tmp_path / "place"))


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_is_there_is_whole_whenever_it_is_killed(command: str, place: Path) -> None:
    words = command.split()
    begun = time.monotonic()
    usual = agent_eval(*words, cwd=place)
    duration = time.monotonic() - begun
    assert usual.code == 0, usual.err
    expected = tree(place)
    for moment in range(1, MOMENTS + 1):
        process = start(*words, cwd=place)
        time.sleep(duration * moment / MOMENTS)
        process.kill()
        process.communicate()
        for pack in PACKS:
            if (place / pack).exists():
                assert main(["pack", "verify", "--run", str(place / pack)]) == 0, (moment, pack)
    again = agent_eval(*words, cwd=place)
    assert (again.code, again.err) == (0, "")
    # Workers notice soon that nobody waits for them any more; what they held is removed after that.
    for _ in range(20):
        if tree(place) == expected:
            break
        time.sleep(0.2)
        assert agent_eval(*words, cwd=place).code == 0
    assert tree(place) == expected
