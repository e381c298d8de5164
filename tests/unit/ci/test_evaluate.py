"""The rules that a job adds to those of the gate; what evidence restores of a judge that asks a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci import decide
from agent_eval.ci.baseline import Origin, from_path
from agent_eval.ci.config import INPUTS
from agent_eval.ci.decide import Evaluation
from agent_eval.ci.earlier import EarlierRun
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.rules import JobContext
from agent_eval.config.rows.file import GRANTS, KEYS
from agent_eval.config.table import options_of
from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.contracts.policy import GatePolicy, Preset
from agent_eval.contracts.run import ModelsUse
from agent_eval.errors import InvalidInput, InvalidPack, RemoteError
from agent_eval.registry.store import parse_registry
from agent_eval.storage.files import sha256_bytes
from tests.e2e.runner import orders
from tests.factories import make_case
from tests.fakes.models import FakeOpenAi, Step
from tests.unit.ci.evaluations import evaluated, evidence, job, write_suite
from tests.unit.ci.registries import registry


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(orders())
    return tmp_path


def decision(evaluation: Evaluation) -> GateDecision:
    return evaluation.suites[0].decision


def rules(evaluation: Evaluation) -> dict[str, float | None]:
    """The rules that are broken, with their value."""
    return {rule.rule: rule.value for rule in decision(evaluation).rules if not rule.passed and rule.applied}


def statuses(evaluation: Evaluation) -> tuple[str, bool, bool]:
    found = decision(evaluation)
    return found.gate_status.value, found.passed, found.blocks


@pytest.mark.parametrize(
    ("preset", "required", "asks"),
    [
        ("pull-request", "false", None),
        ("release", "false", "preset `release` asks for one"),
        ("pull-request", "true", "`baseline.required` asks for one"),
        ("release", "true", "`baseline.required` asks for one"),
    ],
)
def test_a_first_run_fails_that_needs_a_baseline(preset: Preset, required: str, asks: str | None) -> None:
    found = evaluated(policy=GatePolicy(preset=preset), require_baseline=required)
    if asks is None:
        assert statuses(found) == ("no-baseline", False, False)
        assert rules(found) == {}
    else:
        assert statuses(found) == ("failed", False, True)
        assert rules(found) == {"require_baseline": 0}
        assert decision(found).failures == [f"There is no baseline to compare with, and {asks}."]
    assert found.search.notes == ["`baseline: none` asks for no comparison."]
    assert found.problem == ""


def test_the_same_cases_pass_against_a_baseline_at_a_path_and_are_compared() -> None:
    found = evaluated(baseline=evidence(), require_baseline="true")
    assert statuses(found) == ("passed", True, False)
    [suite] = found.suites
    assert (suite.target.slug, suite.pack, suite.unjudged, suite.reruns) == (
        *("shop", Path("agent-eval-out/shop"), None, None),
    )
    assert suite.baseline is not None
    assert suite.baseline.origin == Origin(how="path")
    assert suite.comparison is not None
    assert suite.comparison.overview.compared_cases == 4
    assert found.archive == Path("agent-eval-out/evidence.zip")
    assert found.archive.exists()
    stored = json.loads((suite.pack / "compare/gate_decision.json").read_text())
    assert stored["gate_status"] == "passed"
    delta = (suite.pack / "compare/baseline_delta.json").read_bytes()
    assert json.loads(delta)["candidate_run_id"] == stored["candidate_run_id"]
    assert stored["comparison_sha256"] == sha256_bytes(delta)
    # A first run leaves a decision and no comparison.
    [suite] = evaluated(min_pass_rate="0.5").suites
    assert suite.decision.gate_status == "no-baseline"
    assert sorted(path.name for path in (suite.pack / "compare").iterdir()) == ["gate_decision.json"]
    assert (suite.baseline, suite.comparison) == (None, None)


def test_thresholds_of_the_policy_hold_for_a_first_run_and_flags_override_them() -> None:
    write_suite(orders(bad=(1,)))
    policy = GatePolicy(min_pass_rate=0.9)
    assert statuses(evaluated(policy=policy)) == ("failed", False, True)
    assert statuses(evaluated(policy=policy, min_pass_rate="0.7")) == ("no-baseline", False, False)


@pytest.mark.parametrize("flags", [{}, {"min_pass_rate": "0.1"}, {"require_baseline": "true"}])
def test_a_baseline_that_cannot_be_known_is_an_error_and_never_a_pass(flags: dict[str, str]) -> None:
    outage = RemoteError("The server answered with HTTP 503.", remedy="Run the job again.")
    found = evaluated(baseline="auto", runs=outage, **flags)
    assert statuses(found) == ("inconclusive", False, True)
    assert found.problem == (
        "The baseline could not be read: The server answered with HTTP 503. Run the job again."
    )
    assert rules(found) == {}


def run_17(archive: str) -> EarlierRun:
    return EarlierRun(number=17, label="run 17", commits=frozenset(), fetch=Path(archive).read_bytes)


def test_a_baseline_that_contradicts_itself_is_withheld_and_refused_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise InvalidInput("its summary disagrees with its verdicts")

    archive = evidence()
    monkeypatch.setattr(decide, "compared", refuse)
    with pytest.raises(InvalidInput, match="disagrees"):
        evaluated(baseline=archive)
    found = evaluated(baseline="auto", runs=[run_17(archive)], min_pass_rate="0.1")
    said = "The evidence of run 17 cannot be compared with: its summary disagrees with its verdicts"
    assert found.search.warnings == [said]
    assert found.suites[0].baseline is None
    assert statuses(found) == ("inconclusive", False, True)
    assert said in found.problem


def test_a_suite_of_which_no_case_could_be_judged_is_a_problem_beside_an_outage() -> None:
    write_suite([{**case, "trace": []} for case in orders()])
    found = evaluated(baseline="auto", runs=RemoteError("Down.", remedy="Wait."))
    assert found.problem.startswith("No case of `s.json` could be judged")
    assert found.problem.endswith("The baseline could not be read: Down. Wait.")


def job_with(digest: str) -> JobContext:
    """A job whose registry has the baseline `main`, of this digest."""
    entry = parse_registry(registry(run_path="before/evidence.zip", sha256=digest), "registry.json")
    made = job(baseline="main")
    return replace(made, rules=replace(made.rules, registry=entry))


def test_a_baseline_is_a_name_in_the_registry_unless_a_file_is_called_so() -> None:
    made = job_with(from_path(Path(evidence()), ["shop"]).baselines["shop"].pack.manifest_sha256)
    assert evaluate(made).suites[0].decision.gate_status == "passed"
    with pytest.raises(InvalidPack, match="is not the one that was registered"):
        evaluate(job_with("0" * 64))
    Path("main").mkdir()
    with pytest.raises(InvalidInput, match="has no evidence of shop; it has: none"):
        evaluate(made)
    unknown = job(baseline="weekly")
    with pytest.raises(InvalidInput, match="The baseline weekly does not exist"):
        evaluate(unknown)


def test_a_run_outside_ci_has_a_name_of_its_own_and_one_in_ci_that_of_the_job_and_its_suite() -> None:
    [suite] = evaluated().suites
    assert suite.candidate.config.run_id.startswith("run-")
    made = job()
    made.platform.__dict__["run"] = CiRun(run_name="ci-17-1", head_sha="c" * 40)
    [suite] = evaluate(made).suites
    assert (suite.candidate.config.run_id, suite.candidate.config.git_commit) == ("ci-17-1-shop", "c" * 40)


KEY = "canary-key-0123456789"


def judged(*answers: str) -> list[dict[str, Any]]:
    """Cases that a model judges by two criteria."""
    criteria = [{"criterion": text} for text in ("The agent refunds the order.", "It is polite.")]
    return [
        make_case(f"case-{number}", output=answer, metadata={"llm": criteria})
        for number, answer in enumerate(answers)
    ]


def ruled(verdict: str = "passed") -> Step:
    return Step(text=json.dumps({"reasoning": f"Key {KEY}.", "evidence": [], "verdict": verdict}))


def run(server: FakeOpenAi, out: str, **flags: str) -> Any:
    model = {"provider": "openai", "llm-base-url": server.base_url, "llm-model": "small", "llm-key": KEY}
    return evaluate(job(suite="s.json", judge="llm", out=out, secrets=(KEY,), **{**model, **flags}))


def test_an_unchanged_suite_is_restored_from_the_baseline_without_a_call():
    write_suite(judged("Refunded.", "Done."))
    with FakeOpenAi(ruled()) as server:
        before = run(server, "before")
        assert before.suites[0].candidate.summary.judging == ModelsUse(
            calls=4, input_tokens=400, output_tokens=40, cached_tokens=20, unpriced=4
        )
        after = run(server, "after", baseline=str(before.archive))
        assert len(server.requests) == 4
        assert after.suites[0].candidate.summary.judging == ModelsUse(reused=4)
        assert after.suites[0].decision.gate_status is GateStatus.PASSED
        write_suite(judged("Refunded.", "Never."))
        changed = run(server, "changed", baseline=str(before.archive))
        assert changed.suites[0].candidate.summary.judging.calls == 2
        assert len(server.requests) == 6


def test_a_change_cannot_name_address_key_provider_or_kept_replies():
    of_the_job = {row.name: row for row in INPUTS}
    assert not {"cassette", "cassette-mode"} & set(of_the_job)
    assert {"cassette", "cassette-mode"} < {row.name for row in options_of("rejudge")}
    assert {"provider", "llm-base-url", "llm-script"} < GRANTS
    assert "llm-key" not in KEYS
    assert of_the_job["llm-key"].kind == "secret"
