"""Judges from a project's files: each in a process of its own, which gives whole verdicts or none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Outcome, Trace
from agent_eval.contracts.verdict import advisory_in
from agent_eval.engine import JudgePlan
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.judges import judge_case, load_judges, validate_case
from agent_eval.judges.catalog import load_advisory, runs_code
from agent_eval.judges.code import CodePlace, code_digests, is_installed_module
from agent_eval.judges.hosted import MOST_DEATHS, HostedJudge, end_hosted_judges
from tests.unit.judges.traces import make_case, says

Write = Callable[..., Path]

HEAD = """\
import os, sys, time
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges import BaseJudge, JudgeConfig

class Facts(BaseJudge):
    judge_id = "facts"
"""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    end_hosted_judges()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a judge `facts.py` into a directory, by default into the working directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def written(evaluate: str, where: str = "work", *, head: str = HEAD) -> Path:
        directory = tmp_path / where
        directory.mkdir(exist_ok=True)
        body = "".join(f"        {line}\n" for line in evaluate.splitlines())
        (directory / "facts.py").write_text(f"{head}\n    def evaluate(self, case, trace):\n{body}")
        return directory

    return written


def verdict(case: Case, *, directory: Path | None = None, **config: Any) -> Any:
    (judge,) = load_judges(["facts:Facts"], {"facts": config} if config else {}, directory=directory)
    return judge_case([judge], case, case.recorded)[1]


def test_it_judges_the_case_and_the_trace_that_it_is_given(write: Write) -> None:
    write(
        "other = trace.final_output != case.recorded.final_output\n"
        "return self.passed(case, f'{trace.final_output} {other} {trace.final_output_tool} {case.metadata}',"
        " score=0.5, refs=[0], evidence={'own': [1, None]})"
    )
    (judge,) = load_judges(["facts:Facts"])
    case = make_case(says("first"), metadata={"a": {"b": [1.5]}})
    own = judge.evaluate(case, case.recorded)
    assert own.reason == "first False None {'a': {'b': [1.5]}}"
    assert (own.score, own.evidence_refs, own.evidence) == (0.5, [0], {"own": [1, None]})
    other = judge.evaluate(case, Trace(make_case(says("second")).trace, "submit"))
    assert other.reason.startswith("None True submit")


def test_its_process_is_kept_from_case_to_case_and_after_one_that_raises_or_cannot_be_sent(
    write: Write,
) -> None:
    write("if case.case_id == 'bad':\n    raise KeyError('x')\nreturn self.passed(case, str(os.getpid()))")
    pids = {verdict(make_case(says())).reason for _ in range(3)}
    raised, unsent = make_case(says(), case_id="bad"), make_case(says(), metadata={"id": object()})
    assert verdict(raised).reason == "the judge raised KeyError: 'x'"
    cannot = {"ended_without_verdict": "could not be sent the case: PydanticSerializationError"}
    assert (verdict(unsent).outcome, verdict(unsent).evidence) == (Outcome.ERROR, cannot)
    pids.add(verdict(make_case(says())).reason)
    assert len(pids) == 1
    assert pids != {str(os.getpid())}


def test_a_case_after_one_that_ended_it_is_judged(write: Write) -> None:
    write("if case.case_id == 'bad':\n    os._exit(0)\nreturn self.passed(case, 'fine')")
    outcomes = [verdict(make_case(says(), case_id=name)).outcome for name in ("a", "bad", "b", "bad", "c")]
    assert outcomes == ["passed", "error", "passed", "error", "passed"]


def test_one_that_ends_again_and_again_is_asked_no_more(write: Write) -> None:
    write("open('asked', 'a').write('.')\nos._exit(3)")
    found = [verdict(make_case(says())) for _ in range(MOST_DEATHS + 2)]
    assert {each.outcome for each in found} == {Outcome.ERROR}
    assert found[0].evidence == {"ended_without_verdict": "exited with code 3 without an answer"}
    assert "was not asked again" in found[-1].reason
    assert Path("asked").read_text() == "." * MOST_DEATHS


def test_what_it_said_before_it_ended_is_kept_and_a_hostile_case_id_is_one_short_line(write: Write) -> None:
    write("print('printed', flush=True)\nprint('complained', file=sys.stderr, flush=True)\nos._exit(1)")
    found = verdict(make_case(says(), case_id="`a`\n## passed" + "x" * 500))
    assert found.evidence["stderr"] == "printed\ncomplained"
    assert found.reason.startswith("Judge `facts` ended without a verdict in `'a' ## passedxxx")
    assert len(found.reason) <= 300


def test_cases_are_judged_at_the_same_time_from_several_threads(write: Write) -> None:
    write(
        "open(f'here-{case.case_id}', 'w').close()\n"
        "while len([name for name in os.listdir() if name.startswith('here-')]) < 3:\n"
        "    time.sleep(0.01)\n"
        "return self.passed(case, 'together')"
    )
    (judge,) = load_judges(["facts:Facts"], {"facts": {"timeout_seconds": 60.0}})
    cases = [make_case(says(), case_id=name) for name in "abc"]
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda case: judge.evaluate(case, case.recorded), cases)
    assert [each.reason for each in found] == ["together"] * 3


CONFIGURED = (
    HEAD.replace("class Facts", "class Own(JudgeConfig):\n    word: str = 'x'\n\nclass Facts")
    + "    Config = Own\n"
)


def test_its_configuration_its_weight_and_its_variables_arrive(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "k1")
    monkeypatch.setenv("OTHER_KEY", "k2")
    write(
        "seen = [os.environ.get(name) for name in ('SHOP_KEY', 'OTHER_KEY')]\n"
        "return self.passed(case, f'{self.config.word} {seen}')",
        head=CONFIGURED,
    )
    for name in ("facts", "facts:Facts"):
        config = {"word": "y", "hard": False, "weight": 2.5, "env": ["SHOP_KEY"], "timeout_seconds": 9.0}
        (judge,) = load_judges(["facts:Facts"], {name: config, "policy": {"hard": False}})
        found = judge.evaluate(make_case(says()), Trace([]))
        assert found.reason == "y ['k1', None]"
        assert (found.hard, found.weight, judge.hard) == (False, 2.5, False)
    with pytest.raises(InvalidInput, match="timeout_seconds"):
        load_judges(["facts:Facts"], {"facts": {"timeout_seconds": 0}})


def test_a_case_that_it_refuses_is_refused(write: Write) -> None:
    refusing = (
        HEAD
        + "    def check_case(self, case):\n"
        + "        if case.case_id == 'bad':\n"
        + "            raise InvalidInput('case bad: no facts', remedy='Add some.', field='facts')\n"
        + "        if case.case_id == 'end':\n"
        + "            os._exit(0)\n"
    )
    write("return self.passed(case, 'fine')", head=refusing)
    judges = load_judges(["facts:Facts"])
    validate_case(judges, make_case(says()))
    with pytest.raises(InvalidInput) as refused:
        validate_case(judges, make_case(says(), case_id="bad"))
    assert refused.value.message == "case bad: no facts"
    assert (refused.value.remedy, refused.value.details["field"]) == ("Add some.", "facts")
    with pytest.raises(NotEvaluable, match="`facts` ended without a verdict in `end`"):
        validate_case(judges, make_case(says(), case_id="end"))


def test_one_that_ends_while_it_is_loaded_cannot_be_evaluated(write: Write) -> None:
    write("return self.passed(case, 'fine')", head="import os\nos._exit(0)\n" + HEAD)
    with pytest.raises(NotEvaluable, match="cannot be loaded: its process ended"):
        load_judges(["facts:Facts"])


@pytest.fixture
def tip(tmp_path: Path, write: Write) -> Path:
    """The files of the tip beside a checkout of a change, whose judge passes everything."""
    (tmp_path / "work" / ".git").mkdir()
    write("return self.passed(case, 'the change says so')")
    return write("import words\nreturn self.failed(case, words.WORD, FailureKind.POLICY_VIOLATION)", "tip")


def test_its_code_comes_from_the_directory_and_not_from_the_checkout(
    tip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tip / "words.py").write_text("WORD = 'the tip says no'")
    Path("words.py").write_text("WORD = 'words of the change'")
    # An agent that is Python code, or PYTHONPATH, puts the checkout on the path.
    monkeypatch.syspath_prepend(str(tmp_path / "work"))
    plan = JudgePlan(("facts:Facts",), directory=tip)
    (judge,) = plan.load()
    assert judge.evaluate(make_case(says()), Trace([])).reason == "the tip says no"
    assert not list(tip.rglob("__pycache__"))
    digests = code_digests(plan.load())
    assert digests.keys() == {"facts"}
    (tmp_path / "work/facts.py").write_text("changed")
    assert code_digests(plan.load()) == digests


def test_what_is_installed_from_the_checkout_is_not_imported(
    tip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work/src").mkdir()
    (tmp_path / "work/src/words.py").write_text("WORD = 'words of the change'")
    # What the finder of an editable install does, which the path does not show.
    finder = f"import sys; sys.path.append({str(tmp_path / 'work/src')!r})\n"
    (tip / "facts.py").write_text(finder + (tip / "facts.py").read_text())
    found = verdict(make_case(says()), directory=tip)
    assert found.outcome is Outcome.ERROR
    assert "imports words from the checkout, which is the change's" in found.reason


def test_a_subfolder_of_the_checkout_stands_for_that_of_the_directory(
    tip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in (tmp_path / "work", tip):
        (root / "shop").mkdir()
        (root / "libs").mkdir()
        (root / "libs/words.py").write_text(f"WORD = {root.name!r}")
    (tip / "facts.py").rename(tip / "shop/facts.py")
    monkeypatch.chdir(tmp_path / "work/shop")
    monkeypatch.syspath_prepend(str(tmp_path / "work/libs"))
    assert verdict(make_case(says()), directory=tip / "shop").reason == "tip"


@pytest.mark.parametrize("named", ["check.sh", "./check.sh", "{checkout}/check.sh"])
def test_commands_run_from_the_directory_too(tip: Path, tmp_path: Path, named: str) -> None:
    for root, passes in ((tmp_path / "work", "true"), (tip, "false")):
        (root / "check.sh").write_text(f"""echo '{{"passed": {passes}, "reason": "'$PWD'"}}'""")
    command = ["sh", named.format(checkout=tmp_path / "work")]
    plan = JudgePlan(("command",), {"command": {"command": command}}, directory=tip)
    (judge,) = plan.load()
    found = judge.evaluate(make_case(says()), Trace([]))
    assert (found.passed, found.reason) == (False, str(tip))
    digests = code_digests(plan.load())
    (tmp_path / "work/check.sh").write_text("changed")
    assert code_digests(plan.load()) == digests
    (tip / "check.sh").write_text("changed")
    assert code_digests(plan.load()) != digests


def test_an_advisory_judge_is_shown_and_counts_nowhere(
    tip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "k1")
    (tip / "words.py").write_text("WORD = os = __import__('os').environ.get('SHOP_KEY', 'no key')")
    new = JudgePlan(("facts:Facts", "nowhere:Judge"), {"facts": {"env": ["SHOP_KEY"]}}, directory=tip)
    plan = JudgePlan(("regex",), advisory=new)
    case = make_case(says("done"), regex_patterns=["done"], must_not_call=["pay"])
    judges = plan.load()
    validate_case(judges, case)
    verdicts = judge_case(judges, case, case.recorded)
    outcomes = {each.judge_id: each.outcome.value for each in verdicts}
    assert outcomes == {"replay_contract": "passed", "regex": "passed"}
    assert verdicts[0].evidence["fields_not_judged"] == ["must_not_call"]
    mine, missing = advisory_in([each.to_json() for each in verdicts])  # type: ignore[misc]
    assert mine == ("facts", "failed", "no key")
    assert (missing.judge_id, missing.outcome) == ("nowhere:Judge", "error")
    assert "ModuleNotFoundError" in missing.reason
    assert code_digests(judges) == {}


def test_an_advisory_judge_that_ends_is_no_ended_judge_of_the_run(write: Write) -> None:
    write("os._exit(0)")
    case = make_case(says("done"), regex_patterns=["done"])
    judges = [*load_judges(["regex"]), *load_advisory(["facts:Facts"], {}, None)]
    verdicts = judge_case(judges, case, case.recorded)
    assert verdicts[0].evidence["advisory"][0]["outcome"] == "error"
    assert "ended_without_verdict" not in verdicts[0].evidence
    assert {each.outcome for each in verdicts} == {Outcome.PASSED}


def test_which_judges_run_code() -> None:
    names = ["mine:Judge", "command", "lean", "regex", "llm", "policy"]
    assert [name for name in names if runs_code(name)] == ["mine:Judge", "command", "lean"]


def test_what_is_installed_is_told_without_importing_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("", head="raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert not is_installed_module("facts")
    assert not is_installed_module("no_such_module")
    assert is_installed_module("pydantic.fields")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can keep a process from others of its user")
def test_other_processes_of_the_user_cannot_reach_into_it(write: Write) -> None:
    write("return self.passed(case, str(os.getpid()))")
    pid = verdict(make_case(says())).reason
    # As an agent would, which has no capability even where it is root.
    drops = (
        "import ctypes, os, sys\nfor number in (19, 21, 38): ctypes.CDLL(None).prctl(24, number, 0, 0, 0)\n"
    )
    tries = f"os.execv(sys.executable, [sys.executable, '-c', \"open('/proc/{pid}/mem', 'r+b')\"])"
    done = subprocess.run([sys.executable, "-c", drops + tries], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr


@pytest.mark.single_thread
def test_a_forked_process_starts_a_process_of_its_own(write: Write) -> None:
    write("return self.passed(case, str(os.getpid()))")
    (judge,) = load_judges(["facts:Facts"])
    case = make_case(says())
    before = judge.evaluate(case, case.recorded).reason
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writer, judge.evaluate(case, case.recorded).reason.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() not in ("", before)
    assert judge.evaluate(case, case.recorded).reason == before
    assert isinstance(judge, HostedJudge)


def test_a_place_without_a_directory_is_the_working_directory(write: Write) -> None:
    place = CodePlace.of_directory(None)
    assert (place.directory, place.is_elsewhere) == (Path.cwd(), False)
    assert place.moved(str(Path.cwd() / "check.py")) == str(Path.cwd() / "check.py")
