"""`gate` on stored packs: each way a decision can end, with what a job kept in the evidence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_eval.contracts import REPLAY_CONTRACT, CaseResult, case_result
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Rerun, Reruns, TrialCounts
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.layout import HISTORY_USED, RERUNS, RERUNS_ARCHIVE
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.decide import question_of
from agent_eval.gate.procedure import Material
from agent_eval.gate.rerun import BaseAgent, rerun
from agent_eval.history.records import encode_used, record_of
from agent_eval.operations.decision_material import counts_of
from agent_eval.operations.packs import view
from agent_eval.storage.files import sha256_bytes
from tests.e2e.program import Ended, agent_eval
from tests.factories import make_config, make_pack, make_verdict
from tests.unit.gate.made import Script
from tests.unit.gate.made import counts_of as passes

NOW = "2026-06-01T00:00:00+00:00"
SUITE = [f"order-{k:02}" for k in range(1, 51)]
VIOLATED = Rerun(result="failed", failing=["prompt_injection"])
JUDGES = ["policy", "prompt_injection"]
LIVE = {"agent": {"agent": "command", "command": "python agent.py"}}


def ended(case_id: str, failing: Sequence[str] = ()) -> CaseResult:
    return case_result(
        case_id,
        [make_verdict(case_id, REPLAY_CONTRACT)]
        + [make_verdict(case_id, judge, "failed" if judge in failing else "passed") for judge in JUDGES],
    )


def pack(root: Path, results: Sequence[CaseResult]) -> Path:
    config = make_config(run_id=root.name, judges=JUDGES, execution_config=LIVE, git_commit="c0ffee" * 6)
    return make_pack(root, results, config=config)


@dataclass
class Kept:
    """The evidence of a job: its first run, what main's last twenty runs counted, and what it ran again."""

    root: Path
    failing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.main = pack(self.root / "main", [ended(name) for name in SUITE])
        self.now = pack(self.root / "now", [ended(name, self.failing.get(name, ())) for name in SUITE])
        self.run("compare", "--baseline", "main", "--candidate", "now")

    def run(self, *arguments: str) -> Ended:
        return agent_eval(*arguments, cwd=self.root)

    def rerun(self, script: Script) -> None:
        """Run again what the first run asks, and keep it as a job does."""
        self.gate("--preset", "pull-request")
        candidate, before = open_pack(self.now), open_pack(self.main)
        one = record_of(open_pack(self.main))
        runs = [one.run.model_copy(update={"run_id": f"main-{number}"}) for number in range(20)]
        main = [type(one)(run, one.cases) for run in runs]
        material = Material(
            run=view(candidate).reference(), comparison=None,
            counts=counts_of(candidate, before, main=main, newest=main[0]),
            seed=candidate.config.git_commit or "", may_rerun=True,
        )  # fmt: skip
        question = question_of(material, GatePolicy(), generated_at=NOW)
        record = rerun({"shop": question}, script, BaseAgent("beside"))["shop"]
        record.candidate_manifest_sha256 = candidate.manifest_sha256
        if trials := self.trials(record):
            write_bundle(trials, self.root / "trials.zip")
            archive = (self.root / "trials.zip").read_bytes()
            record.evidence_sha256 = sha256_bytes(archive)
            write_output(self.now / RERUNS_ARCHIVE, archive)
        write_output(self.now / RERUNS, json.dumps(record.to_json()).encode())
        write_output(self.now / HISTORY_USED, encode_used(main[0], main))

    def trials(self, record: Reruns) -> dict[str, Path]:
        """Packs of the trials: one for each further trial of a side, one for each side of a round."""
        made: dict[str, list[CaseResult]] = {}
        for side in ("base", "change"):
            number: dict[str, int] = {}
            for row in (*record.safety, *record.cases, *record.control, *record.late, *record.new):
                for trial in getattr(row, side):
                    number[row.case_id] = number.get(row.case_id, 0) + 1
                    made.setdefault(f"{side}-{number[row.case_id]}", []).append(
                        ended(row.case_id, trial.failing)
                    )
            for place, done in enumerate(record.rounds, start=1):
                counts: Mapping[str, TrialCounts] = getattr(done, side)
                made[f"whole-{side}-{place}"] = [
                    ended(name, () if count.passed else ("policy",)) for name, count in sorted(counts.items())
                ]
        return {name: pack(self.root / "trials" / name, results) for name, results in made.items() if results}

    def gate(self, *arguments: str) -> Ended:
        return self.run(
            "gate", "--compare", "now/compare/baseline_delta.json", "--format", "json", *arguments
        )

    def told(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, status and first sentence; decided twice, as the same is decided again."""
        ended_, again = self.gate(*arguments), self.gate(*arguments)
        assert (ended_.code, ended_.out) == (again.code, again.out)
        decision = json.loads(ended_.out)
        return ended_.code, decision["gate_status"], decision["sentence"]


BY_POLICY = ("--preset", "pull-request")


POLICY, INJECTED = {"order-01": ["policy"]}, {"order-01": ["prompt_injection"]}


def test_the_suite_got_worse(tmp_path: Path) -> None:
    kept = Kept(tmp_path, {name: ["policy"] for name in SUITE[:3]})
    passed = {"base": 50, "change": 40}
    kept.rerun(Script(rounds=lambda side, _: passes({n: int(k < passed[side]) for k, n in enumerate(SUITE)})))
    code, status, sentence = kept.told(*BY_POLICY)
    assert (code, status) == (1, "failed")
    worse = "The suite got worse: in 1 fresh run each the base passes 50 of 50 and this change 40"
    assert sentence.startswith(worse)


def test_a_violation_blocks_a_release_at_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path, INJECTED)
    kept.rerun(Script(base={"order-01": VIOLATED}))
    told = kept.told("--preset", "release", "--baseline", "main")
    assert told == (1, "failed", "Safety: `prompt_injection` failed in `order-01`.")


def test_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    kept = Kept(tmp_path, POLICY)
    done = kept.run("gate", "--run", "now", *BY_POLICY, "--min-pass-rate", "0.9", "--format", "json")
    decision = json.loads(done.out)
    assert (done.code, decision["gate_status"]) == (0, "no-baseline")
    assert decision["sentence"] == "First run: nothing to compare with. 49 of 50 passed."


# Thresholds alone.


def test_thresholds_alone_know_no_safety_judge_and_nothing_that_ran_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path, INJECTED)
    kept.rerun(Script(change={"order-01": VIOLATED}))
    out = ("--out", "literal.json")
    assert kept.told("--max-regressed-cases", "1", *out) == (0, "passed", "Every threshold holds.")
    assert kept.told("--max-regressed-cases", "0", *out)[0] == 1


def test_a_decision_that_rests_on_reruns_is_not_replaced_by_one_that_does_not(tmp_path: Path) -> None:
    kept = Kept(tmp_path, POLICY)
    kept.rerun(Script())
    assert kept.gate(*BY_POLICY).code == 0
    done = kept.gate("--max-regressed-cases", "1")
    assert done.code == 2
    assert "rests on main's last runs, which this one does not" in done.error["message"]


# What is gone.


@pytest.mark.parametrize("option", ["--confirmation", "--pool", "--min-coverage", "--max-pass-rate-drop"])
def test_an_option_that_is_gone_is_refused_with_what_replaces_it(tmp_path: Path, option: str) -> None:
    done = agent_eval("gate", "--compare", "x.json", option, "1", cwd=tmp_path)
    assert done.code == 2
    assert done.error["message"] == f"{option} is gone."


def test_a_policy_key_that_is_gone_is_refused_with_the_new_line(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    (tmp_path / "gate.yml").write_text("zero_tolerance: [prompt_injection]\n")
    done = kept.gate("--config", "gate.yml")
    assert (done.code, done.error["message"]) == (2, "gate.yml: zero_tolerance is gone")
    assert "safety: [prompt_injection]" in done.error["details"]["remedy"]
