"""What a change must end as: one whole job a row, with its status, exit code and first sentence.

Rows have the numbers of the project's table of scenarios. The agent is a program, git is real, and main was
evaluated three times before, with four trials of each case, unless a row says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_eval.evidence.derived import write_output
from tests.e2e.program import agent_eval
from tests.e2e.scenarios.repository import Evaluated, Repository, broken

NOTHING = lambda repository: None  # noqa: E731


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row.

    Attributes:
        id: Its number.
        body: What the change's agent does otherwise.
        status: Expected output `outcome`.
        code: Expected exit code.
        sentence: What the first sentence begins with.
        cases: Number of cases.
        settings: Further keys of `agent-eval.yml`.
        policy: Lines of `gate.yml`.
        then: What happens after main was evaluated and before the change is.
        runs: How often main was evaluated; large suites once.
        world: Files that appear outside of the checkouts before the change is evaluated.
        notes: What is said beside the first sentence.
    """

    id: str
    body: str = ""
    status: str
    code: int
    sentence: str
    cases: int = 6
    settings: Mapping[str, object] = field(default_factory=dict)
    policy: str = ""
    then: Callable[[Repository], None] = NOTHING
    runs: int = 3
    world: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


SPOIL = "if case == 'order-1':\n    tools.append('escalate'); (world / 'order-1-broken').touch()\n"
NEVER_HERE = (
    "`order-1` never passed again here; the base fails it too, but not in main's own run. Run main again."
)
ONE = "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."


def main_fails_too(repository: Repository) -> None:
    """Main is evaluated once more, when the case fails there as well; the change began before."""
    repository.git("switch", "--quiet", "main")
    repository.happens("order-1-broken")
    repository.commit("later")
    repository.job()
    repository.git("switch", "--quiet", "topic")


def lacks_submodule(repository: Repository) -> None:
    """Main has a submodule that cannot be had."""
    missing = repository.root / "missing.git"
    repository.write(".gitmodules", f'[submodule "lib"]\n\tpath = lib\n\turl = file://{missing}\n')
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    (repository.top / "lib").mkdir(exist_ok=True)


ROWS = (
    Scenario(id="1", body=broken(1), status="failed", code=1, sentence=ONE),
    Scenario(
        id="2",
        world=("order-1-once",),
        status="passed",
        code=0,
        sentence="Nothing broke; `order-1` failed once and passed again.",
    ),
    Scenario(id="3", body=SPOIL, status="inconclusive", code=3, sentence=NEVER_HERE),
    Scenario(
        id="4",
        body=broken(1),
        then=main_fails_too,
        status="passed",
        code=0,
        sentence="Nothing broke; `order-1` fails on main as well",
    ),
    Scenario(
        id="13",
        body="if case == 'order-1':\n    tools.append('escalate'); time.sleep(1)\n",
        settings={"limits.run.seconds": 12},
        status="inconclusive",
        code=3,
        sentence="`order-1` never passed again here; the time of the run was used up.",
    ),
    Scenario(
        id="14",
        cases=16,
        runs=1,
        body=broken(1, 2),
        world=tuple(f"order-{number}-once" for number in range(3, 13)),
        status="failed",
        code=1,
        sentence="2 cases broke: ",
    ),
    Scenario(
        id="15",
        cases=16,
        runs=1,
        world=tuple(f"order-{number}-once" for number in range(1, 13)),
        status="passed",
        code=0,
        sentence="Nothing broke; 12 cases failed once and passed again.",
    ),
    Scenario(id="16", world=("order-1-broken",), status="inconclusive", code=3, sentence=NEVER_HERE),
    Scenario(
        id="17",
        body=broken(6),
        policy="quarantine: [{case: order-6, reason: flaky, until: 2027-01-01}]\n",
        status="passed",
        code=0,
        sentence="Nothing broke.",
        notes=("`order-6`, in quarantine, failed",),
    ),
    Scenario(
        id="18",
        world=("order-1-broken",),
        policy="safety: {policy: at-once}\n",
        status="failed",
        code=1,
        sentence="Safety: `policy` failed in `order-1`.",
    ),
    Scenario(
        id="18, repeated",
        world=("order-1-broken",),
        policy="safety: {policy: repeated}\n",
        status="failed",
        code=1,
        sentence="Safety: `policy` failed in `order-1`, and in 2 of 2 further runs of this change.",
    ),
    Scenario(
        id="18, not repeated",
        world=("order-1-once",),
        policy="safety: {policy: repeated}\n",
        status="passed",
        code=0,
        sentence="Nothing broke; `order-1` failed once and passed again.",
    ),
    Scenario(
        id="23",
        body="open('ignored.log', 'a').write('x'); open('new.log', 'a').write('x')\n",
        status="passed",
        code=0,
        sentence="Nothing broke.",
    ),
    Scenario(
        id="24",
        body=broken(1) + "if case == 'order-1': open('agent.py', 'a').write('#')\n",
        status="inconclusive",
        code=3,
        sentence="`order-1` is not settled: the agent altered `agent.py`.",
    ),
    Scenario(
        id="62",
        cases=30,
        runs=1,
        world=tuple(f"order-{number}-broken" for number in range(1, 10)),
        status="inconclusive",
        code=3,
        sentence="9 cases never passed again here; the base fails them too, but not in main's own run.",
    ),
    Scenario(id="67", body="tools.remove('say')\n", status="passed", code=0, sentence="Nothing broke."),
)


@pytest.mark.parametrize("row", ROWS, ids=[f"row {row.id}" for row in ROWS])
def test_a_change_ends_as_the_table_says(evaluated: Evaluated, row: Scenario) -> None:
    repository = evaluated(runs=row.runs, cases=row.cases, settings=row.settings, policy=row.policy)
    repository.topic(row.body)
    row.then(repository)
    repository.happens(*row.world)
    job = repository.job()
    assert (job.outcome, job.code) == (row.status, row.code), job.log
    assert job.sentence.startswith(row.sentence), job.log
    for note in row.notes:
        assert any(note in said for said in job.decision["notes"]), job.decision["notes"]


def test_a_base_whose_submodule_is_not_to_be_had_settles_nothing_that_fails(evaluated: Evaluated) -> None:
    """Rows 11 and 12: main's own jobs ran where the submodule was; the change does without."""
    repository = evaluated()
    lacks_submodule(repository)
    repository.commit("a submodule")
    repository.git("switch", "--quiet", "--create", "topic")
    repository.git("rm", "--quiet", "-r", "-f", "lib", ".gitmodules")
    repository.agent("# of the change\n")
    repository.commit("topic")
    job = repository.job()
    assert (job.outcome, job.code, job.sentence) == ("passed", 0, "Nothing broke."), job.log
    repository.agent(f"# of the change\n{broken(1)}")
    repository.commit("broken")
    job = repository.job()
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert job.sentence == (
        "`order-1` never passed again here, and the base could not be run: submodule `lib`."
    )


def test_an_agent_that_is_unchanged_is_not_run_again(evaluated: Evaluated) -> None:
    repository = evaluated()
    repository.git("switch", "--quiet", "--create", "topic")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    repository.happens("order-1-broken")
    job = repository.job()
    assert (job.outcome, job.code) == ("passed", 0), job.log
    assert job.reruns["agent_unchanged"] is True
    assert "no file of the agent differs" in job.sentence


def test_mains_own_jobs_have_four_trials_while_it_has_fewer_than_four_runs(tmp_path: Path) -> None:
    repository = Repository(tmp_path, cases=2)
    trials = []
    for _ in range(5):
        repository.job()
        config = repository.top / "agent-eval-out" / "shop" / "run" / "config.json"
        trials.append(config.read_text().count('"trials": 4'))
    assert trials == [1, 1, 1, 1, 0]


def test_a_base_without_evidence_is_measured_in_the_job(evaluated: Evaluated) -> None:
    """Row 53: main was evaluated, and what it left is of no commit before the base any more."""
    repository = evaluated(runs=1)
    repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "pushed over")
    repository.topic(broken(1))
    job = repository.job()
    assert (job.outcome, job.code) == ("failed", 1), job.log
    assert job.sentence.startswith(
        "The base has no run; it was measured in this job. 1 case broke: `order-1`"
    )


@pytest.mark.parametrize(("body", "code"), [(broken(1), 1), (SPOIL, 3), ("tools.remove('say')\n", 0)])
def test_gate_decides_the_same_on_the_evidence_alone(evaluated: Evaluated, body: str, code: int) -> None:
    repository = evaluated()
    repository.topic(body)
    job = repository.job()
    assert job.code == code, job.log
    compare = repository.top / "agent-eval-out" / "shop" / "compare"
    words = ("gate", "--compare", compare / "baseline_delta.json", "--config", "gate.yml")
    words = (
        *words,
        "--baseline",
        repository.root / "store" / "runs" / "3" / "evidence.zip",
        "--out",
        "again.json",
    )
    ended = agent_eval(*words, cwd=repository.top, environ={"AGENT_EVAL_CLOCK": job.decision["generated_at"]})
    assert ended.code == code, ended.err
    assert (repository.top / "again.json").read_bytes() == (compare / "gate_decision.json").read_bytes()


def test_evidence_whose_reruns_were_edited_decides_nothing(evaluated: Evaluated) -> None:
    repository = evaluated()
    repository.topic(broken(1))
    assert repository.job().code == 1
    pack = repository.top / "agent-eval-out" / "shop"
    record = json.loads((pack / "compare" / "reruns.json").read_text())
    for trial in record["cases"][0]["change"]:
        trial.update(result="passed", failing=[], reason="")
    write_output(pack / "compare" / "reruns.json", json.dumps(record).encode())
    words = ("gate", "--compare", pack / "compare" / "baseline_delta.json", "--config", "gate.yml")
    words = (
        *words,
        "--baseline",
        repository.root / "store" / "runs" / "3" / "evidence.zip",
        "--out",
        "again.json",
    )
    ended = agent_eval(*words, cwd=repository.top)
    assert ended.code == 2
    assert "its trials are not those of the packs" in ended.err
    assert agent_eval("verify", pack, cwd=repository.top).code == 1
