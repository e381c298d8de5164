"""By whose rules a change is judged: one whole job a row, as in `test_scenarios`.

Rows whose status is that of another rule are there twice: with nothing broken, and with `order-1` broken.
A further form of a row, which has its number and a word, runs at night.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.scenarios.repository import COMMAND, Evaluated, Repository, broken, case
from tests.extent import OTHERS

ONE = "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."


PASSED, FAILED = ("passed", 0), ("failed", 1)
WARNED, STOPPED, ERROR = ("inconclusive", 0), ("inconclusive", 3), ("error", 4)


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        id: Its number.
        ends: Expected output `outcome`, and exit code.
        sentence: What the first sentence has in it.
        change: What the change does beside its agent.
        body: What the change's agent does otherwise.
        said: What the report and the log have in it.
        unsaid: What neither has.
        policy: Lines of main's `gate.yml`.
        before: What main has when it is evaluated.
        main: What main has otherwise, after that.
    """

    id: str
    ends: tuple[str, int]
    sentence: str
    change: Callable[[Repository], object]
    body: str = ""
    said: str = ""
    unsaid: str = "\0"
    policy: str = ""
    before: Callable[[Repository], object] | None = None
    main: Callable[[Repository], object] | None = None


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


def both(*does: Callable[[Repository], object]) -> Callable[[Repository], object]:
    return lambda repository: [do(repository) for do in does]


def written(name: str, text: str) -> Callable[[Repository], object]:
    return lambda repository: repository.write(name, text)


FINE = "Nothing broke."
REMOVED, LOOSE = suite(lambda cases: cases.pop(0)), suite(expects_escalation)
ONLY_BY_THIS = "`order-1` passes only by what this change expects of it."
MAINS_VERSION = "`order-1` fails by main's version"
UNKNOWABLE = "`facts` cannot tell in `order-1`: a call of kind `x` was not read."
TWICE_MORE = "Safety: `facts` failed in `order-1`, and in 2 of 2 further runs of this change."
SAFETY_REMOVED = "Safety: `policy` failed in `order-1`, which this change removes."
REPEATED, AT_ONCE = "safety: {facts: repeated}\n", "safety: {policy: at-once}\n"
ENDED = "Judge `facts` ended without a verdict in `order-1`."
COMMAND_BROKEN = "Judge `command` of main is broken for everybody; this change's was used. Nothing broke."
REMOVED_FINE = "Nothing broke; 1 case was removed and still passes."
THESE_RULES = "main's `agent-eval.yml` cannot be read, so this change's rules decided."
COST_UNREAD = "main's `limits.run.cost_usd` cannot be read, so this change's decided. Nothing broke."
POLICY_UNREAD = "main's `gate.yml` cannot be read, so this change's decided. Nothing broke."
REGISTRY_UNREAD = "main's `.agent_eval/registry.json` cannot be read, so this change's decided."
SCRIPT, OTHER_SCRIPT = (written("check.sh", CHECK.format(otherwise=word)) for word in ("true", "false"))
NEVER = facts("return self.failed(case, 'never', FailureKind.POLICY_VIOLATION)")
OTHER_CONFIGURATION = written("judges.json", '{"command": {"command": ["false"]}}')
FLAKY = policy("quarantine: [{case: order-2, reason: flaky, until: 2027-01-01}]\n")
UNHELPFUL = facts("raise TypeError('it does not help')")
BAD, SORRY = {"body": broken(1)}, {"body": SAYS_SORRY, "unsaid": "sorry no"}
BY_FACTS, BY_PROGRAM = {"before": judged_by_facts}, {"before": judged_by_program}
NOT_SORRY, SAFE_FACTS = {"before": SORRY_IS_WRONG}, {"before": UNREAD_BY_FACTS, "policy": REPEATED}

ROWS = (
    Row("28, by words", WARNED, "`order-1`", both(REDACTS, suite(may_be_sorry)), **NOT_SORRY, **SORRY),
    Row(
        *("28, redacted by main since", WARNED, "`order-1`", suite(may_be_sorry)), main=REDACTS, **NOT_SORRY,
        **SORRY,
    ),
    Row("19", STOPPED, UNKNOWABLE, nothing, UNREAD_CALL, **SAFE_FACTS),
    Row("20", FAILED, TWICE_MORE, nothing, UNREAD_CALL + broken(1), **SAFE_FACTS),
    Row("36", ERROR, "", nothing, SAYS_BOOM, said=ENDED, before=judged_by(ENDS)),
    Row(
        *("7", FAILED, ONE, policy("preset: pull-request\nmax_regressed_cases: 6\n")),
        main=policy(RELEASE),
        **BAD,
    ),
    Row("25", WARNED, ONLY_BY_THIS, LOOSE, **BAD),
    Row("25, release", STOPPED, ONLY_BY_THIS, LOOSE, main=policy(RELEASE), **BAD),
    Row("26", PASSED, REMOVED_FINE, REMOVED),
    Row("27", WARNED, f"{MAINS_VERSION}, and this change removes it.", REMOVED, **BAD),
    Row(
        *("27, reworded", WARNED, MAINS_VERSION),
        suite(lambda cases: cases[0].update(input="And order 1?")),
        **BAD,
    ),
    Row("27b", FAILED, SAFETY_REMOVED, REMOVED, policy=AT_ONCE, **BAD),
    Row("28", WARNED, "`order-1`", redacts_and_loosens, **BAD),
    Row("29", PASSED, FINE, policy("margin: 0.25\n"), said="`margin` 0.05 → 0.25"),
    Row("30", FAILED, ONE, LAX, **BAD),
    Row("32", PASSED, "main's `agent-eval.yml` cannot be read", mended_file, main=broken_file),
    Row("33", PASSED, f"{FACTS} {FINE}", facts(), main=RAISES, **BY_FACTS),
    Row("33, broken", FAILED, f"{FACTS} {ONE}", facts(), main=RAISES, **BY_FACTS, **BAD),
    Row("33, release", STOPPED, FACTS, facts(), main=both(policy(RELEASE), RAISES), **BY_FACTS),
    Row("33, a program", PASSED, COMMAND_BROKEN, SCRIPT, main=written("check.sh", "exit 1\n"), **BY_PROGRAM),
    Row("33, not mended", ERROR, "", UNHELPFUL, said="`facts`", main=RAISES, **BY_FACTS),
    Row("39", PASSED, "`agent-eval.yml` moved; main's rules decided.", moved_settings),
    Row("40", PASSED, FINE, suite(lambda _: None, dataset_id="store"), said="Suite `shop` is now `store`."),
    Row(
        *("40, a case", PASSED, FINE, suite(lambda cases: cases[0].update(case_id="first-order"))),
        said="Case `order-1` is now `first-order`.",
    ),
    Row("63", PASSED, FINE, settings(limits__attempt__seconds=90), said="→ 90"),
    Row("64", PASSED, FINE, written("requirements.txt", "client==2.0\n")),
    Row(
        *("65", PASSED, FINE, policy("preset: pull-request\nmin_pass_rate: 0.9\n")),
        said="`min_pass_rate` none → 0.9",
    ),
    Row(
        *("65, the file of a judge", PASSED, FINE, NEVER),
        said="New rules hold once merged: judge `judges.facts:Facts` (judges/facts.py).",
        **BY_FACTS,
    ),
    Row(
        *("65, the program of a judge", PASSED, FINE, OTHER_SCRIPT),
        said="New rules hold once merged: judge `command` (check.sh).",
        **BY_PROGRAM,
    ),
    Row(
        *("65, the configuration of a judge", PASSED, FINE, OTHER_CONFIGURATION),
        said="New rules hold once merged: `judges.json`.",
        **BY_PROGRAM,
    ),
    Row("66", PASSED, FINE, facts("pass  # of course"), **BY_FACTS),
    Row("main's rules are changed meanwhile", PASSED, FINE, main_moves_on, unsaid="hold once", **BY_FACTS),
    Row("32, one value", PASSED, COST_UNREAD, mended_file, main=settings(limits__run__cost_usd="much")),
    Row(
        *("32, the policy", PASSED, POLICY_UNREAD, policy("preset: pull-request\n")),
        main=policy("margn: 0.25\n"),
    ),
    Row("32, the registry", PASSED, REGISTRY_UNREAD, registry("{}"), main=registry("{")),
    Row("32, release", STOPPED, THESE_RULES, mended_file, main=both(policy(RELEASE), broken_file)),
    Row("68", PASSED, FINE, FLAKY, said="`quarantine`"),
    Row("a case is added", PASSED, FINE, suite(lambda cases: cases.append(case(99)))),
)  # fmt: skip


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"row {row.id}", marks=OTHERS if "," in row.id else []) for row in ROWS]
)
def test_the_rules_of_main_decide(evaluated: Evaluated, row: Row) -> None:
    repository = evaluated(before=row.before, policy=row.policy)
    if row.main is not None:
        row.main(repository)
        repository.commit("main again")
    repository.topic(row.body)
    row.change(repository)
    repository.commit("rules")
    job = repository.job()
    assert (job.outcome, job.code) == row.ends, job.log
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
