"""A call that writes fails, or ends the process: nothing acknowledged is lost, and one more try completes it.

Each command is run once to count its writes, syncs, renames, truncations, new files and directories. Each of
these is then the one at which the process is killed (a write after half of its bytes), the disk is full from
then on, or the disk reports an error. A push takes a sample with each kind of call, a developer's run fewer,
the night all.
"""

import json
import random
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_eval.attestations.keys import SigningKey
from agent_eval.cli.main import main
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.trust import open_trusted
from agent_eval.registry.store import RegistryStore
from agent_eval.storage.journal import Journal, whole_lines
from tests.e2e.program import CLOCK, tree
from tests.extent import FULL, NIGHTLY, amount
from tests.factories import make_case, make_suite
from tests.security.attested_packs import SECRET, decide, trusting
from tests.security.faults import MODES, FaultServer, Outcome

SAMPLE = amount(2, 15, 0)
"""Calls of each command and mode that are tried where not all are, if there are not more kinds of them."""

AGENT = """
import json, sys
task = json.load(sys.stdin)
with open(sys.argv[1], "a") as calls:
    calls.write(task["case_id"] + "\\n")
print(json.dumps({"assistant_output": task["case_id"], "tool_calls": [{"tool": "lookup", "arguments": {}}]}))
"""
KEY = SigningKey.generate()
CASES = ["a", "b", "c"]


@dataclass(frozen=True)
class Scenario:
    """A command, and what holds after it, whatever happened to it.

    Attributes:
        line: The command.
        holds: Checks what is there after the command has failed. Gets its exit code, and whether a pack may
            have a file that its list does not name yet, which opening refuses and one more try mends.
        again: Words that are added when the command is run once more.
    """

    line: str
    holds: Callable[[Path, int, bool], None]
    again: tuple[str, ...] = field(default=())

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def opened(pack: Path, unlisted: bool) -> Pack | None:
    """Open a pack; None for one with a file that its list does not name, where that may be so."""
    try:
        return open_pack(pack)
    except InvalidPack as error:
        if not unlisted or "added after the pack was sealed" not in error.message:
            raise
        return None


def run_holds(place: Path, code: int, unlisted: bool) -> None:
    """The pack is the old one or the new one, and whole."""
    pack = open_pack(place / "p")
    assert pack.config.run_id in ({"new"} if code == 0 else {"old", "new"})
    assert pack.case_ids() == CASES


def loop_holds(place: Path, code: int, unlisted: bool) -> None:
    """What the agent did is in the journal or in the pack, and no case was run twice."""
    journal = place / "loop.journal"
    if code == 0:
        assert open_pack(place / "loop").case_ids() == CASES
    if journal.exists():
        opened = Journal.resume(journal)
        if opened is not None:
            with opened:
                assert opened.damaged == 0
    if code != 0:
        assert max(Counter(calls(place)).values(), default=0) <= 1


def acknowledged(place: Path) -> set[str]:
    """The cases whose trials have a whole record in the journal."""
    journal = place / "loop.journal"
    lines = whole_lines(journal) if journal.exists() else ()
    return {line.record["case_id"] for line in lines if not line.is_header}


def calls(place: Path) -> list[str]:
    path = place / "calls"
    return path.read_text().split() if path.exists() else []


def ci_holds(place: Path, code: int, unlisted: bool) -> None:
    """The baseline is untouched; the job's evidence is absent or whole."""
    assert open_pack(place / "p").config.run_id == "old"
    # What is still being written has a hidden name, and is no evidence.
    for manifest in (place / "out").glob("[!.]*/manifest.json"):
        pack = opened(manifest.parent, unlisted)
        assert pack is None or pack.case_ids() == CASES
    assert code != 0 or list((place / "out").glob("*.zip"))


def registry_holds(place: Path, code: int, unlisted: bool) -> None:
    """The registry is whole and has what was acknowledged before."""
    baselines = RegistryStore(place / "registry.json").read().baselines
    assert "first" in baselines
    assert code != 0 or "second" in baselines
    assert main(["registry", "verify", "--registry-path", str(place / "registry.json")]) == 0


def attest_holds(place: Path, code: int, unlisted: bool) -> None:
    """The run is untouched; the four statements on it and its decision verify, once attest said so."""
    if code == 0:
        assert len(open_trusted(place / "d", trusting(KEY, secret=SECRET, gate=True)).verified) == 4
    pack = opened(place / "d", unlisted)
    assert pack is None or pack.config.run_id == "decided"


def compare_holds(place: Path, code: int, unlisted: bool) -> None:
    """Both packs are whole, with the comparison or without it."""
    pack = opened(place / "q", unlisted)
    assert code != 0 or (pack is not None and pack.derived is not None)
    assert open_pack(place / "p").config.run_id == "old"


REGISTER = "registry baseline-set --registry-path registry.json --dataset-id shop"
JUDGED = "run --suite suite.json --out p --run-id new --set evidence.layout="
LOOP = "run-loop --suite suite.json --out loop --run-id loop --parallel 1 --agent-command"
SCENARIOS = {
    "run": Scenario(f"{JUDGED}files", run_holds),
    "run compact": Scenario(f"{JUDGED}compact", run_holds),
    "run-loop": Scenario(f"{LOOP} '{sys.executable} -S -E agent.py calls'", loop_holds, ("--resume",)),
    "ci": Scenario("ci --suite suite.json --baseline p --out out --fail-on never --comment never", ci_holds),
    "registry": Scenario(f"{REGISTER} --name second --run p", registry_holds),
    "attest": Scenario(f"attest --run d --key key.pem --secret '{SECRET.decode()}'", attest_holds),
    "compare": Scenario("compare --baseline p --candidate q", compare_holds),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultServer]:
    with FaultServer(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.fixture(scope="module")
def prepared(server: FaultServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a suite, three packs of which one has a decision, a registry, an agent and a key."""
    place = tmp_path_factory.mktemp("prepared")
    cases = [make_case(name, "lookup", policy={"required_tools": ["lookup"]}) for name in CASES]
    (place / "suite.json").write_text(json.dumps(make_suite(*cases)))
    (place / "agent.py").write_text(AGENT)
    (place / "key.pem").write_bytes(KEY.pem())
    (place / "key.pem").chmod(0o600)
    for out, run_id in (("p", "old"), ("q", "other"), ("d", "decided")):
        words = ("run", "--suite", "suite.json", "--out", out, "--run-id", run_id)
        assert command(server, place, *words).code == 0
    decide(place / "d")
    ended = command(server, place, *shlex.split(REGISTER), "--name", "first", "--run", "q")
    assert ended.code == 0, ended.said
    return place


def command(server: FaultServer, place: Path, *words: str, at: int = 0, mode: int | None = None) -> Outcome:
    environ = {"AGENT_EVAL_CLOCK": CLOCK, "XDG_STATE_HOME": str(place / "state"), "HOME": str(place)}
    how = {"at": at, "mode": mode} if mode is not None else {}
    return server.run(*words, cwd=place, environ=environ, **how)


def kept(place: Path) -> dict[str, str]:
    """What must be the same after a command was run to its end, whatever went before."""
    left_out = ("state", "calls")
    return {name: digest for name, digest in tree(place).items() if not name.startswith(left_out)}


@pytest.fixture(scope="module", params=SCENARIOS)
def usual(
    request: pytest.FixtureRequest,
    server: FaultServer,
    prepared: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Path, str]:
    """A command, what it leaves where nothing fails, and the kinds of its calls."""
    place = Path(shutil.copytree(prepared, tmp_path_factory.mktemp("usual") / "place"))
    done = command(server, place, *SCENARIOS[request.param].words)
    assert (done.code, len(done.calls) > 2) == (0, True), done.said
    return request.param, place, done.calls


@pytest.mark.parametrize("mode", MODES)
def test_what_was_acknowledged_survives_a_failing_call(
    mode: str, usual: tuple[str, Path, str], server: FaultServer, prepared: Path, tmp_path: Path
) -> None:
    name, expected, kinds = usual
    scenario = SCENARIOS[name]
    for at in points(kinds, f"{name} {mode}"):
        place = Path(shutil.copytree(prepared, tmp_path / "place"))
        failed = command(server, place, *scenario.words, at=at, mode=MODES[mode])
        context = f"call {at} of {len(kinds)}, exit {failed.code}: {failed.said[-300:]}"
        assert failed.code != 70, context
        assert "Traceback" not in failed.said, context
        scenario.holds(place, failed.code, mode != "no space" and failed.code != 0)
        before = acknowledged(place)
        again = command(server, place, *scenario.words, *scenario.again)
        assert again.code == 0, f"{context}\nagain: {again.said}"
        scenario.holds(place, 0, False)
        ran = Counter(calls(place))
        assert all(ran[case_id] == 1 for case_id in before), context
        if name not in ("attest", "registry"):  # a signature, and the log of what was tried, differ
            assert kept(place) == kept(expected), context
        shutil.rmtree(place)


def points(kinds: str, seed: str) -> list[int]:
    """The calls to fail, of which each has the letter of its kind: all of them, or a sample.

    A push has one of each kind at least. The sample is the same in each run, and another for each command.
    """
    chance, every = random.Random(seed), range(1, len(kinds) + 1)
    if NIGHTLY:
        return list(every)
    of_kinds = [chance.choice([at for at in every if kinds[at - 1] == kind]) for kind in sorted(set(kinds))]
    needed = of_kinds if FULL else []
    others = [at for at in every if at not in needed]
    return sorted([*needed, *chance.sample(others, min(max(SAMPLE - len(needed), 0), len(others)))])
