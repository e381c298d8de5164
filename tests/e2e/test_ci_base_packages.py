"""What the merge base's agent shares with the change's, or lacks in its worktree, excuses no regression."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.e2e.runner import Step
from tests.e2e.test_ci_confirmation import COMMAND, Repository, decision, repository, verdicts
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub

__all__ = ["repository"]

INSTALLER = """\
#!/bin/sh
# Like pip: what satisfies the requirement already is left as it is.
wanted=$(cat requirements.txt)
test "$(cat "$1/dep" 2>/dev/null || echo 0)" -ge "$wanted" || echo "$wanted" > "$1/dep"
"""
READS_DEP = "if case == 'order-1' and Path({where!r}, 'dep').read_text() == '2\\n': tools.append('escalate')"


class Bump:
    """A repository whose agent needs a package, and a change to its next version, which breaks it."""

    def __init__(self, repository: Repository, where: str) -> None:
        self.repository, self.body = repository, READS_DEP.format(where=where)
        self.prefix = repository.runner.root / "prefix"
        for name in ("bin", "lib"):
            (self.prefix / name).mkdir(parents=True)
        installer = self.prefix / "bin" / "install-requirements"
        installer.write_text(INSTALLER)
        installer.chmod(0o755)
        self.inputs: dict[str, Any] = {
            "agent_command": COMMAND,
            "setup_command": f"install-requirements {where}",
            "environ": {"PATH": f"{installer.parent}:/usr/bin:/bin", "TMPDIR": str(repository.temporary)},
        }

    def evaluate(self) -> Step:
        repository = self.repository
        repository.base = repository.commit("base", self.body, {"requirements.txt": "1\n"})
        repository.runner.upload(repository.runner.push(**self.inputs), 400)
        repository.commit("topic", self.body, {"requirements.txt": "2\n"})
        return repository.runner.pull_request(base=repository.base, **self.inputs)


def test_a_package_that_the_change_installed_for_both_sides_excuses_no_regression(
    repository: Repository, github: FakeGitHub
) -> None:
    step = Bump(repository, str(repository.runner.root / "prefix" / "lib")).evaluate()
    assert verdicts(step) == {"order-1": "inconclusive"}, step.log
    (row,) = decision(step)["confirmed"]
    assert row["base_passed"] == 0
    assert "alters `requirements.txt`, and both agents use" in row["reason"]
    assert "`dep` among it" in row["reason"]
    assert step.code == 1


@WHOLE_JOB
def test_a_package_that_is_installed_into_the_checkout_is_confirmed_to_break_a_case(
    repository: Repository, github: FakeGitHub
) -> None:
    (repository.top / ".gitignore").write_text("/dep\n")
    bump = Bump(repository, ".")
    # An environment of its own, as `python -m venv` makes it, whose interpreter the agent is run by.
    bump.inputs["setup_command"] += f"; mkdir -p .venv/bin; ln -sf {sys.executable} .venv/bin/python"
    bump.inputs["agent_command"] = ".venv/bin/python -S -E agent.py"
    step = bump.evaluate()
    assert verdicts(step) == {"order-1": "confirmed"}, step.log


NEEDS_INDEX = "if not Path('data/index.json').exists(): tools.append('escalate')"


@pytest.mark.parametrize("ignored", ["data/\n", ""], ids=["ignored by git", "not ignored"])
@WHOLE_JOB
def test_a_worktree_that_lacks_what_an_earlier_step_made_excuses_no_regression(
    repository: Repository, github: FakeGitHub, ignored: str
) -> None:
    index = repository.top / "data" / "index.json"
    index.parent.mkdir()
    index.write_text("{}")
    ignored += "agent-eval-out/\n*.log\n"
    (repository.top / "earlier.log").write_text("Tools leave such files in every checkout.")
    repository.base = repository.commit("base", NEEDS_INDEX, {".gitignore": ignored})
    repository.push()
    repository.commit("topic", f"{NEEDS_INDEX}\nif case == 'order-1': tools.append('escalate')")
    step = repository.change()
    assert verdicts(step) == {"order-1": "inconclusive"}, step.log
    (row,) = decision(step)["confirmed"]
    assert "its worktree lacks `data/`" in row["reason"]
    assert step.code == 1


@WHOLE_JOB
def test_what_setup_makes_again_in_the_worktree_leaves_no_doubt(
    repository: Repository, github: FakeGitHub
) -> None:
    setup = {"setup_command": "mkdir -p data && touch data/index.json"}
    (repository.top / "data").mkdir()
    (repository.top / "data" / "index.json").write_text("{}")
    repository.base = repository.commit("base", NEEDS_INDEX, {".gitignore": "data/\n"})
    repository.push(**setup)
    repository.commit("topic", NEEDS_INDEX)
    step = repository.change("order-4-broken", **setup)
    assert verdicts(step) == {"order-4": "not-yours"}, step.log
