"""What a change must end as: one whole job a row, with its status, exit code and first sentence.

Rows have the numbers of the project's table of scenarios. The agent is a program, git is real, and main was
evaluated three times before, with four trials of each case, unless a row says otherwise.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evidence.derived import write_output
from tests.e2e.program import Ended, agent_eval
from tests.e2e.scenarios.repository import Evaluated, Repository, broken


@dataclass(frozen=True)
class Scenario:
    """One row.

    Attributes:
        id: Its number.
        ends: Expected output `outcome`, and exit code.
        sentence: What the first sentence begins with.
        body: What the change's agent does otherwise.
        world: Files that appear outside of the checkouts before the change is evaluated.
        main: What is evaluated as main: `cases`, `settings`, `policy`, in how many `runs`.
        then: What happens after main was evaluated and before the change is.
        note: What is said beside the first sentence.
    """

    id: str
    ends: tuple[str, int]
    sentence: str
    body: str = ""
    world: tuple[str, ...] = ()
    main: Mapping[str, Any] = field(default_factory=dict)
    then: Callable[[Repository], None] = lambda repository: None
    note: str = ""


FAILED, PASSED, OPEN = ("failed", 1), ("passed", 0), ("inconclusive", 3)


def large(cases: int) -> dict[str, int]:
    return {"cases": cases, "runs": 1}


def policy(text: str) -> dict[str, str]:
    return {"policy": f"{text}\n"}


def files(kind: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"order-{number}-{kind}" for number in numbers)


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


TIME_IS_UP = "`order-1` never passed again here; the time of the run was used up."
ALTERED = "`order-1` is not settled: the agent altered `agent.py`."
NINE = "9 cases never passed again here; the base fails them too, but not in main's own run."
TWELVE = "Nothing broke; 12 cases failed once and passed again."
ONCE = "Nothing broke; `order-1` failed once and passed again."
SAFETY = "Safety: `policy` failed in `order-1`"
FURTHER = f"{SAFETY}, and in 2 of 2 further runs of this change."
SLOW = """if case == 'order-1':
    tools.append('escalate')
    print(file=open(world / 'asked', 'a'))
    time.sleep(60 if (world / 'asked').stat().st_size > 5 else 0)  # after four trials and a further one
"""
LEAVES_LOGS = "open('ignored.log', 'a').write('x'); open('new.log', 'a').write('x')\n"
ALTERS = broken(1) + "if case == 'order-1': open('agent.py', 'a').write('#')\n"
QUARANTINE = policy("quarantine: [{case: order-6, reason: flaky, until: 2027-01-01}]")
REPEATED = policy("safety: {policy: repeated}")
BROKEN, FAILS_ONCE = files("broken", 1), files("once", 1)

ROWS = (
    Scenario("1", FAILED, ONE, broken(1)),
    Scenario("2", PASSED, ONCE, world=FAILS_ONCE),
    Scenario("3", OPEN, NEVER_HERE, SPOIL),
    Scenario("4", PASSED, "Nothing broke; `order-1` fails on main as well", broken(1), then=main_fails_too),
    Scenario("13", OPEN, TIME_IS_UP, SLOW, main={"settings": {"limits.run.seconds": 15}}),
    Scenario("14", FAILED, "2 cases broke: ", broken(1, 2), files("once", *range(3, 13)), large(16)),
    Scenario("15", PASSED, TWELVE, world=files("once", *range(1, 13)), main=large(16)),
    Scenario("16", OPEN, NEVER_HERE, world=BROKEN),
    Scenario(
        "17", PASSED, "Nothing broke.", broken(6), main=QUARANTINE, note="`order-6`, in quarantine, failed"
    ),
    Scenario("18", FAILED, f"{SAFETY}.", world=BROKEN, main=policy("safety: {policy: at-once}")),
    Scenario("18, repeated", FAILED, FURTHER, world=BROKEN, main=REPEATED),
    Scenario("18, not repeated", PASSED, ONCE, world=FAILS_ONCE, main=REPEATED),
    Scenario("23", PASSED, "Nothing broke.", LEAVES_LOGS),
    Scenario("24", OPEN, ALTERED, ALTERS),
    Scenario("62", OPEN, NINE, world=files("broken", *range(1, 10)), main=large(30)),
    Scenario("67", PASSED, "Nothing broke.", "tools.remove('say')\n"),
)


def decided_again(repository: Repository, runs: int = 3, **environ: str) -> Ended:
    """What `gate` decides on the evidence alone, which it writes to `again.json`."""
    delta = repository.top / "agent-eval-out" / "shop" / "compare" / "baseline_delta.json"
    baseline = repository.root / "store" / "runs" / str(runs) / "evidence.zip"
    words = ("--compare", delta, "--config", "gate.yml", "--baseline", baseline, "--out", "again.json")
    return agent_eval("gate", *words, cwd=repository.top, environ=environ)


@pytest.mark.parametrize("row", ROWS, ids=[f"row {row.id}" for row in ROWS])
def test_a_change_ends_as_the_table_says(evaluated: Evaluated, row: Scenario) -> None:
    repository = evaluated(**row.main)
    repository.topic(row.body)
    row.then(repository)
    repository.happens(*row.world)
    job = repository.job()
    assert (job.outcome, job.code) == row.ends, job.log
    assert job.sentence.startswith(row.sentence), job.log
    assert row.note in "\n".join(job.decision["notes"])
    ended = decided_again(repository, row.main.get("runs", 3), AGENT_EVAL_CLOCK=job.decision["generated_at"])
    assert ended.code == job.code, ended.err
    decision = repository.top / "agent-eval-out" / "shop" / "compare" / "gate_decision.json"
    assert (repository.top / "again.json").read_bytes() == decision.read_bytes()


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


def test_evidence_whose_reruns_were_edited_decides_nothing(evaluated: Evaluated) -> None:
    repository = evaluated()
    repository.topic(broken(1))
    assert repository.job().code == 1
    pack = repository.top / "agent-eval-out" / "shop"
    record = json.loads((pack / "compare" / "reruns.json").read_text())
    for trial in record["cases"][0]["change"]:
        trial.update(result="passed", failing=[], reason="")
    write_output(pack / "compare" / "reruns.json", json.dumps(record).encode())
    ended = decided_again(repository)
    assert ended.code == 2
    assert "its trials are not those of the packs" in ended.err
    assert agent_eval("verify", pack, cwd=repository.top).code == 1
