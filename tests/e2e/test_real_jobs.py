"""Whole jobs against the simulation of the gate: a few of them here, and what the committed results say."""

import json

from benchmarks.real_jobs import EVENTS, ROUNDS, TABLE, WORLDS, decisions


def test_jobs_and_the_simulation_decide_alike_and_ask_as_often() -> None:
    found = list(decisions(20, worlds=1, rounds=1, main_runs=2))
    assert [name for name, _, _ in found] == list(EVENTS)
    for name, real, simulated in found:
        assert real == simulated, name
    ends = {name: real.end for name, real, _ in found}
    assert (ends["unchanged"], ends["one breaks"]) == ("passed", "blocked")


def test_every_job_of_the_committed_results_agreed() -> None:
    committed = json.loads(TABLE.read_text(encoding="utf-8"))
    jobs = {f"flaky {cases}, {name}": WORLDS * rounds for cases, rounds in ROUNDS.items() for name in EVENTS}
    assert {name: row["jobs"] for name, row in committed.items()} == jobs
    for name, row in committed.items():
        assert row["agree"] == row["jobs"], name
        assert row["blocked"] + row["not settled"] + row["passed"] == row["jobs"], name
