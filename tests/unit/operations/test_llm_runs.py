"""Runs with an LLM judge: what is asked again, what is reused, what the pack and the report say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.config.spec import AgentSpec, Judging, LlmSpec, Output, RunSpec
from agent_eval.contracts import RunSummary
from agent_eval.errors import UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.judged_twice import judge_twice
from agent_eval.operations.rejudge import RejudgeRequest, rejudge
from agent_eval.operations.run import Overrides, run_suite
from agent_eval.operations.run_agent import run_agent
from agent_eval.operations.verify import verify
from agent_eval.reports.terminal import run_text
from tests.fakes.models import FakeOpenAi, Step

REFUND, POLITE = "The agent refunds the order.", "The agent is polite."
KEY = "canary-key-0123456789"


def write_suite(path: Path, *criteria: str, answers: tuple[str, ...] = ("Refunded.", "No.")) -> Path:
    cases = [
        {
            "case_id": f"case-{number}",
            "metadata": {"llm": [{"criterion": text} for text in criteria]},
            "trace": [
                {"idx": 0, "actor": "user", "type": "message", "input": "My money, please."},
                {"idx": 1, "actor": "agent", "type": "message", "output": answer},
            ],
        }
        for number, answer in enumerate(answers)
    ]
    path.write_text(json.dumps({"dataset_id": "shop", "cases": cases}))
    return path


def write_script(path: Path) -> Path:
    def row(verdict: str, **fields: Any) -> dict[str, Any]:
        ruling = {"reasoning": f"It {verdict}.", "evidence": [], "verdict": verdict}
        return {"purpose": "judge", "object": ruling, "cost_usd": 0.25, **fields}

    rows = [row("failed", criterion=REFUND, lacks="Refunded"), row("passed")]
    path.write_text(json.dumps({"kind": "model_script", "replies": rows}))
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "suite.json", REFUND, POLITE)


def spec_of(suite: Path, out: Path, **llm: Any) -> RunSpec:
    script = write_script(out.with_suffix(".script.json"))
    model = LlmSpec(**{"provider": "scripted", "script": script, **llm})
    return RunSpec(suite=suite, output=Output(pack=out), judging=Judging(judges=("llm",), llm=model))


def judging(summary: RunSummary) -> dict[str, float]:
    """What judging took, without the number of verdicts that are named as scripted."""
    assert summary.judging is not None
    return {name: value for name, value in summary.judging.to_json().items() if name != "scripted"}


def test_judging_is_counted_apart_and_said_in_the_report(suite: Path, tmp_path: Path):
    result = run_suite(spec_of(suite, tmp_path / "run"), environ={})
    assert (result.summary.passed_cases, result.summary.judge_counts["llm"].failed) == (1, 1)
    assert judging(result.summary) == {"calls": 4, "cost_usd": 1.0}
    assert result.summary.judging is not None
    assert result.summary.judging.scripted == 2
    assert "LLM judges: 4 calls for 1 USD." in run_text(result.summary, "run")


def test_an_unchanged_suite_with_a_cassette_makes_no_call(suite: Path, tmp_path: Path):
    cassette = tmp_path / "cassette.json"
    run_suite(spec_of(suite, tmp_path / "first", cassette=cassette), environ={})
    written = cassette.read_bytes()
    again = run_suite(spec_of(suite, tmp_path / "second", cassette=cassette), environ={})
    assert judging(again.summary) == {"reused": 4, "saved_usd": 1.0}
    assert cassette.read_bytes() == written
    assert "4 kept replies were reused, which saved 1 USD" in run_text(again.summary, "run")
    replay = spec_of(suite, tmp_path / "third", cassette=cassette, cassette_mode="replay", script=None)
    assert judging(run_suite(replay, environ={}).summary) == {"reused": 4, "saved_usd": 1.0}


@pytest.mark.parametrize(
    ("criterion", "answer"),
    [("The agent is very polite.", "No."), (POLITE, "Never.")],
    ids=["criterion", "case"],
)
@pytest.mark.parametrize("is_by_cassette", [True, False])
def test_what_changed_is_judged_again_alone(
    criterion: str, answer: str, is_by_cassette: bool, suite: Path, tmp_path: Path
):
    llm = {"cassette": tmp_path / "cassette.json"} if is_by_cassette else {}
    first = run_suite(spec_of(suite, tmp_path / "first", **llm), environ={})
    kept = Overrides() if is_by_cassette else Overrides(baseline=open_pack(first.pack))
    write_suite(suite, REFUND, criterion, answers=("Refunded.", answer))
    again = run_suite(spec_of(suite, tmp_path / "second", **llm), environ={}, overrides=kept)
    assert judging(again.summary) == {"calls": 2, "cost_usd": 0.5, "reused": 2, "saved_usd": 0.5}


def test_what_the_evidence_of_a_baseline_has_needs_no_model(suite: Path, tmp_path: Path):
    first = run_suite(spec_of(suite, tmp_path / "first"), environ={})
    kept = Overrides(baseline=open_pack(first.pack))
    again = run_suite(spec_of(suite, tmp_path / "second", script=None), environ={}, overrides=kept)
    assert judging(again.summary) == {"reused": 4, "saved_usd": 1.0}
    assert again.summary.judge_counts == first.summary.judge_counts
    write_suite(suite, REFUND, "Something else.")
    changed = run_suite(spec_of(suite, tmp_path / "third", script=None), environ={}, overrides=kept)
    assert changed.summary.failures == {"infrastructure": 1, "contract_violation": 1}


def test_another_judge_reuses_nothing(suite: Path, tmp_path: Path):
    first = run_suite(spec_of(suite, tmp_path / "first"), environ={})
    ruling = {"reasoning": "Fine.", "evidence": [], "verdict": "passed"}
    with FakeOpenAi(Step(text=json.dumps(ruling))) as server:
        other = spec_of(
            suite, tmp_path / "second", provider="openai", base_url=server.base_url, model="small"
        )
        again = run_suite(other, environ={}, overrides=Overrides(baseline=open_pack(first.pack)))
        assert len(server.requests) == 4
    assert again.summary.judging is not None
    assert again.summary.judging.scripted == 0
    assert (again.summary.passed_cases, judging(again.summary)["calls"]) == (2, 4)
    codes = [result.config.execution_config.judge_code for result in (first, again)]
    assert codes[0] != codes[1]


def test_a_pack_is_verified_and_judged_again_from_its_own_rulings(suite: Path, tmp_path: Path):
    first = run_suite(spec_of(suite, tmp_path / "first", votes=2), environ={})
    assert judging(first.summary)["calls"] == 8
    replay = verify(first.pack).replay
    assert replay.same is True
    assert replay.note.endswith("rulings of LLM judges are those of the pack")
    request = RejudgeRequest(
        pack=first.pack,
        output=Output(pack=tmp_path / "again"),
        judging=Judging(judges=("llm",), llm=LlmSpec(provider="scripted", votes=2)),
    )
    again = rejudge(request, environ={})
    assert judging(again.summary) == {"reused": 8, "saved_usd": 2.0}
    assert again.summary.judge_counts == first.summary.judge_counts


def test_an_agent_is_judged_in_one_process_and_its_pack_has_the_rulings(tmp_path: Path):
    suite = write_suite(tmp_path / "suite.json", REFUND)
    spec = spec_of(suite, tmp_path / "run")
    result = run_agent(RunSpec(**{**vars(spec), "agent": AgentSpec(name="recorded", trials=2)}), environ={})
    assert result.summary.passed_cases == 1
    # Trials of the same conversation are the same request.
    assert judging(result.summary)["calls"] + judging(result.summary).get("reused", 0) == 4


def test_without_a_key_nothing_runs_and_no_pack_is_written(suite: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="there is no key for the openai model"):
        run_suite(spec_of(suite, tmp_path / "run", provider="openai"), environ={})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["option", "LLM_API_KEY", "OPENAI_API_KEY"])
def test_the_key_is_in_no_output(place: str, suite: Path, tmp_path: Path):
    environ = {} if place == "option" else {place: KEY}
    llm = {"key": KEY} if place == "option" else {}
    ruling = {"reasoning": f"The key is {KEY}.", "evidence": [], "verdict": "passed"}
    refused = json.dumps({"error": {"message": f"invalid key {KEY}"}}).encode()
    with FakeOpenAi(Step(text=json.dumps(ruling)), Step(status=401, body=refused)) as server:
        llm |= {"provider": "openai", "base_url": server.base_url}
        spec = spec_of(suite, tmp_path / "run", cassette=tmp_path / "cassette.json", **llm)
        run_suite(spec, environ=environ)
        assert KEY in str(server.authorizations)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 8
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


def test_a_case_whose_criterion_changed_is_not_compared_and_costs_no_call(suite: Path, tmp_path: Path):
    """What the baseline's conversation would be by today's criterion is not asked in a comparison."""
    first = run_suite(spec_of(suite, tmp_path / "first"), environ={})
    write_suite(suite, "The agent does something else.", POLITE)
    second = run_suite(spec_of(suite, tmp_path / "second"), environ={})
    assert judge_twice(open_pack(first.pack), open_pack(second.pack)) is None


def test_a_cluster_is_not_asked_to_judge_with_a_model(suite: Path, tmp_path: Path):
    spec = spec_of(suite, tmp_path / "run")
    judged = Judging(judges=("llm",), llm=spec.judging.llm, executor="dask:tcp://127.0.0.1:9")
    with pytest.raises(UsageError, match="asked from this machine"):
        run_suite(RunSpec(suite=suite, output=spec.output, judging=judged), environ={})


def test_show_lists_what_the_judge_found_of_each_criterion(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run_suite(spec_of(suite, tmp_path / "run", votes=2), environ={})
    assert main(["show", str(tmp_path / "run"), "case-1", "--format", "text"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "     NO The agent refunds the order. failed (2 of 2 votes): It failed." in lines
    assert "     ok The agent is polite. passed (2 of 2 votes): It passed." in lines
