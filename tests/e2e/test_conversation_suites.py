"""Suites of conversations, and what can be done with their evidence, against the demonstration's agents."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.compare import compare_packs
from agent_eval.operations.packs import open_run
from agent_eval.suites.paths import bundled_suite, bundled_suites
from tests import demo_baseline
from tests.fakes.aui import KEY, FakeAui

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "tests" / "fixtures" / "aui" / "specification-example.json"
CANARY = "canary-5a77-key"
STOPS = {"purpose": "simulate", "object": {"message": "", "done": True, "reason": "goal"}}
SCRIPTED = ("--provider", "scripted", "--set", "judge_model.script=script.json")
TESTS = 9
PASSES = {"purpose": "judge", "object": {"reasoning": "It is so.", "evidence": [], "verdict": "passed"}}


@pytest.fixture(scope="module")
def served() -> Iterator[DemoServer]:
    with DemoServer(DemoAgents()) as server:
        yield server


class Terminal:
    """Calls commands in an empty directory; models are scripted, agents those of the demonstration."""

    def __init__(self, served: DemoServer, printed: pytest.CaptureFixture[str]) -> None:
        self.served, self.printed = served, printed

    def done(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        assert main([*arguments, "--format", "json"]) == code, self.printed.readouterr().err
        captured = self.printed.readouterr()
        return dict(json.loads(captured.out or captured.err.splitlines()[-1]))

    def command(self, name: str, *arguments: str, server: DemoServer | None = None) -> list[str]:
        model = ("--judge-model", "scripted:script.json", "--llm-key", f"llm-{CANARY}")
        return [name, *arguments, "--set", f"agent.base_url={(server or self.served).url}", *model]

    def run(self, *arguments: str, code: int = 0, server: DemoServer | None = None) -> dict[str, Any]:
        return self.done(*self.command("run", *arguments, server=server), code=code)

    def run_hr(self, out: str, *more: str) -> dict[str, Any]:
        return self.run("demo:hr", "--parallel", "8", "--out", out, *more)

    def unchanged(self, before: str, now: str) -> None:
        overview = self.done("compare", "--baseline", before, "--candidate", now)["overview"]
        assert (overview["compared_cases"], overview["regressed_cases"]) == (TESTS, 0)


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUI_API_KEY", CANARY)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-04-14T10:00:00+00:00")
    script = {"kind": "model_script", "schema_version": "1.2.0", "replies": [STOPS, PASSES]}
    Path("script.json").write_text(json.dumps(script))
    return Terminal(served, capsys)


def assert_no_key(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "script.json":
            data = path.read_bytes()
            assert CANARY.encode() not in data, path
            assert b"your-api-key" not in data or path.name.startswith("suite"), path


def test_the_example_of_the_specification_runs_and_leaves_what_it_promises(terminal: Terminal) -> None:
    result = terminal.run(str(EXAMPLE))
    assert (result["score"], result["pass_rate"]) == (100.0, 1.0)
    folder = Path("results/Customer-Support-Evaluations/20260414-100000")
    assert result["reports"] == str(folder)
    page = "Basic-support-request-should-resolve-without-escalation.md"
    assert sorted(path.name for path in folder.iterdir()) == [page, "_results.json", "_summary.md", "pack"]
    summary = (folder / "_summary.md").read_text()
    assert all(title in summary for title in ("## By Category", "## By AUI Logic", "## By Tag"))
    [test] = json.loads((folder / "_results.json").read_text())["tests"]
    assert test["turns"][0]["raw"][0]["executed_workflows"] == ["BILLING_INQUIRY"]
    assert open_pack(folder / "pack").summary.passed_cases == 1
    assert_no_key(Path())


@pytest.mark.parametrize("name", sorted(bundled_suites()))
def test_every_bundled_suite_passes_with_the_demonstrations_agent(terminal: Terminal, name: str) -> None:
    result = terminal.run(name, "--parallel", "8", "--out", "runs/pack")
    assert (result["pass_rate"], result["score"]) == (1.0, 100.0)
    assert_no_key(Path())


def test_a_key_that_is_not_set_or_allowed_ends_2(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUI_API_KEY")
    assert "is not set" in terminal.run("demo:hr", code=2)["error"]["message"]
    suite = json.loads(bundled_suite("demo:hr").read_text())
    Path("suite.json").write_text(json.dumps({**suite, "apiKey": "${OTHER_KEY}"}))
    monkeypatch.setenv("OTHER_KEY", CANARY)
    assert "may not read here" in terminal.run("suite.json", code=2)["error"]["message"]
    allowed = terminal.run("suite.json", "--set", "agent.key_env=OTHER_KEY", "--test", "payslip")
    assert allowed["pass_rate"] == 1.0
    refused = terminal.run("suite.json", "--set", "agent.key_env=CI_JOB_TOKEN", code=2)
    assert "holds a secret of the job" in refused["error"]["message"]


def test_a_suite_that_names_a_model_cannot_be_run(terminal: Terminal) -> None:
    Path("suite.json").write_text(json.dumps({**json.loads(EXAMPLE.read_text()), "model": "small"}))
    assert "the AUI API has no field for one" in terminal.run("suite.json", code=2)["error"]["message"]


def in_test(**changes: Any) -> dict[str, Any]:
    suite = json.loads(EXAMPLE.read_text())
    return {**suite, "tests": [{**suite["tests"][0], **changes}]}


def without(kind: str, *required: str) -> list[dict[str, Any]]:
    """The evaluations of suites in which one of a kind lacks one of its fields."""
    whole = {"criterion": "It is so.", "strict": kind, **dict.fromkeys(required, "X")}
    return [in_test(evaluations=[{k: v for k, v in whole.items() if k != absent}]) for absent in required]


REQUIRED = {
    "tool_used": ("criterion", "toolName"), "tool_not_used": ("toolName",),
    "param_equals": ("paramName", "paramValue"), "param_exists": ("paramName",),
    "param_not_exists": ("paramName",), "rule_triggered": ("ruleCode",),
    "rule_not_triggered": ("ruleCode",), "integration_called": ("integrationCode",),
}  # fmt: skip
SPECIFIED = json.loads(EXAMPLE.read_text())
WRONG: dict[str, list[dict[str, Any]]] = {
    "a required field of the suite is missing": [
        {k: v for k, v in SPECIFIED.items() if k != absent} for absent in SPECIFIED
    ],
    "a required field of a test is missing": [
        {**SPECIFIED, "tests": [{k: v for k, v in SPECIFIED["tests"][0].items() if k != absent}]}
        for absent in ("name", "guidelines", "turns", "evaluations")
    ],
    "a field has another type": [
        *({**SPECIFIED, name: [1]} for name in ("name", "agentId", "apiKey", "model", "judgeModel", "tests")),
        *(in_test(**{name: 7}) for name in ("name", "userInfo", "guidelines", "turns", "evaluations")),
        *(in_test(**{name: 7}) for name in ("systemPrompt", "tags")),
        *(in_test(turns=[{"user": "Hi", name: [1]}]) for name in ("user", "timeout", "expectation")),
    ],
    "there is no such strict kind": [in_test(evaluations=[{"criterion": "It is so.", "strict": "escalate"}])],
    "an extra field of a kind is missing": [
        suite for kind, names in REQUIRED.items() for suite in without(kind, *names)
    ],
    "two tests have one name": [{**SPECIFIED, "tests": SPECIFIED["tests"] * 2}],
    "there are no tests": [{**SPECIFIED, "tests": []}],
    "a name is no file name": [in_test(name=name) for name in ("..", "a\0b", "x" * 300)],
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_1_of_validate_and_2_of_plan_and_run(terminal: Terminal, what: str) -> None:
    for number, suite in enumerate(WRONG[what]):
        Path("suite.json").write_text(json.dumps(suite))
        assert main(["validate", "suite.json", "--format", "json"]) == 1, suite
        errors = json.loads(terminal.printed.readouterr().out)["errors"]
        assert errors, suite
        assert all(error["place"].startswith("$.") for error in errors), errors
        if number == 0:
            assert main(["plan", "suite.json"]) == 2
            terminal.run("suite.json", code=2)
    assert sorted(path.name for path in Path().iterdir()) == ["script.json", "suite.json"]


def test_ci_runs_the_suites_own_agent_and_compares(terminal: Terminal) -> None:
    Path("hr.json").write_bytes(bundled_suite("demo:hr").read_bytes())
    assert main(terminal.command("ci", "--suite", "hr.json", "--out", "before", "--baseline", "none")) == 0
    with DemoServer(DemoAgents(["integrations-down"])) as worse:
        arguments = ("--suite", "hr.json", "--out", "after", "--baseline", "before/evidence.zip")
        # One run of main and no base agent cannot tell the agent from its model.
        assert main(terminal.command("ci", *arguments, server=worse)) == 3
    comment = Path("after/comment.md").read_text()
    assert "5 cases never passed again here, and no base agent ran" in comment
    assert '"employee-information" was not called successfully: its status is 500' in comment
    assert_no_key(Path())


def test_a_threshold_lets_a_test_pass_whose_score_stays_as_it_is(terminal: Terminal) -> None:
    with DemoServer(DemoAgents(["integrations-down"])) as worse:
        strict = terminal.run("demo:hr", "--test", "payslip question", server=worse)
        mild = ("--set", "judges.pass_threshold=80")
        lenient = terminal.run("demo:hr", "--test", "payslip question", *mild, server=worse)
    assert (strict["pass_rate"], lenient["pass_rate"]) == (0.0, 1.0)
    assert strict["score"] == lenient["score"] == 87.5


def test_stability_check_runs_the_suites_own_agent(terminal: Terminal) -> None:
    case = "Parental leave is explained from the policy"
    arguments = ("--suite", str(bundled_suite("demo:hr")), "--runs", "2", "--case", case, "--format", "json")
    assert main(terminal.command("stability-check", *arguments)) == 0
    assert json.loads(terminal.printed.readouterr().out)["summary"]["flaky_cases"] == 0


def test_the_python_of_the_guide_runs(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (REPOSITORY / "docs" / "guides" / "conversations.md").read_text()
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0]
    assert len(code.strip().splitlines()) <= 10
    local = f'"scripted", base_url="{terminal.served.url}", llm_script="script.json")'
    assert '"openai")' in code
    monkeypatch.setenv("LLM_API_KEY", CANARY)
    exec(code.replace('"openai")', local), {})
    assert "**Score: 100 %** · 9 of 9 conversations passed" in terminal.printed.readouterr().out


def test_the_demonstration_of_conversations_fits_one_screen(terminal: Terminal) -> None:
    for _ in range(2):  # what an earlier one left is replaced
        assert main(["demo", "conversations", "--out", "demo"]) == 0
        screen = terminal.printed.readouterr().out
    assert len(screen.splitlines()) <= 24
    assert "9 conversations with a scripted user" in screen
    named = re.findall(r"^  (demo/\S+)", screen, re.MULTILINE)
    assert len(named) == 5
    assert all(Path(name).is_file() for name in named)
    (command,) = re.findall(r"^  agent-eval (show .*)$", screen, re.MULTILINE)
    assert main([*shlex.split(command), "--format", "text"]) == 0
    assert "A harassment complaint goes to a human at once: failed" in terminal.printed.readouterr().out
    assert "the gate blocks the change (exit code 3 in CI):" in screen
    assert "Score 100 % before, 89.5 % after" in screen
    assert "A harassment complaint goes to a human …: strict: escalated: the agent did n…" in screen
    comment = Path("demo/evidence/comment.md").read_text()
    assert "escalated: the agent did not escalate" in comment
    assert "| Did | `CONVERSATION_FORWARDING` | nothing |" in comment
    for report in ("comment.md", "report.md"):
        text = Path("demo/evidence", report).read_text()
        assert "9 verdicts are `scripted`: from a file, by no model." in text
    [page] = Path("demo/evidence").glob("*.html")
    assert "scripted</code>: from a file, by no model." in page.read_text()


def test_the_demonstrations_baseline_is_of_the_suite_and_the_agent_as_they_are(terminal: Terminal) -> None:
    remedy = "make it anew with `python -m tests.demo_baseline`"
    assert terminal.run("demo:hr", "--parallel", "8", "--out", "pack")["pass_rate"] == 1.0
    result = compare_packs(str(demo_baseline.PLACE), Path("pack"), environ={})
    comparison = result.comparison
    assert comparison.compatibility.failures == [], remedy
    assert (comparison.overview.compared_cases, comparison.case_regressions) == (9, []), remedy
    behaviour = comparison.behaviour
    assert (behaviour.cases_with_changed_calls, behaviour.cases_with_changed_output) == (0, 0), remedy
    assert open_run(demo_baseline.PLACE).config.git_commit is None


def test_rejudge_takes_the_judges_of_conversations_by_itself(terminal: Terminal) -> None:
    terminal.run_hr("pack")
    judged = terminal.done("rejudge", "--run", "pack", "--out", "again", *SCRIPTED)["summary"]
    assert judged["passed_cases"] == TESTS
    assert {"strict", "llm", "execution"} <= judged["judge_counts"].keys()
    assert judged["judging"] == {"reused": 15, "scripted": TESTS}
    terminal.unchanged("pack", "again")


def test_a_replay_asks_no_model_and_a_run_of_the_same_agent_is_the_same(terminal: Terminal) -> None:
    terminal.run_hr("pack")
    assert terminal.done("replay", "--run", "pack")["replay_passed"] is True
    again = ("replay-exec", "--run", "pack", "--set", f"agent.base_url={terminal.served.url}", *SCRIPTED)
    assert terminal.done(*again)["replay_passed"] is True
    with DemoServer(DemoAgents(["never-escalates"])) as worse:
        changed = terminal.done(*again[:3], "--set", f"agent.base_url={worse.url}", *SCRIPTED, code=1)
    names = [each["case_id"] for each in changed["case_mismatches"]]
    assert names == ["A harassment complaint goes to a human at once"]


def test_shards_are_merged_to_the_run_that_was_divided(terminal: Terminal) -> None:
    whole = terminal.run_hr("whole")
    for number in "123":
        terminal.run_hr(number, "--shard", f"{number}/3")
    merged = terminal.done("merge", "3", "1", "2", "--out", "merged")
    assert merged["summary"]["judge_counts"] == whole["summary"]["judge_counts"]
    terminal.unchanged("whole", "merged")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--provider", "scripted"), "the scripted model has no script"),
        (("--provider", "openai"), "there is no key for the openai model"),
        ((*SCRIPTED, "--test", "nothing like it"), "has no case with a name with"),
        ((*SCRIPTED, "--loops", "0"), "Invalid value for '--loops': '0'"),
    ],
)
def test_a_run_that_is_refused_leaves_no_directory(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.delenv("LLM_API_KEY", raising=False)
    refused = terminal.done(
        "run", "demo:hr", "--set", f"agent.base_url={terminal.served.url}", *arguments, code=2
    )
    assert message in refused["error"]["message"]
    assert sorted(path.name for path in Path().iterdir()) == ["script.json"]


def test_what_the_later_api_lacks_is_unjudged(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = json.loads(bundled_suite("demo:hr").read_text())
    told = [{"criterion": "A rule.", "strict": "rule_triggered", "ruleCode": "limit"}]
    untold = [{"criterion": "A workflow.", "strict": "tool_used", "toolName": "REFUND"}]
    for name, evaluations in (("later", told), ("all", [*told, *untold])):
        tests = [{**suite["tests"][0], "evaluations": evaluations}]
        Path(f"{name}.json").write_text(json.dumps({**suite, "tests": tests}))
    monkeypatch.setenv("AUI_API_KEY", KEY)
    trace = {
        "decisions": [{"type": "rule_triggered", "rule": {"code": "limit"}}],
        "response": {"type": "answer"},
    }
    with FakeAui({"text": "Done.", "executed_workflows": ["REFUND"], "trace_info": trace}) as service:
        agent = ("--agent", f"aui-v3:{suite['agentId']}", "--set", f"agent.base_url={service.url}")
        assert terminal.done("validate", "later.json")["warnings"] == []
        assert terminal.done("run", "later.json", *agent, *SCRIPTED, "--out", "later")["pass_rate"] == 1.0
        assert main(["run", "all.json", *agent, *SCRIPTED, "--out", "all"]) == 4
    assert "does not record executed_workflows" in terminal.printed.readouterr().err
