"""Confirmation on GitLab: the same program, a real git repository, and a GitLab on localhost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.confirmation import Confirmation
from tests.e2e.fork_server import PROGRAM, Command
from tests.e2e.program import environment, execute
from tests.e2e.test_ci_confirmation import AGENT, COMMAND, COMPARE, REGRESSED, case
from tests.extent import WHOLE_JOB
from tests.fakes.contract import Contract
from tests.fakes.gitlab import FakeGitLab
from tests.unit.ci.platforms.gitlab.runner import GitLabRunner, Step

MAIN, CHANGE = 400, 500


@cache
def contract() -> Contract:
    return Contract("gitlab")


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab(contract()) as server:
        yield server
    assert server.violations == []


class Project(GitLabRunner):
    """A project of which each job is a process of its own, with a world that its agents depend on."""

    def __init__(self, root: Path, gitlab: FakeGitLab) -> None:
        super().__init__(root, gitlab)
        self.world = root / "world"
        self.world.mkdir()
        self.write_suite(*(case(number) for number in range(1, 7)))

    def execute(self, environ: Mapping[str, str]) -> tuple[int, str]:
        """Run the command line in the checkout; its exit code and everything it printed."""
        told = environment({**environ, "NO_PROXY": "127.0.0.1"})
        done = execute(Command((*PROGRAM, "ci"), str(self.repository.top), told), join=True)
        return done.code, done.out

    def commit(self, side: str, body: str = "") -> str:
        """Commit an agent that says which side it is."""
        text = AGENT.replace("WORLD", repr(str(self.world))).replace("SIDE", side).replace("{body}", body)
        (self.repository.top / "agent.py").write_text(text)
        return self.repository.commit()

    def made(self, body: str = "") -> None:
        """Commit the merge base, and run its pipeline on main."""
        self.base = self.commit("base", body)
        step = self.push(MAIN, agent_command=COMMAND)
        assert step.code == 0, step.log
        (self.world / "calls").write_text("")

    def change(self, body: str, *happened: str, **inputs: str) -> Step:
        """Run the merge request of a change, once this has happened in the world."""
        self.repository.branch("topic", self.base)
        head = self.commit("topic", body)
        for name in happened:
            (self.world / name).write_text("")
        return self.merge_request(CHANGE, environ={"CI_COMMIT_SHA": head}, agent_command=COMMAND, **inputs)

    def calls(self, case_id: str, side: str) -> list[Path]:
        """Where the agent of a side was run on a case, each time."""
        rows = [line.split(" ", 2) for line in (self.world / "calls").read_text().splitlines()]
        return [Path(where) for seen, by, where in rows if (seen, by) == (case_id, side)]

    def found(self, name: str) -> Any:
        """A file that the last job left beside its comparison."""
        return json.loads((self.repository.top / COMPARE / name).read_text())

    def verdicts(self) -> dict[str, str]:
        return {row["case_id"]: row["verdict"] for row in self.found("gate_decision.json")["confirmed"]}

    @property
    def record(self) -> Confirmation:
        return Confirmation.model_validate(self.found("confirmation.json"))


@pytest.fixture
def project(tmp_path: Path, gitlab: FakeGitLab) -> Project:
    return Project(tmp_path, gitlab)


def test_one_regression_is_confirmed_two_flips_are_cleared_and_one_is_not_ours(project: Project) -> None:
    project.made()
    step = project.change(REGRESSED, "order-2-once", "order-3-once", "order-4-broken")
    assert step.code == 1, step.log
    assert project.verdicts() == {
        "order-1": "confirmed",
        "order-2": "cleared",
        "order-3": "cleared",
        "order-4": "not-yours",
    }
    top = project.repository.top.resolve()
    assert set(project.calls("order-1", "topic")) == {top}
    bases = set(project.calls("order-1", "base"))
    assert len(bases) == 1
    assert not any(where.is_relative_to(top) or where.exists() for where in bases)
    assert [len(project.calls("order-1", side)) for side in ("base", "topic")] == [6, 7]
    assert [len(project.calls(f"order-{number}", "base")) for number in (2, 3, 4, 5)] == [3, 3, 3, 0]
    assert project.record.base.commit == project.base
    assert project.record.spent.trials == 2 * (6 + 3 + 3 + 3)
    [comment] = project.gitlab.bodies()
    assert "`order-1` | 0\u00a0of\u00a06 | 6\u00a0of\u00a06 | ❌ **Confirmed: yours**, p = 0.001." in comment
    assert "<summary>Cleared (2) · not yours (1)</summary>" in comment
    assert "this change did it" in comment
    assert "Took 30 trials" in comment


@WHOLE_JOB
def test_an_outage_in_the_middle_is_lost_and_never_green(project: Project) -> None:
    project.made("if len([*open(world / 'calls')]) > 14: sys.exit('the service is down')")
    step = project.change(REGRESSED, max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert project.verdicts() == {"order-1": "inconclusive"}
    assert "the service is down" in project.found("gate_decision.json")["confirmed"][0]["reason"]
    assert not project.found("gate_decision.json")["passed"]
    [comment] = project.gitlab.bodies()
    assert "inconclusive" in comment.splitlines()[2]
    assert step.code == 0, step.log
    # The trials that were run before are not taken for an answer either.
    assert 0 < len(project.calls("order-1", "base")) <= 6
