"""What an earlier step wrote below `.git`, or how the checkout was made, decides nothing. Whole jobs.

The numbers are those of the project's table of scenarios. In each, the change breaks `order-1`.
"""

import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.scenarios.repository import Evaluated, Job, Repository, broken

ONE = "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."
LAX = "preset: pull-request\nquarantine: [{case: order-1, reason: lax, until: 2027-01-01}]\n"


@pytest.fixture
def repository(evaluated: Evaluated) -> Repository:
    """Main was evaluated, and a change that breaks a case is checked out."""
    made = evaluated()
    made.topic(broken(1))
    return made


def of_base(repository: Repository, name: str) -> str:
    return repository.git("rev-parse", f"main:{name}")


def filter_files(repository: Repository) -> None:
    """Row 5: what is checked out is rewritten."""
    script = repository.root / "evil.sh"
    script.write_text(
        "#!/bin/sh\nsed \"s/^json.dump/if case == 'order-1': tools.append('escalate')\\njson.dump/\"\n"
    )
    script.chmod(0o755)
    repository.git("config", "filter.z.smudge", str(script))
    repository.git("config", "filter.z.clean", "cat")
    (repository.top / ".git" / "info").mkdir(exist_ok=True)
    (repository.top / ".git" / "info" / "attributes").write_text("agent.py filter=z\n")


def replace_the_agent(repository: Repository) -> None:
    """Row 6."""
    repository.git("replace", of_base(repository, "agent.py"), repository.git("rev-parse", "HEAD:agent.py"))


def replace_the_rules(repository: Repository) -> None:
    """Row 7."""
    repository.write("gate.yml", LAX)
    repository.commit("lax")
    repository.git("replace", of_base(repository, "gate.yml"), repository.git("rev-parse", "HEAD:gate.yml"))


def graft(repository: Repository) -> None:
    """Row 7b: an older commit with laxer rules as the base."""
    older = repository.git("rev-list", "--max-parents=0", "main")
    (repository.top / ".git" / "info").mkdir(exist_ok=True)
    (repository.top / ".git" / "info" / "grafts").write_text(
        f"{repository.git('rev-parse', 'HEAD')} {older}\n"
    )


def stricter(repository: Repository) -> None:
    """Let main's rules be stricter than they were at first."""
    repository.write("gate.yml", "preset: pull-request\n")


@pytest.mark.parametrize("happens", [filter_files, replace_the_agent, replace_the_rules, graft])
def test_no_earlier_step_changes_it(evaluated: Evaluated, happens: Callable[[Repository], None]) -> None:
    repository = evaluated(before=stricter, policy=LAX)
    repository.topic(broken(1))
    happens(repository)
    job = repository.job()
    assert (job.outcome, job.code, job.sentence) == ("failed", 1, ONE), job.log


def test_a_forged_object_of_the_base_is_refused(repository: Repository) -> None:
    """Row 8."""
    victim = of_base(repository, "agent.py")
    body = repository.git("cat-file", "blob", "HEAD:agent.py").encode()
    place = repository.top / ".git" / "objects" / victim[:2] / victim[2:]
    place.chmod(0o600)
    place.write_bytes(zlib.compress(b"blob %d\0" % len(body) + body))
    job = repository.job()
    assert (job.outcome, job.code) == ("error", 4)
    assert "The base commit cannot be read from the checkout: its objects are damaged." in job.log


def test_a_reference_that_an_earlier_step_moved_is_not_the_tip(tmp_path: Path) -> None:
    """Row 9."""
    repository = Repository(tmp_path)
    repository.git("init", "--quiet", "--bare", "--initial-branch", "main", str(tmp_path / "origin.git"))
    repository.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    repository.git("push", "--quiet", "origin", "main")
    repository.main()
    repository.topic(broken(1))
    for name in ("refs/remotes/origin/main", "refs/heads/main"):
        repository.git("update-ref", name, "HEAD")
    job = repository.job()
    assert (job.outcome, job.code, job.sentence) == ("failed", 1, ONE), job.log


def test_an_install_that_both_sides_share_settles_nothing(tmp_path: Path) -> None:
    """Row 10: what is installed leads to whoever installed last."""
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "venv" / "bin").mkdir()
    repository = Repository(tmp_path, settings={"setup": f"pwd > {packages}/shop.pth"})
    path = {"PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}"}
    for _ in range(3):
        assert repository.job(**path).code == 0
    repository.topic(broken(1))
    job = repository.job(**path)
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert job.sentence == "`order-1` is not settled: the base's setup altered what the change runs."


def shallow(repository: Repository) -> None:
    """Check the change out anew, at depth 1 of an origin that has everything."""
    origin = repository.root / "origin"
    repository.git("switch", "--quiet", "main")
    repository.top.rename(origin)
    command = ["git", "clone", "--quiet", "--depth=1", "--branch=topic", origin.as_uri(), str(repository.top)]
    subprocess.run(command, check=True)


def test_a_shallow_checkout_ends_as_any_other(repository: Repository) -> None:
    """Row 57."""
    shallow(repository)
    job = repository.job()
    assert (job.outcome, job.code, job.sentence) == ("failed", 1, ONE), job.log


def test_a_shallow_checkout_without_a_remote_is_refused(repository: Repository) -> None:
    """Row 58."""
    shallow(repository)
    repository.git("remote", "remove", "origin")
    job: Job = repository.job()
    assert (job.outcome, job.code) == ("error", 4)
    assert "The base commit is not known: fetch the whole history." in job.log


def test_edited_files_are_not_evaluated_and_the_job_says_so(repository: Repository) -> None:
    repository.write("agent.py", "raise SystemExit('not committed')\n")
    job = repository.job()
    assert (job.outcome, job.code, job.sentence) == ("failed", 1, ONE), job.log
    assert "`agent.py`: edited since the commit, and not evaluated." in job.log


WRITES_TO_THE_CLONE = """
for folder in Path.cwd().parents if case == 'order-1' else ():
    if (folder / 'clone.git').exists():
        (folder / 'clone.git' / 'config').open('a').write('[core]')
"""


def test_an_agent_that_writes_to_the_private_clone_ends_the_job(evaluated: Evaluated) -> None:
    """It would else say what main's agent is."""
    repository = evaluated()
    repository.topic(broken(1) + WRITES_TO_THE_CLONE)
    job = repository.job()
    assert (job.outcome, job.code) == ("error", 4), job.log
    assert "The job's private clone was altered while the change ran: `config`." in job.log
