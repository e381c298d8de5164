"""`gate` on stored packs: each way a decision can end, with what a job kept in the evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tests.unit.gate.made import FAILED, PASSED, Script
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


def pack(root: Path, results: Sequence[CaseResult], *, is_live: bool = True, commit: str = "c0ffee") -> Path:
    config = make_config(
        run_id=root.name, judges=JUDGES, execution_config=LIVE if is_live else {}, git_commit=commit * 6
    )
    return make_pack(root, results, config=config)


@dataclass
class Kept:
    """The evidence of a job: its first run, what main's last twenty runs counted, and what it ran again."""

    root: Path
    failing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Sequence[str] = tuple(SUITE)
    on_main: Mapping[str, Sequence[str]] = field(default_factory=dict)
    newest: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_live: bool = True

    def __post_init__(self) -> None:
        self.main = pack(
            self.root / "main", [ended(n, self.on_main.get(n, ())) for n in self.names], is_live=self.is_live
        )
        self.now = pack(
            self.root / "now", [ended(n, self.failing.get(n, ())) for n in self.names], is_live=self.is_live
        )
        self.run("compare", "--baseline", "main", "--candidate", "now")

    def run(self, *arguments: str) -> Ended:
        return agent_eval(*arguments, cwd=self.root)

    def history(self, runs: int = 20) -> list[Any]:
        record = record_of(open_pack(self.main))
        return [
            type(record)(record.run.model_copy(update={"run_id": f"main-{k}"}), record.cases)
            for k in range(runs)
        ]

    def rerun(self, script: Script, base: BaseAgent | None = None, runs: int = 20) -> None:
        """Run again what the first run asks, and keep it as a job does."""
        self.gate("--preset", "pull-request")
        candidate, before = open_pack(self.now), open_pack(self.main)
        main = self.history(runs)
        newest = main[0]
        if self.newest:
            after = pack(self.root / "412", [ended(n, self.newest.get(n, ())) for n in self.names])
            newest = record_of(open_pack(after))
        material = Material(
            run=view(candidate).reference(), comparison=None,
            counts=counts_of(candidate, before, main=main, newest=newest),
            seed=candidate.config.git_commit or "", may_rerun=True,
        )  # fmt: skip
        question = question_of(material, GatePolicy(), generated_at=NOW)
        record = rerun({"shop": question}, script, base or BaseAgent("beside"))["shop"]
        record.candidate_manifest_sha256 = candidate.manifest_sha256
        if trials := self.trials(record):
            write_bundle(trials, self.root / "trials.zip")
            archive = (self.root / "trials.zip").read_bytes()
            record.evidence_sha256 = sha256_bytes(archive)
            write_output(self.now / RERUNS_ARCHIVE, archive)
        write_output(self.now / RERUNS, json.dumps(record.to_json()).encode())
        write_output(self.now / HISTORY_USED, encode_used(newest, main))

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
BROKE, BOTH = {"order-01": FAILED}, {"change": {"order-01": FAILED}, "base": {"order-01": FAILED}}
BASE_IS_BROKEN = {"change": BROKE, "base": dict.fromkeys(SUITE, FAILED)}
FURTHER = "Safety: `prompt_injection` failed in `order-01`, and in 2 of 3 further runs of this change."
NOT_IN_MAINS = (
    "`order-01` never passed again here; the base fails it too, but not in main's own run. Run main again."
)
OUTCOMES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[int, str, str]]] = {
    "nothing fails": ({}, {}, (0, "passed", "Nothing broke.")),
    "a case broke": (
        *({"failing": POLICY}, {"change": BROKE}),
        (1, "failed", "1 case broke: `order-01` passed 0 of 8 times here and 8 of 8 on main."),
    ),
    "a case passes again": (
        *({"failing": POLICY}, {}),
        (0, "passed", "Nothing broke; `order-01` failed once and passed again."),
    ),
    "a violation repeats": (
        *({"failing": INJECTED}, {"change": {"order-01": [VIOLATED, PASSED, VIOLATED]}}),
        (1, "failed", FURTHER),
    ),
    "a case fails on both sides": ({"failing": POLICY}, BOTH, (3, "inconclusive", NOT_IN_MAINS)),
    "a case fails in main's newest run too": (
        *({"failing": POLICY, "newest": POLICY}, BOTH),
        (0, "passed", "Nothing broke; `order-01` fails on main as well (run 412)."),
    ),
    "the control fails": (
        *({"failing": POLICY}, BASE_IS_BROKEN),
        (3, "inconclusive", "The base does not run here: it fails `order-02` and `order-03` too"),
    ),
    "reruns were cut": (
        *({"failing": POLICY}, {"change": BROKE, "most": 9}),
        (3, "inconclusive", "`order-01` never passed again here; the time of the run was used up."),
    ),
}
"""By what happens: the evidence, what runs again, and the end; of the sentence, the beginning."""


@pytest.mark.parametrize("what", OUTCOMES)
def test_what_a_job_ran_again_decides(tmp_path: Path, what: str) -> None:
    evidence, again, (code, status, sentence) = OUTCOMES[what]
    kept = Kept(tmp_path, **evidence)
    kept.rerun(Script(**again))
    told = kept.told(*BY_POLICY)
    assert told[:2] == (code, status)
    assert told[2] == sentence or (what == "the control fails" and told[2].startswith(sentence))


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


def test_a_limit_is_broken_significantly_and_else_a_note(tmp_path: Path) -> None:
    names = SUITE[:20]
    failing = {name: ["policy"] for name in names[:4]}
    kept = Kept(tmp_path, failing, names=names, on_main=failing)
    kept.rerun(Script())
    assert kept.told(*BY_POLICY, "--min-pass-rate", "0.95") == (
        *(1, "failed"),
        "16 of 20 passed (80.0%): an agent that keeps min_pass_rate 95% passes so few in 2% of runs.",
    )
    assert kept.told(*BY_POLICY, "--min-pass-rate", "0.9")[0] == 0
    assert kept.told("--min-pass-rate", "0.9", "--out", "literal.json")[0] == 1


def test_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    kept = Kept(tmp_path, POLICY)
    done = kept.run("gate", "--run", "now", *BY_POLICY, "--min-pass-rate", "0.9", "--format", "json")
    decision = json.loads(done.out)
    assert (done.code, decision["gate_status"]) == (0, "no-baseline")
    assert decision["sentence"] == "First run: nothing to compare with. 49 of 50 passed."


# Recorded traces, and packs without what a job kept.


def test_recorded_cases_flip(tmp_path: Path) -> None:
    kept = Kept(tmp_path, {"order-01": ["policy"], "order-02": ["policy"]}, is_live=False)
    code, status, sentence = kept.told(*BY_POLICY)
    assert (code, status) == (1, "failed")
    assert sentence.startswith("2 of 50 cases flipped: `order-0")
    assert kept.told(*BY_POLICY, "--max-regressed-cases", "2")[:2] == (0, "passed")


def test_what_the_job_ran_again_counts_only_whole_and_unaltered(tmp_path: Path) -> None:
    kept = Kept(tmp_path, POLICY)
    kept.rerun(Script(change={"order-01": FAILED}))
    record = json.loads((kept.now / RERUNS).read_text())
    record["cases"][0]["change"] = [{"result": "passed"}] * 8
    write_output(kept.now / RERUNS, json.dumps(record).encode())
    done = kept.gate(*BY_POLICY)
    assert done.code == 2
    assert "its trials are not those of the packs" in done.error["message"]
    record["cases"], record["evidence_sha256"] = [], None
    write_output(kept.now / RERUNS, json.dumps(record).encode())
    assert kept.gate(*BY_POLICY, "--out", "other.json").code == 3


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
    assert done.code == 2
    assert done.error["message"] == "gate.yml: zero_tolerance is gone"
    assert "safety: [prompt_injection]" in done.error["details"]["remedy"]
