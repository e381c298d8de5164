"""`agent-eval gate` by policy, `compare` by a baseline's name, and waivers, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_case, make_suite
from tests.unit.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("pinned")

DELTA = "now/compare/baseline_delta.json"
UNPINNED = ("gate", "--compare", DELTA)
GATE = (*UNPINNED, "--baseline", "before")
ZERO = ("--max-regressed-cases", "0")
APPLY = ("--apply-waivers", "--baseline-name", "main")
WAIVE = (
    *("registry", "waiver-add", "--baseline-name", "main"),
    *("--approved-by", "qa@example.com", "--reason", "known"),
)


def compared(cli: Shell, *, worse: int = 0, better: int = 0, total: int = 50) -> None:
    """Runs `before` and `now`: `worse` cases regress, `better` others are mended; and their comparison."""
    for run in ("before", "now"):
        cases = []
        for number in range(total):
            fails = number < worse if run == "now" else worse <= number < worse + better
            tools = ("lookup", "escalate") if fails else ("lookup",)
            cases.append(make_case(f"order-{number}", *tools, policy={"forbidden_tools": ["escalate"]}))
        Path(f"{run}.json").write_text(json.dumps(make_suite(*cases)))
        cli.json("run", "--suite", f"{run}.json", "--out", run, "--run-id", run)
    cli.json("compare", "--baseline", "before", "--candidate", "now")


@pytest.mark.parametrize("preset", ["pull-request", "release"])
@pytest.mark.parametrize("total", [1, 2, 5])
def test_identical_verdicts_pass_in_every_preset(preset: str, total: int, cli: Shell) -> None:
    compared(cli, total=total)
    Path("gate.yml").write_text("deterministic: true\n")
    Path("gate.json").write_text('{"deterministic": true}')
    for policy in (("--config", "gate.yml"), ("--set", "policy=gate.json")):
        decision = cli.json(*GATE, *policy, "--preset", preset)
        assert (decision["gate_status"], decision["blocks"], decision["preset"]) == ("passed", False, preset)


@pytest.mark.parametrize("preset", ["pull-request", "release"])
def test_cases_of_one_recording_that_flip_fail_in_every_preset_and_say_that_chance_may_be_why(
    preset: str, cli: Shell
) -> None:
    compared(cli, worse=7, better=4)
    shown = cli.out(*GATE, "--preset", preset, code=1)
    said = " ".join(shown.split())
    assert shown.startswith("❌ 7 of 50 recorded cases regressed\n  `order-")
    assert "cannot rule out that they are flaky" in said
    assert "record 8 trials a case" in said
    assert f"Decision: {DELTA.replace('baseline_delta', 'gate_decision')}" in shown


def test_what_a_release_cannot_tell_blocks_it(cli: Shell) -> None:
    compared(cli, total=5)
    cli.json(*GATE, "--preset", "pull-request")
    decision = cli.json(*GATE, "--preset", "release", code=3)
    assert (decision["gate_status"], decision["blocks"]) == ("inconclusive", True)
    assert (decision["release"]["answer"], decision["release"]["margin"]) == ("open", 0.02)


def test_a_report_has_the_decision_s_sentence_below_its_heading(cli: Shell) -> None:
    compared(cli, worse=12, better=1)
    decision = cli.json(*GATE, "--preset", "pull-request", code=1)
    assert decision["gate_status"] == "failed"
    assert [case["answer"] for case in decision["cases"]] == ["broke"] * 12
    report = ("report", "markdown", "--compare", DELTA, "--gate", "now/compare/gate_decision.json")
    cli.json(*report, "--out", "report.md")
    text = Path("report.md").read_text(encoding="utf-8")
    assert text.startswith(
        "## ❌ 12 of 50 recorded cases regressed · Agent Eval Report\n\n> **`order-2`, `order-3`, `order-11` "
        "and 9 more passed on main and fail here. "
        "One recorded run of each cannot rule out that they are flaky.**"
    )
    assert "· 12 regressed · 1 improved" in text


def test_thresholds_alone_are_held_to_the_letter(cli: Shell) -> None:
    compared(cli, worse=2)
    decision = cli.json(*GATE, "--max-regressed-cases", "2")
    assert (decision["gate_status"], decision["preset"]) == ("passed", None)
    assert (decision["decided_by"], decision["cases"], decision["main_runs"]) == ("thresholds", [], [])
    cli.json(*GATE, "--max-regressed-cases", "1", code=1)
    assert cli.json(*GATE, "--min-pass-rate", "0.96")["gate_status"] == "passed"
    assert cli.json(*GATE, "--min-pass-rate", "0.97", code=1)["gate_status"] == "failed"


def test_thresholds_override_those_of_a_policy(cli: Shell) -> None:
    compared(cli, worse=1)
    cli.json(*GATE, "--preset", "pull-request", code=1)
    decision = cli.json(*GATE, "--preset", "pull-request", "--max-regressed-cases", "1")
    assert (decision["gate_status"], decision["decided_by"]) == ("passed", "policy")
    assert [case["answer"] for case in decision["cases"]] == ["broke"]
    rules = "{max_regressed_cases: 1, min_pass_rate: 0.1}"
    for file in (rules, f"policy: {rules}"):
        Path("gate.yml").write_text(file)
        cli.json(*GATE, "--config", "gate.yml")
        decision = cli.json(*GATE, "--config", "gate.yml", *ZERO, code=1)
        assert decision["thresholds"]["min_pass_rate"] == 0.1  # the file's other rules hold


def test_a_policy_file_and_a_preset_in_its_place(cli: Shell) -> None:
    compared(cli, worse=1, better=1)
    quarantine = "quarantine: [{case: order-0, reason: flaky, until: 2027-01-31}]\n"
    Path("gate.yml").write_text(f"deterministic: true\nmargin: 0.2\n{quarantine}")
    decision = cli.json(*GATE, "--config", "gate.yml")
    assert (decision["preset"], decision["release"]) == ("pull-request", None)
    assert decision["quarantined_case_ids"] == ["order-0"]
    decision = cli.json(*GATE, "--config", "gate.yml", "--preset", "release")
    assert (decision["preset"], decision["release"]["margin"]) == ("release", 0.2)


def test_a_quarantine_that_is_over_excuses_nothing(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    compared(cli, worse=1)
    Path("gate.yml").write_text("quarantine:\n  - {case: order-0, reason: flaky, until: 2026-01-31}\n")
    cli.json(*GATE, "--config", "gate.yml")
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-02-01T00:00:00+00:00")
    decision = cli.json(*GATE, "--config", "gate.yml", code=1)
    assert (decision["quarantined_case_ids"], decision["expired"][0]["case_ids"]) == ([], ["order-0"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gate.yml", "margn: 0.5\n", "'margin'"),
        ("gate.yml", "- margin", "must hold an object"),
        ("gate.json", "[1]", "must hold an object"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_its_file(name: str, text: str, said: str, cli: Shell) -> None:
    compared(cli)
    Path(name).write_text(text)
    found = cli.error(*GATE, "--set", f"policy={name}")
    assert said in found["message"]
    assert found["details"]["file"] == name


def test_nothing_to_decide_by_is_refused(cli: Shell) -> None:
    compared(cli)
    assert "--preset" in cli.error(*GATE)["details"]["remedy"]


def test_a_registered_baseline_by_its_name(cli: Shell) -> None:
    compared(cli, worse=1)
    cli.json("registry", "baseline-set", "--name", "main", "--run", "before")
    found = cli.json("compare", "--baseline", "main", "--candidate", "now")
    assert found["baseline_run_id"] == "before"
    missing = cli.error("compare", "--baseline", "mian", "--candidate", "now")
    assert "Registered: main" in missing["details"]["remedy"]
    cli.json("run", "--suite", "now.json", "--out", "before", "--run-id", "other", "--fresh")
    swapped = cli.error("compare", "--baseline", "main", "--candidate", "now")
    assert swapped["code"] == "invalid_pack"
    assert "is not the one that was registered" in swapped["message"]


def test_waivers_excuse_exactly_what_they_name(cli: Shell) -> None:
    compared(cli, worse=2)
    cli.json("registry", "baseline-set", "--name", "main", "--run", "before")
    waived = cli.json(*WAIVE, "--case-id", "order-0")["waiver"]["waiver_id"]
    assert cli.json(*GATE, *ZERO, *APPLY, code=1)["regressed_cases_considered"] == 1
    cli.json(*WAIVE[:-1], "known too", "--case-id", "order-1")
    decision = cli.json(*GATE, *ZERO, *APPLY)
    assert decision["waived_case_ids"] == ["order-0", "order-1"]
    assert [one["reason"] for one in decision["waivers"]] == ["known too", "known"]
    shown = cli.out(*GATE, *ZERO, *APPLY)
    assert f"Waived: `order-0`, by `{waived}` of `qa@example.com`" in " ".join(shown.split())
    assert cli.json(*GATE, *ZERO, *APPLY[:-1], "other", code=1)
    misspelt = cli.error(*GATE, *ZERO, *APPLY[:-1], "mian")
    assert misspelt["message"] == "'mian' is not a registered baseline. Registered: main"
    cli.json("registry", "waiver-revoke", "--waiver-id", waived, "--revoked-by", "qa@example.com")
    cli.json(*GATE, *ZERO, *APPLY, code=1)


@pytest.mark.parametrize("stated", ["2026-02-01T00:00:00+00:00", None], ids=["its end", "ninety days"])
def test_a_waiver_that_is_over_is_said_where_its_case_counts_again(
    stated: str | None, cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(cli, worse=1)
    cli.json("registry", "baseline-set", "--name", "main", "--run", "before")
    until, end = stated or "2026-04-14T10:00:00+00:00", ("--expires-at", stated) if stated else ()
    assert f"which ends {until}" in cli.out(*WAIVE, "--case-id", "order-0", *end)
    gate = (*GATE, *ZERO, *APPLY)
    decision = cli.json(*gate)
    assert (decision["expired"], decision["waivers"][0]["expires_at"]) == ([], until)
    if stated is None:  # nor need one that an earlier version made say so
        registry = Path(".agent_eval/registry.json")
        content = json.loads(registry.read_text())
        del content["waivers"][0]["expires_at"]
        registry.write_text(json.dumps(content))
        cli.json(*gate)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", until)
    (expired,) = cli.json(*gate, code=1)["expired"]
    assert (expired["case_ids"], expired["expires_at"]) == (["order-0"], until)
    shown = cli.out(*gate, code=1)
    assert "  1 case regressed, above max_regressed_cases 0." in shown
    assert until in shown.replace("\n     ", "")
    assert "`order-0`" in shown
    assert cli.json("registry", "list")["waivers"] == []


def test_a_comparison_that_contradicts_itself_is_named(cli: Shell) -> None:
    compared(cli)
    edited = json.loads(Path("now/compare/baseline_delta.json").read_text())
    edited["overview"]["regressed_cases"] = 3
    Path("edited.json").write_text(json.dumps(edited))
    told = cli.error("gate", "--compare", "edited.json", "--max-regressed-cases", "0")
    assert told["message"].startswith("edited.json: ")
    assert told["details"]["file"] == "edited.json"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--apply-waivers",), "--baseline-name"),
        (("--baseline-name", "main"), "--apply-waivers"),
        (APPLY, "there is no registry"),
    ],
)
def test_waivers_need_a_registry_and_a_name(flags: tuple[str, ...], said: str, cli: Shell) -> None:
    compared(cli)
    assert said in cli.error(*GATE, *ZERO, *flags)["message"]


@pytest.mark.parametrize(
    ("policy", "waived"), [("safety: [polcy]\n", None), ("preset: pull-request\n", "polcy")]
)
def test_a_judge_that_there_is_not_is_refused_with_the_nearest_name(
    policy: str, waived: str | None, cli: Shell
) -> None:
    compared(cli)
    cli.json("registry", "baseline-set", "--name", "main", "--run", "before")
    if waived is not None:
        cli.json(*WAIVE, "--judge-id", waived)
    Path("gate.yml").write_text(policy)
    found = cli.error(*GATE, "--config", "gate.yml", *(APPLY if waived is not None else ()))
    assert "'polcy'" in found["message"]
    assert found["details"]["remedy"] == "Did you mean policy?"


def test_the_packs_of_a_comparison_are_found_in_the_registry_beside_it_and_by_name(cli: Shell) -> None:
    compared(cli)
    cli.json(*UNPINNED, *ZERO)
    Path("before").rename("elsewhere")
    found = cli.error(*UNPINNED, *ZERO)
    assert found["details"]["field"] == "baseline"
    assert "--baseline" in found["details"]["remedy"]
    cli.json(*UNPINNED, *ZERO, "--baseline", "elsewhere")
    cli.json("registry", "baseline-set", "--name", "main", "--run", "elsewhere")
    cli.json(*UNPINNED, *ZERO)
    cli.json(*UNPINNED, *ZERO, "--baseline", "main")
    cli.json("compare", "--baseline", "main", "--candidate", "now", "--out", "delta.json")
    Path("now").rename("moved")
    apart = ("gate", "--compare", "delta.json", *ZERO)
    assert cli.error(*apart)["details"]["field"] == "candidate"
    cli.json(*apart, "--candidate", "moved")


def test_a_pack_that_is_another_run_is_refused(cli: Shell) -> None:
    compared(cli, worse=1)
    assert "is not the baseline" in cli.error(*GATE, *ZERO, "--baseline", "now")["message"]
    assert "is not the candidate" in cli.error(*GATE, *ZERO, "--candidate", "before")["message"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda delta: delta.update(case_regressions=[]),
        lambda delta: delta["case_regressions"][0]["judges"].clear(),
        lambda delta: delta["candidate"]["summary"].update(flaky_cases=0),
    ],
    ids=["cases", "judges of a case", "summary"],
)
def test_an_edited_comparison_does_not_follow_from_its_packs(edit: Any, cli: Shell) -> None:
    compared(cli, worse=1)
    suite = json.loads(Path("now.json").read_text())
    policy = {"forbidden_tools": ["lookup"]}
    Path("now.json").write_text(json.dumps(make_suite(*suite["cases"][:49], make_case("new", policy=policy))))
    cli.json("run", "--suite", "now.json", "--out", "now", "--run-id", "now")
    cli.json("compare", "--baseline", "before", "--candidate", "now", "--allow-incompatible")
    delta = json.loads(Path(DELTA).read_text())
    edit(delta)
    Path("edited.json").write_text(json.dumps(delta))
    packs = ("--baseline", "before", "--candidate", "now", "--preset", "pull-request")
    refused = cli.error("gate", "--compare", "edited.json", *packs)
    assert "does not follow from its packs" in refused["message"]
