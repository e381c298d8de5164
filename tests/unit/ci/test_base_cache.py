"""Which earlier trials of the merge base are used: only such as cannot excuse a change, and no old ones."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_eval.contracts.confirmation import CachedTrials, FreshTrials

from agent_eval.ci.base_cache import FRESH_FIRST, MAX_AGE, BaseCache
from agent_eval.config.spec import AgentSpec, Identity, Output, RunSpec
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run_agent import run_agent
from tests.factories import make_case, make_suite

NOW = datetime(2026, 6, 2, 12, tzinfo=UTC)
COMMIT = "c" * 40
PAIRS = 3
ROW = FreshTrials(case_id="a", base=["passed"] * PAIRS, base_failing=[[]] * PAIRS)


RECORDED = AgentSpec(name="recorded")
IDLE = AgentSpec(command=f"{sys.executable} -S -E -c 'print(chr(123) + chr(125))'")
"""Calls no tool and says nothing."""


class Place:
    """A cache, the first run it is asked for, and the packs of trials."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "cache"
        self.suite = root / "suite.json"
        self.write_suite()
        self.first = self.trial("first", "a", "b")

    def write_suite(self, **fields: Any) -> None:
        suite = make_suite(
            make_case("a", **{"policy": {"required_tools": ["lookup"]}, **fields}),
            make_case("b"),
            dataset_id="shop",
        )
        self.suite.write_text(json.dumps(suite))

    def trial(
        self,
        name: str,
        *cases: str,
        commit: str = COMMIT,
        at: datetime = NOW - timedelta(hours=1),
        agent: AgentSpec = RECORDED,
    ) -> Pack:
        """Run an agent once on some cases."""
        out = self.root / name
        spec = RunSpec(
            suite=self.suite,
            cases=cases or ("a",),
            output=Output(pack=out, fresh=True),
            agent=agent,
            identity=Identity(run_id=name, git_commit=commit),
        )
        run_agent(spec, environ={"AGENT_EVAL_CLOCK": at.isoformat()})
        return open_pack(out)

    def trials(self, **fields: Any) -> list[Path]:
        for number in range(PAIRS):
            self.trial(f"trial-{number}", **fields)
        return [self.root / f"trial-{number}" for number in range(PAIRS)]

    def cache(self, **fields: Any) -> BaseCache:
        given: dict[str, Any] = {"commit": COMMIT, "agent": "agent.py", "pairs": PAIRS, "now": NOW, **fields}
        return BaseCache(self.directory, self.first, **given)

    @property
    def entry(self) -> Path:
        [entry] = self.directory.iterdir()
        return entry


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_trials_that_all_passed_are_found_by_a_later_run_with_their_files(place: Place) -> None:
    packs = place.trials()
    place.cache().keep(ROW, packs)
    arm = place.cache().find("a")
    assert arm is not None
    assert arm.started_at == (NOW - timedelta(hours=1)).isoformat()
    assert len(arm.packs) == PAIRS > FRESH_FIRST
    manifests = sorted(files["manifest.json"] for files in arm.packs)
    assert manifests == sorted((pack / "manifest.json").read_bytes() for pack in packs)
    assert place.cache().find("b") is None


@pytest.mark.parametrize(
    "row",
    [
        {"base": ["passed", "passed", "failed"]},
        {"base": ["passed", "passed", "lost"]},
        {"base": ["passed", "passed"], "base_failing": [[], []]},
        {"base_failing": [[], [], ["tool_abuse"]]},
        {"cached": CachedTrials(packs=["base-cached-1-1"], started_at=NOW.isoformat())},
    ],
    ids=["one failed", "one was lost", "one is missing", "a judge fails in one that passes", "of a cache"],
)
def test_only_a_complete_arm_that_passed_throughout_and_was_run_now_is_kept(
    place: Place, row: dict[str, Any]
) -> None:
    place.cache().keep(ROW.model_copy(update=row), place.trials())
    assert not place.directory.exists()


@pytest.mark.parametrize(
    "other",
    [{"commit": "d" * 40}, {"agent": "agent.py --other"}, {"pairs": PAIRS + 1}],
    ids=["another merge base", "another setup of the agent", "another number of pairs"],
)
def test_trials_of_anything_else_are_not_found(place: Place, other: dict[str, Any]) -> None:
    place.cache().keep(ROW, place.trials())
    assert place.cache(**other).find("a") is None
    assert place.cache().find("a") is not None


def test_trials_of_another_definition_of_the_case_are_not_found(place: Place) -> None:
    place.cache().keep(ROW, place.trials())
    place.write_suite(input="Something else?")
    place.first = place.trial("first", "a", "b")
    assert place.cache().find("a") is None


@pytest.mark.parametrize(
    ("age", "is_used"),
    [
        (timedelta(0), True),
        (MAX_AGE, True),
        (MAX_AGE + timedelta(seconds=1), False),
        (timedelta(seconds=-1), False),
    ],
    ids=["of now", "of a day ago", "older", "of the future"],
)
def test_trials_are_used_for_a_day(place: Place, age: timedelta, is_used: bool) -> None:
    place.cache().keep(ROW, place.trials(at=NOW - age))
    assert (place.cache().find("a") is not None) == is_used


def failing(place: Place) -> None:
    """The merge base failed in one of the trials."""
    packs = place.trials()
    place.cache().keep(ROW, packs)
    failed = place.trial("trial-2", agent=IDLE)
    assert not failed.results_by_id()["a"]["passed"]
    forge(place, packs)


def forge(place: Place, packs: list[Path]) -> None:
    write_bundle({str(number): pack for number, pack in enumerate(packs)}, place.entry)


def repeated(place: Place) -> None:
    """One trial that passed comes three times."""
    packs = place.trials()
    place.cache().keep(ROW, packs)
    copies = [place.root / f"copy-{number}" for number in range(PAIRS)]
    for copy in copies:
        shutil.copytree(packs[0], copy)
    forge(place, copies)


def damaged(place: Place) -> None:
    """A result is edited."""
    packs = place.trials()
    (packs[0] / "run" / "summary.json").write_text("{}")
    place.cache().keep(ROW, packs)


def a_pipe(place: Place) -> None:
    """Reading it would wait for ever."""
    place.cache().keep(ROW, place.trials())
    entry = place.entry
    entry.unlink()
    os.mkfifo(entry)


FORGED: dict[str, Callable[[Place], None]] = {
    "a trial that failed": failing,
    "trials of another commit": lambda place: place.cache().keep(ROW, place.trials(commit="d" * 40)),
    "a trial of several cases": lambda place: place.cache().keep(
        ROW, [*place.trials()[1:], place.root / "first"]
    ),
    "one trial several times": repeated,
    "a pack that does not verify": damaged,
    "a pipe": a_pipe,
}


@pytest.mark.parametrize("how", FORGED)
def test_what_an_earlier_run_forged_counts_as_absent(place: Place, how: str) -> None:
    FORGED[how](place)
    assert len(list(place.directory.iterdir())) == 1
    assert place.cache().find("a") is None


def test_old_entries_are_removed_and_files_of_others_stay(place: Place) -> None:
    place.directory.mkdir()
    old, other, new = (place.directory / name for name in (f"{'0' * 64}.zip", "notes.txt", f"{'1' * 64}.zip"))
    for path in (old, other, new):
        path.write_bytes(b"")
    for path in (old, other):
        os.utime(path, (0, 0))
    place.cache().keep(ROW, place.trials())
    assert not old.exists()
    assert other.exists()
    assert new.exists()


def test_a_directory_that_cannot_be_made_costs_the_trials_and_no_more(place: Place) -> None:
    place.directory.write_text("a file")
    place.cache().keep(ROW, place.trials())
    assert place.cache().find("a") is None


def test_with_as_few_pairs_as_are_run_anyway_nothing_is_looked_up(place: Place) -> None:
    place.cache().keep(ROW, place.trials())
    assert place.cache(pairs=FRESH_FIRST).find("a") is None
