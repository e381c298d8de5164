"""By whose rules a change is judged: one whole job a row, as in `test_scenarios`.

Rows whose status is that of another rule are there twice: with nothing broken, and with `order-1` broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.scenarios.repository import COMMAND, Evaluated, Repository, broken, case

ONE = "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row.

    Attributes:
        id: Its number.
        change: What the change does beside its agent.
        body: What the change's agent does otherwise.
        status: Expected output `outcome`.
        code: Expected exit code.
        sentence: What the first sentence has in it.
        said: What the report and the log have in it.
        unsaid: What neither has.
        policy: Lines of main's `gate.yml`.
        before: What main has when it is evaluated.
        main: What main has otherwise, after that.
    """

    id: str
    change: Callable[[Repository], None]
    body: str = ""
    status: str = "passed"
    code: int = 0
    sentence: str = "Nothing broke."
    said: str = ""
    unsaid: str = "\0"
    policy: str = ""
    before: Callable[[Repository], None] | None = None
    main: Callable[[Repository], None] | None = None


def settings(**keys: object) -> Callable[[Repository], None]:
    """Set keys of `agent-eval.yml`, with two underscores for a dot."""
    stated = {name.replace("__", "."): value for name, value in keys.items()}
    return lambda repository: repository.settings(**stated)


def policy(text: str) -> Callable[[Repository], None]:
    return lambda repository: repository.write("gate.yml", text)


def suite(change: Callable[[list[dict[str, object]]], object], **header: str) -> Callable[[Repository], None]:
    """Change the cases of the suite, and its header."""

    def rewrite(repository: Repository) -> None:
        payload = json.loads((repository.top / "suite.json").read_text())
        change(payload["cases"])
        repository.write("suite.json", json.dumps({**payload, **header}))

    return rewrite


def expects_escalation(cases: list[dict[str, object]]) -> None:
    cases[0]["policy"] = {"required_tools": ["lookup_order"]}


def nothing(repository: Repository) -> None:
    """Alter no rule."""


def moved_settings(repository: Repository) -> None:
    repository.git("mv", "agent-eval.yml", "elsewhere.yml")


def registry(text: str) -> Callable[[Repository], None]:
    def write(repository: Repository) -> None:
        (repository.top / ".agent_eval").mkdir(exist_ok=True)
        repository.write(".agent_eval/registry.json", text)

    return write


def broken_file(repository: Repository) -> None:
    repository.write("agent-eval.yml", "suites: [unclosed\n")


def mended_file(repository: Repository) -> None:
    repository.write("agent-eval.yml", f"suites: suite.json\nagent: {COMMAND}\npolicy: gate.yml\n")


def redacts_and_loosens(repository: Repository) -> None:
    settings(redaction__patterns={"order": "escalate"})(repository)
    suite(expects_escalation)(repository)


JUDGE = """\
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge

class Facts(BaseJudge):
    judge_id = "facts"

    def evaluate(self, case, trace):
        {body}
        if any(event.tool == "escalate" for event in trace.events):
            return self.failed(case, "it escalated", FailureKind.POLICY_VIOLATION)
        return self.passed(case, "it did not escalate")
"""


def facts(body: str = "pass") -> Callable[[Repository], None]:
    """Write the judge, which does this first."""

    def write(repository: Repository) -> None:
        (repository.top / "judges").mkdir(exist_ok=True)
        repository.write("judges/facts.py", JUDGE.format(body=body))

    return write


def judged_by_facts(repository: Repository) -> None:
    facts()(repository)
    settings(judges="judges.facts:Facts")(repository)


CHECK = """\
if grep -q '"tool": *"escalate"'; then echo '{{"passed": false}}'; else echo '{{"passed": {otherwise}}}'; fi
"""


def judged_by_program(repository: Repository) -> None:
    repository.write("check.sh", CHECK.format(otherwise="true"))
    repository.write("judges.json", json.dumps({"command": {"command": ["sh", "check.sh"]}}))
    settings(judges="command", judge_config="judges.json")(repository)


def main_moves_on(repository: Repository) -> None:
    """Main gets other rules while the change leaves its own as they were."""
    repository.git("switch", "--quiet", "main")
    settings(limits__run__cost_usd=5)(repository)
    policy("margin: 0.25\n")(repository)
    facts("pass; pass")(repository)
    repository.commit("other rules")
    repository.git("switch", "--quiet", "topic")


UNREAD = (
    'if "unread" in (tools := {event.tool for event in trace.events}) and "escalate" not in tools: '
    'return self.inconclusive(case, "a call of kind `x` was not read")'
)
UNREAD_CALL = "if case == 'order-1': tools.append('unread')\n"
ENDS = "import os; any('boom' in str(event.output) for event in trace.events) and os._exit(0)"
SAYS_BOOM = "if case == 'order-1': json.dump({'assistant_output': 'boom'}, sys.stdout); sys.exit()\n"


def judged_by(body: str) -> Callable[[Repository], None]:
    """Let main be judged by a judge that does this first."""

    def write(repository: Repository) -> None:
        judged_by_facts(repository)
        facts(body)(repository)

    return write


UNREAD_BY_FACTS = judged_by(UNREAD)
FACTS = "Judge `judges.facts:Facts` of main is broken for everybody; this change's was used."
RAISES = facts("raise ValueError('a package is gone')")
LAX = settings(ci__fail_on="never", policy__min_pass_rate=0)
RELEASE = "preset: release\ndeterministic: true\n"
BREAKS = {"body": broken(1), "status": "failed", "code": 1, "sentence": ONE}

SAYS_SORRY = (
    "if case == 'order-1':\n"
    "    calls = [{'tool': 'lookup_order', 'arguments': {}}]\n"
    "    json.dump({'assistant_output': 'sorry no', 'tool_calls': calls}, sys.stdout)\n"
    "    sys.exit()\n"
)
REDACTS = settings(redaction__patterns={"refund": "sorry"})


def must_not_be_sorry(cases: list[dict[str, object]]) -> None:
    cases[0]["regex_patterns"] = ["^([^s]|s[^o])*$"]


SORRY_IS_WRONG = suite(must_not_be_sorry)


def may_be_sorry(cases: list[dict[str, object]]) -> None:
    cases[0]["regex_patterns"] = ["no|way"]


ROWS = (
    Row(
        id="28, by words",
        before=SORRY_IS_WRONG,
        change=lambda repository: (REDACTS(repository), suite(may_be_sorry)(repository)),
        body=SAYS_SORRY,
        status="inconclusive",
        sentence="`order-1`",
        unsaid="sorry no",
    ),
    Row(
        id="28, redacted by main since",
        before=SORRY_IS_WRONG,
        main=REDACTS,
        change=suite(may_be_sorry),
        body=SAYS_SORRY,
        status="inconclusive",
        sentence="`order-1`",
        unsaid="sorry no",
    ),
    Row(
        id="19",
        before=UNREAD_BY_FACTS,
        policy="safety: {facts: repeated}\n",
        change=nothing,
        body=UNREAD_CALL,
        status="inconclusive",
        code=3,
        sentence="`facts` cannot tell in `order-1`: a call of kind `x` was not read.",
    ),
    Row(
        id="20",
        before=UNREAD_BY_FACTS,
        policy="safety: {facts: repeated}\n",
        change=nothing,
        body=UNREAD_CALL + broken(1),
        status="failed",
        code=1,
        sentence="Safety: `facts` failed in `order-1`, and in 2 of 2 further runs of this change.",
    ),
    Row(
        id="36",
        before=judged_by(ENDS),
        change=nothing,
        body=SAYS_BOOM,
        status="error",
        code=4,
        sentence="",
        said="Judge `facts` ended without a verdict in `order-1`.",
    ),
    Row(
        id="7",
        change=policy("preset: pull-request\nmax_regressed_cases: 6\n"),
        main=policy(RELEASE),
        **BREAKS,
    ),
    Row(
        id="25",
        change=suite(expects_escalation),
        body=broken(1),
        status="inconclusive",
        sentence="`order-1` passes only by what this change expects of it.",
    ),
    Row(
        id="25, release",
        change=suite(expects_escalation),
        main=policy(RELEASE),
        body=broken(1),
        status="inconclusive",
        code=3,
        sentence="`order-1` passes only by what this change expects of it.",
    ),
    Row(
        id="26",
        change=suite(lambda cases: cases.pop(0)),
        sentence="Nothing broke; 1 case was removed and still passes.",
    ),
    Row(
        id="27",
        change=suite(lambda cases: cases.pop(0)),
        body=broken(1),
        status="inconclusive",
        sentence="`order-1` fails by main's version, and this change removes it.",
    ),
    Row(
        id="27, reworded",
        change=suite(lambda cases: cases[0].update(input="And order 1?")),
        body=broken(1),
        status="inconclusive",
        sentence="`order-1` fails by main's version",
    ),
    Row(
        id="27b",
        change=suite(lambda cases: cases.pop(0)),
        policy="safety: {policy: at-once}\n",
        body=broken(1),
        status="failed",
        code=1,
        sentence="Safety: `policy` failed in `order-1`, which this change removes.",
    ),
    Row(
        id="28",
        change=redacts_and_loosens,
        body=broken(1),
        status="inconclusive",
        sentence="`order-1`",
    ),
    Row(id="29", change=policy("margin: 0.25\n"), said="`margin` 0.05 → 0.25"),
    Row(id="30", change=LAX, **BREAKS),
    Row(id="32", main=broken_file, change=mended_file, sentence="main's `agent-eval.yml` cannot be read"),
    Row(id="33", before=judged_by_facts, main=RAISES, change=facts(), sentence=f"{FACTS} Nothing broke."),
    Row(
        id="33, broken",
        before=judged_by_facts,
        main=RAISES,
        change=facts(),
        body=broken(1),
        status="failed",
        code=1,
        sentence=f"{FACTS} {ONE}",
    ),
    Row(
        id="33, release",
        before=judged_by_facts,
        main=lambda repository: (policy(RELEASE)(repository), RAISES(repository)),
        change=facts(),
        status="inconclusive",
        code=3,
        sentence=FACTS,
    ),
    Row(
        id="33, a program",
        before=judged_by_program,
        main=lambda repository: repository.write("check.sh", "exit 1\n"),
        change=lambda repository: repository.write("check.sh", CHECK.format(otherwise="true")),
        sentence="Judge `command` of main is broken for everybody; this change's was used. Nothing broke.",
    ),
    Row(
        id="33, not mended",
        before=judged_by_facts,
        main=RAISES,
        change=facts("raise TypeError('it does not help')"),
        status="error",
        code=4,
        sentence="",
        said="`facts`",
    ),
    Row(id="39", change=moved_settings, sentence="`agent-eval.yml` moved; main's rules decided."),
    Row(
        id="40",
        change=suite(lambda cases: None, dataset_id="store"),
        said="Suite `shop` is now `store`.",
    ),
    Row(
        id="40, a case",
        change=suite(lambda cases: cases[0].update(case_id="first-order")),
        said="Case `order-1` is now `first-order`.",
    ),
    Row(
        id="63",
        change=settings(limits__attempt__seconds=90),
        said="→ 90",
    ),
    Row(id="64", change=lambda repository: repository.write("requirements.txt", "client==2.0\n")),
    Row(
        id="65",
        change=policy("preset: pull-request\nmin_pass_rate: 0.9\n"),
        said="`min_pass_rate` none → 0.9",
    ),
    Row(
        id="65, the file of a judge",
        before=judged_by_facts,
        change=facts("return self.failed(case, 'never', FailureKind.POLICY_VIOLATION)"),
        said="New rules hold once merged: judge `judges.facts:Facts` (judges/facts.py).",
    ),
    Row(
        id="65, the program of a judge",
        before=judged_by_program,
        change=lambda repository: repository.write("check.sh", CHECK.format(otherwise="false")),
        said="New rules hold once merged: judge `command` (check.sh).",
    ),
    Row(
        id="65, the configuration of a judge",
        before=judged_by_program,
        change=lambda repository: repository.write("judges.json", '{"command": {"command": ["false"]}}'),
        said="New rules hold once merged: `judges.json`.",
    ),
    Row(id="66", before=judged_by_facts, change=facts("pass  # of course")),
    Row(
        id="main's rules are changed meanwhile",
        before=judged_by_facts,
        change=main_moves_on,
        unsaid="hold once",
    ),
    Row(
        id="32, one value",
        main=settings(limits__run__cost_usd="much"),
        change=mended_file,
        sentence="main's `limits.run.cost_usd` cannot be read, so this change's decided. Nothing broke.",
    ),
    Row(
        id="32, the policy",
        main=policy("margn: 0.25\n"),
        change=policy("preset: pull-request\n"),
        sentence="main's `gate.yml` cannot be read, so this change's decided. Nothing broke.",
    ),
    Row(
        id="32, the registry",
        main=registry("{"),
        change=registry("{}"),
        sentence="main's `.agent_eval/registry.json` cannot be read, so this change's decided.",
    ),
    Row(
        id="32, release",
        main=lambda repository: (policy(RELEASE)(repository), broken_file(repository)),
        change=mended_file,
        status="inconclusive",
        code=3,
        sentence="main's `agent-eval.yml` cannot be read, so this change's rules decided.",
    ),
    Row(
        id="68",
        change=policy("quarantine: [{case: order-2, reason: flaky, until: 2027-01-01}]\n"),
        said="`quarantine`",
    ),
    Row(id="a case is added", change=suite(lambda cases: cases.append(case(99)))),
)


@pytest.mark.parametrize("row", ROWS, ids=[f"row {row.id}" for row in ROWS])
def test_the_rules_of_main_decide(evaluated: Evaluated, row: Row) -> None:
    repository = evaluated(before=row.before, policy=row.policy)
    if row.main is not None:
        row.main(repository)
        repository.commit("main again")
    repository.topic(row.body)
    row.change(repository)
    repository.commit("rules")
    job = repository.job()
    assert (job.outcome, job.code) == (row.status, row.code), job.log
    assert row.sentence in job.sentence, job.log
    report = (repository.top / "agent-eval-out" / "report.md").read_text()
    assert row.said in report
    assert row.said in job.log
    assert row.unsaid not in report + job.log


def test_an_invalid_file_of_the_change_is_refused_at_once(evaluated: Evaluated) -> None:
    """Row 31."""
    repository = evaluated()
    repository.topic()
    settings(policy__margn=0.2)(repository)
    repository.commit("wrong")
    job = repository.job()
    assert job.code == 2, job.log
    assert "margn" in job.log


def test_a_suite_that_the_change_has_no_more_is_no_green(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    text = (repository.top / "agent-eval.yml").read_text()
    repository.write("agent-eval.yml", text.replace("suites: suite.json", "suites: '*.json'"))
    repository.write("other.json", json.dumps({"dataset_id": "other", "cases": [case(1)]}))
    repository.commit("two suites")
    repository.main()
    repository.topic()
    repository.git("rm", "--quiet", "other.json")
    repository.commit("one suite")
    job = repository.job()
    assert (job.outcome, job.code) == ("inconclusive", 0), job.log
    assert job.sentence == "This change has no suite `other` any more, so it was not run."
