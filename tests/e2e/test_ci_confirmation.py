"""Confirmation in a real git repository: the merge base is built in a worktree, and fresh trials decide."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.confirmation import Confirmation
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.derived import write_output
from tests.e2e.program import Ended, agent_eval
from tests.e2e.runner import PULL, Runner, Step
from tests.extent import FULL, WHOLE_JOB
from tests.fakes.github import FakeGitHub

AGENT = """\
import json, os, sys
from pathlib import Path

task = json.load(sys.stdin)
case = task["case_id"]
world = Path(WORLD)
with open(world / "calls", "a") as calls:
    calls.write(f"{case} SIDE {os.getcwd()}\\n")
tools = ["lookup_order"]
if (world / f"{case}-once").exists():
    (world / f"{case}-once").unlink()
    tools.append("escalate")
if (world / f"{case}-broken").exists():
    tools.append("escalate")
{body}
json.dump({
    "assistant_output": "It is on its way.",
    "tool_calls": [{"tool": name, "arguments": {}} for name in tools],
}, sys.stdout)
"""
COMMAND = f"{sys.executable} -S -E agent.py"
REGRESSED = "if case == 'order-1': tools.append('escalate')"
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")


def case(number: int) -> dict[str, Any]:
    """A case whose agent must look the order up and not escalate."""
    return {
        "case_id": f"order-{number}",
        "input": f"Where is order {number}?",
        "policy": {"required_tools": ["lookup_order"], "forbidden_tools": ["escalate"]},
        "metadata": {"tool_responses": {"lookup_order": {"status": "shipped"}}},
    }


class Repository:
    """The runner's workspace as a git repository, and a world outside of it that the agents depend on."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.top = runner.workspace
        self.world = runner.root / "world"
        self.temporary = runner.root / "temporary"
        for folder in (self.world, self.temporary):
            folder.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        self.runner.write_suite(*(case(number) for number in range(1, 7)))
        self.base = self.commit("base")

    def git(self, *arguments: str) -> str:
        done = subprocess.run([*GIT, *arguments], cwd=self.top, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def agent(self, side: str, body: str) -> str:
        text = AGENT.replace("WORLD", repr(str(self.world))).replace("SIDE", side)
        return text.replace("{body}", body)

    def commit(self, side: str, body: str = "", files: dict[str, str] | None = None) -> str:
        """Commit an agent that says which side it is, and other files."""
        written = {"agent.py": self.agent(side, body), **(files or {})}
        for name, text in written.items():
            (self.top / name).write_text(text)
        self.git("add", "--all", "--", *written, "suite.json")
        self.git("commit", "--quiet", "--allow-empty", "-m", side)
        return self.git("rev-parse", "HEAD")

    def push(self, **inputs: str) -> None:
        """Make the baseline on main."""
        step = self.runner.push(**{"agent_command": COMMAND, **inputs})  # type: ignore[arg-type]
        self.runner.upload(step, 400)
        (self.runner.root / "base.zip").write_bytes(step.archive)
        (self.world / "calls").write_text("")

    def change(self, *happened: str, **inputs: str) -> Step:
        """Evaluate a pull request, once this has happened in the world."""
        for name in happened:
            (self.world / name).write_text("")
        environ = {"TMPDIR": str(self.temporary)}
        stated: dict[str, Any] = {"agent_command": COMMAND, "base": self.base, **inputs}
        step = self.runner.pull_request(environ=environ, **stated)
        assert list(self.temporary.iterdir()) == []
        return step

    def calls(self, case_id: str, side: str) -> list[Path]:
        """Where the agent of a side was run on a case, each time."""
        rows = [line.split(" ", 2) for line in (self.world / "calls").read_text().splitlines()]
        return [Path(where) for seen, by, where in rows if (seen, by) == (case_id, side)]


@pytest.fixture
def repository(runner: Runner, github: FakeGitHub) -> Repository:
    return Repository(runner)


def decision(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((step.workspace / COMPARE / "gate_decision.json").read_text())
    return found


COMPARE = Path("agent-eval-out/shop/compare")


def record(step: Step) -> Confirmation:
    return Confirmation.model_validate_json((step.workspace / COMPARE / "confirmation.json").read_bytes())


def verdicts(step: Step) -> dict[str, str]:
    return {row["case_id"]: row["verdict"] for row in decision(step)["confirmed"]}


def regate(
    repository: Repository, out: str, *, candidate: Path | None = None, by: str = "", **edited: Any
) -> Ended:
    """Decide again, on the evidence alone; perhaps with an edited record, or with what `by` names for one."""
    where = repository.top / COMPARE
    confirmation = repository.runner.root / "confirmation.json"
    for name in ("confirmation.json", "confirmation.zip"):
        if (where / name).is_file():
            (confirmation.parent / name).write_bytes((where / name).read_bytes())
    if edited:
        confirmation.write_text(json.dumps({**json.loads(confirmation.read_text()), **edited}))
    arguments = {
        "--baseline": repository.runner.root / "base.zip",
        "--candidate": candidate or repository.top / "agent-eval-out" / "evidence.zip",
        "--preset": "pull-request",
        "--max-regressed-cases": "0",
        "--max-new-hard-fail-cases": "0",
        "--confirmation": by or confirmation,
        "--out": repository.top / out,
    }
    if by == "nothing":
        del arguments["--confirmation"]
    words = [str(word) for pair in arguments.items() for word in pair]
    comparison = str(where / "baseline_delta.json")
    return agent_eval("gate", "--compare", comparison, *words, cwd=repository.top)


def test_one_regression_is_confirmed_two_flips_are_cleared_and_one_is_not_ours(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change("order-2-once", "order-3-once", "order-4-broken")
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert verdicts(step) == {
        "order-1": "confirmed",
        "order-2": "cleared",
        "order-3": "cleared",
        "order-4": "not-yours",
    }
    # Each side ran where it belongs: the merge base in a worktree of its own, never in the change's checkout.
    assert set(repository.calls("order-1", "topic")) == {repository.top.resolve()}
    bases = set(repository.calls("order-1", "base"))
    assert len(bases) == 1
    assert not any(where.is_relative_to(repository.top.resolve()) for where in bases)
    assert not any(where.exists() for where in bases)
    assert len(repository.calls("order-1", "base")) == 6
    assert len(repository.calls("order-1", "topic")) == 7
    # An innocent case costs three pairs, and what nobody suspects is not run again.
    assert len(repository.calls("order-2", "base")) == 3
    assert repository.calls("order-5", "base") == []
    kept = record(step)
    assert kept.base.commit == repository.base
    assert kept.base.build_sha256 != kept.candidate.build_sha256
    assert kept.spent.trials == 2 * (6 + 3 + 3 + 3)
    packs = open_bundle(step.workspace / COMPARE / "confirmation.zip")
    assert len(packs) == 12
    [comment] = github.bodies(PULL)
    assert (
        "| `order-1` | 0\u00a0of\u00a06 | 6\u00a0of\u00a06 | ❌ **Confirmed: yours**, p = 0.001." in comment
    )
    assert "| `order-4` | 0\u00a0of\u00a03 | 0\u00a0of\u00a03 | ➖ Not yours." in comment
    assert "(order-1: 0 of 6 now, 6 of 6 on the merge base); 1 not yours; 2 cleared." in comment
    assert "1 of 6 cases regressed" in comment
    assert "this change did it" in comment
    assert "Took 30 trials" in comment
    assert "expected at most 48 trials" in comment
    # The evidence alone gives the same decision again, and an edited record none.
    replayed = regate(repository, "again.json")
    assert (replayed.code, replayed.json()["gate_status"]) == (1, "failed")
    again = json.loads((repository.top / "again.json").read_text())
    assert [again["confirmed"], again["steps"]] == [decision(step)["confirmed"], decision(step)["steps"]]
    passing = [{**row.to_json(), "candidate": ["passed"] * 6} for row in record(step).cases]
    unchanged = {"agent_unchanged": True, "cases": [], "evidence_sha256": None}
    for forged in ({"cases": passing}, unchanged):
        edited = regate(repository, "edited.json", **forged)
        assert edited.code == 2
        assert "lists no such record" in edited.error["message"]
        assert not (repository.top / "edited.json").exists()
    # Nor does one help that the pack lists, where the trials do not say so.
    listed = json.dumps({**json.loads(record(step).model_dump_json()), "cases": passing}).encode()
    write_output(repository.top / COMPARE / "confirmation.json", listed)
    edited = regate(repository, "edited.json", candidate=repository.top / "agent-eval-out" / "shop")
    assert edited.code == 2
    assert "not those of the packs" in edited.error["message"]


FLAKY_AND_UNSAFE = """
count = world / "count"
answer = "It is on its way."
if case == "order-1":
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    if number == 0:
        answer = "no idea"
    elif number % 2:
        tools.append("escalate")
json.dump(
    {"assistant_output": answer, "tool_calls": [{"tool": name, "arguments": {}} for name in tools]},
    sys.stdout,
)
sys.exit()
"""


@WHOLE_JOB
def test_a_confirmed_decision_is_not_made_again_without_its_trials(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change()
    assert verdicts(step) == {"order-1": "confirmed"}
    refused = regate(repository, "again.json", by="nothing")
    assert refused.code == 2
    assert "--confirmation compare/confirmation.json" in refused.err
    assert not (repository.top / "again.json").exists()
    asked = regate(repository, "again.json", by="none")
    again = json.loads((repository.top / "again.json").read_text())
    assert (asked.code, again["confirmed"]) == (1, [])
    assert "--confirmation none" in again["explanation"][-1]


@WHOLE_JOB
def test_a_zero_tolerance_failure_in_fresh_trials_blocks_although_the_case_is_flaky(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.runner.write_suite(*({**case(number), "regex_patterns": ["way"]} for number in range(1, 7)))
    repository.base = repository.commit(
        "base", files={"gate.yml": "preset: pull-request\nzero_tolerance: [policy]\n"}
    )
    repository.push(policy="gate.yml")
    repository.commit("topic", FLAKY_AND_UNSAFE)
    step = repository.change(policy="gate.yml")
    assert (step.code, step.outcome) == (1, "failed"), step.log
    by_name = {row["name"]: row for row in decision(step)["steps"]}
    assert by_name["zero-tolerance"]["status"] == "failed"
    assert "order-1) in fresh trials" in by_name["zero-tolerance"]["message"]
    assert verdicts(step) == {"order-1": "inconclusive"}


def test_that_the_agent_is_unchanged_clears_in_the_job_and_is_open_on_the_evidence_alone(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    repository.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    step = repository.change("order-1-broken")
    assert verdicts(step) == {"order-1": "cleared"}
    regate(repository, "again.json")
    again = json.loads((repository.top / "again.json").read_text())
    assert [row["verdict"] for row in again["confirmed"]] == ["inconclusive"]
    assert not again["passed"]


@pytest.mark.parametrize(
    "named",
    [
        {"agent_command": f"{sys.executable} -S -E {{}}/agent.py --config suite.json"},
        {"setup_command": "cp {}/agent.py agent.py || true"},
    ],
    ids=["agent", "setup"],
)
def test_a_command_with_a_path_of_the_change_excuses_nothing(
    repository: Repository, github: FakeGitHub, named: dict[str, str]
) -> None:
    inputs = {"agent_command": COMMAND, **{name: text.format(repository.top) for name, text in named.items()}}
    repository.runner.upload(repository.runner.push(**inputs), 400)
    repository.commit("topic", REGRESSED)
    step = repository.change(**inputs, max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert "names a path in the checkout of the change" in record(step).problem


@WHOLE_JOB
def test_a_change_of_how_ci_runs_the_agent_is_not_excused_by_the_merge_base(
    repository: Repository, github: FakeGitHub
) -> None:
    body = "if '--bad' in sys.argv and case == 'order-1': tools.append('escalate')"
    (repository.top / ".github").mkdir()
    repository.base = repository.commit("base", body)
    repository.push()
    repository.commit("topic", body, {".github/ci.yml": "agent-command: agent.py --bad"})
    limits = {"max_regressed_cases": "5", "max_new_hard_fail_cases": "5"}
    step = repository.change(agent_command=f"{COMMAND} --bad", **limits)
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert "how CI runs" in decision(step)["confirmed"][0]["reason"]
    assert not decision(step)["passed"]


@WHOLE_JOB
def test_flaky_cases_alone_do_not_break_a_limit_on_regressed_cases(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    repository.commit("topic")
    step = repository.change("order-2-once", preset="pull-request")
    assert verdicts(step) == {"order-2": "cleared"}
    assert step.code == 0, step.log
    assert step.outputs["pass-rate"] == "0.833333"
    without = repository.change("order-2-once", run_id=501, confirm_pairs="0")
    assert (without.code, without.outcome) == (1, "failed")
    assert not (without.workspace / COMPARE / "confirmation.json").exists()


def test_an_unchanged_agent_is_cleared_at_once(repository: Repository, github: FakeGitHub) -> None:
    repository.push()
    repository.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    step = repository.change("order-1-broken")
    assert verdicts(step) == {"order-1": "cleared"}
    assert len(repository.calls("order-1", "base")) == 1
    assert record(step).agent_unchanged


@pytest.mark.parametrize("hidden", ["notes.txt", "suite.json"])
@WHOLE_JOB
def test_a_change_of_any_file_is_a_change_of_the_agent(
    repository: Repository, github: FakeGitHub, hidden: str
) -> None:
    repository.push()
    changed = (repository.top / hidden).read_text() + "\n" if hidden == "suite.json" else "escalate"
    body = f"if '{hidden}' == 'notes.txt' and Path('notes.txt').exists(): tools.append('escalate')"
    repository.base = repository.commit("base", body)
    repository.commit("base", body, {hidden: changed})
    step = repository.change("order-1-broken", zero_tolerance="")
    assert not record(step).agent_unchanged


@WHOLE_JOB
def test_evidence_of_earlier_jobs_is_confirmed_by_an_agent_that_is_set_up(
    repository: Repository, github: FakeGitHub
) -> None:
    needs_setup = "if not Path('built').exists(): sys.exit(1)"
    repository.base = repository.commit("base", needs_setup)
    repository.push(setup_command="touch built")
    repository.commit("topic", needs_setup)
    first = repository.change("order-1-once", setup_command="touch built")
    assert verdicts(first) == {"order-1": "cleared"}
    earlier = repository.runner.root / "earlier"
    (repository.top / "agent-eval-out" / "shop").rename(earlier)
    # Another machine has the evidence, and nothing that was installed.
    shutil.rmtree(repository.top / "agent-eval-out")
    (repository.top / "built").unlink()
    step = repository.change(run_id=501, setup_command="touch built", evidence=str(earlier))
    assert verdicts(step) == {"order-1": "cleared"}, step.log
    assert [case.why_lost for case in record(step).cases] == [case.why_lost for case in record(first).cases]


def test_a_base_that_does_not_build_leaves_the_case_open(repository: Repository, github: FakeGitHub) -> None:
    setup = {"agent-eval.yml": "setup-command: test -e installed || exit 7\n"}
    repository.base = repository.commit("base", files=setup)
    (repository.top / "installed").write_text("")
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change(max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert "could not be built" in record(step).problem
    assert (step.outcome, decision(step)["passed"]) == ("inconclusive", False)


@WHOLE_JOB
def test_an_outage_in_the_middle_is_lost_and_never_green(repository: Repository, github: FakeGitHub) -> None:
    repository.base = repository.commit(
        "base", "if len([*open(world / 'calls')]) > 14: sys.exit('the service is down')"
    )
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change(max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert "the service is down" in decision(step)["confirmed"][0]["reason"]
    assert step.outcome == "inconclusive"


ALTERED = "were altered while the merge base's agent ran: first "
HOSTILE = {
    "writes into the sources of the change": (
        "Path(CHANGE, 'agent.py').write_text('')",
        f"{ALTERED}`agent.py`",
    ),
    "adds a module to the change": ("Path(CHANGE, 'json.py').write_text('')", f"{ALTERED}`json.py`"),
    "puts a link into the change": ("os.symlink('/etc', Path(CHANGE, 'link'))", f"{ALTERED}`link`"),
    "prints without end": ("[print('x' * 10_000_000) for _ in range(2)]", ""),
}


@pytest.mark.parametrize("how", sorted(HOSTILE)[: None if FULL else 1])
@WHOLE_JOB
def test_a_hostile_base_is_noticed_and_decides_nothing(
    repository: Repository, github: FakeGitHub, how: str
) -> None:
    line, noticed = HOSTILE[how]
    line = line.replace("CHANGE", repr(str(repository.top)))
    repository.base = repository.commit("base", f"if os.getcwd() != {str(repository.top)!r}: {line}")
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change(max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert noticed in record(step).problem
    assert not decision(step)["passed"]


@WHOLE_JOB
def test_a_base_that_writes_into_the_evidence_ends_the_job(
    repository: Repository, github: FakeGitHub
) -> None:
    evidence = str(repository.top / "agent-eval-out" / "shop" / "run" / "summary.json")
    line = f"Path({evidence!r}).write_text('{{}}')"
    repository.base = repository.commit("base", f"if os.getcwd() != {str(repository.top)!r}: {line}")
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change(max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert (step.code, step.outcome) == (4, "error")


CHEATS = {
    "alters the merge base": (
        "for base in Path(TEMPORARY).glob('agent-eval-base-*/base/agent.py'): base.write_text('')",
        "Files of the merge base were altered while the change's agent ran: first `agent.py`.",
    ),
    "mends itself once it was judged": (
        "if case == 'order-6': Path('agent.py').write_text(Path('agent.py').read_text() + '# mended')",
        "altered its own sources while the job ran: first `agent.py`.",
    ),
}


@pytest.mark.parametrize("how", sorted(CHEATS)[: None if FULL else 1])
def test_a_change_that_cheats_is_noticed_and_not_green(
    repository: Repository, github: FakeGitHub, how: str
) -> None:
    line, noticed = CHEATS[how]
    repository.push()
    line = line.replace("TEMPORARY", repr(str(repository.temporary)))
    repository.commit("topic", f"{REGRESSED}\n{line}")
    step = repository.change(max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert verdicts(step) == {"order-1": "inconclusive"}
    assert noticed in record(step).problem
    assert not decision(step)["passed"]


def test_a_change_that_spoils_its_confirmation_keeps_what_its_first_run_failed(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    line, noticed = CHEATS["alters the merge base"]
    repository.commit("topic", f"{REGRESSED}\n{line.replace('TEMPORARY', repr(str(repository.temporary)))}")
    step = repository.change(preset="pull-request")
    assert noticed in record(step).problem
    assert (step.code, step.outcome) == (1, "failed"), step.log
