"""Secrets of the environment never reach a pack, whatever form an agent repeats them in."""

import base64
import hashlib
import html
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.program import Ended, agent_eval, start, tree
from tests.extent import WHOLE_JOB, crossed
from tests.factories import make_case, make_suite

SECRET = 'ghs_Zx"9/Q+é0123456789'
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str, "base64": lambda secret: base64.b64encode(f"user:{secret}".encode()).decode(),
    "percent-encoded": lambda secret: quote(secret, safe=""),
    "json in json": lambda secret: json.dumps({"header": f"Bearer {secret}"}), "html": html.escape,
    "hexadecimal": lambda secret: secret.encode().hex(),
}  # fmt: skip


def told(text: str, number: int = 0) -> dict[str, Any]:
    """A case whose agent says it everywhere, and whose judges repeat it."""
    case = make_case(f"case-{number}", "lookup_order", policy={"forbidden_tools": ["lookup_order"]})
    case["metadata"] = {"note": text, text: 1}
    case["json_schema"] = {"const": {"expected": text}}
    for event in case["trace"]:
        event["input"] = {"text": text}
        event["attributes"] = {"header": [text]}
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": {"said": text}})
    return case


def run(
    place: Path,
    *cases: dict[str, Any],
    out: str = "pack",
    secret: str = SECRET,
    layout: str | None = None,
    **flags: str,
) -> Ended:
    (place / "suite.json").write_text(json.dumps(make_suite(*cases, metadata={"owner": SECRET})))
    options = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    options += ["--set", f"evidence.layout={layout}"] if layout else []
    return agent_eval(
        "run", "--format", "json", "--suite", "suite.json", "--out", out, "--run-id", "r", *options,
        cwd=place, environ={"MY_API_TOKEN": secret},
    )  # fmt: skip


def leaks(place: Path, text: str) -> list[str]:
    """Files below a place that hold a text, also as JSON writes it."""
    as_json = (json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    forms = {form.encode() for form in (text, *as_json)}
    files = (path for path in place.rglob("*") if path.is_file())
    return [str(path) for path in files if any(form in path.read_bytes() for form in forms)]


@crossed(form=[*FORMS], layout=["files", "compact"])
def test_no_form_of_a_secret_reaches_a_pack(form: str, layout: str, tmp_path: Path) -> None:
    text = FORMS[form](SECRET)
    assert run(tmp_path, told(text), layout=layout, model=text).json()["summary"]["total_cases"] == 1
    (tmp_path / "suite.json").unlink()
    assert (leaks(tmp_path, text), leaks(tmp_path, SECRET)) == ([], [])
    assert "[redacted:MY_API_TOKEN]" in "".join(
        path.read_text() for path in (tmp_path / "pack" / "cases").rglob("traj*")
    )
    config = json.loads((tmp_path / "pack" / "run" / "config.json").read_bytes())
    counts = config["execution_config"]
    assert counts.keys() == {"redacted_cases", "redactions"}
    assert counts["redacted_cases"] == 1
    written = [
        path.read_bytes() for name in ("traj*", "verd*") for path in (tmp_path / "pack/cases").rglob(name)
    ]
    assert counts["redactions"] == sum(data.count(b"[redacted") for data in written)
    assert agent_eval("pack", "verify", "--run", "pack", cwd=tmp_path).code == 0
    other = "expand" if layout == "compact" else "compact"
    assert agent_eval("pack", other, "--run", "pack", "--out", "other", cwd=tmp_path).code == 0


def test_verdicts_are_those_on_what_the_agent_said(tmp_path: Path) -> None:
    case = make_case("a", "lookup_order", regex_patterns=["ghs_Zx"])
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": f"It is {SECRET}."})
    run(tmp_path, case)
    verdicts = json.loads((tmp_path / "pack" / "judges" / "regex.json").read_bytes())
    assert [verdict["outcome"] for verdict in verdicts] == ["passed"]


def test_a_run_without_secrets_in_its_traces_is_the_same_run(tmp_path: Path) -> None:
    run(tmp_path, make_case("a", "lookup_order"), secret=SECRET, out="with")
    case = make_case("a", "lookup_order")
    (tmp_path / "suite.json").write_text(
        json.dumps(make_suite(case, metadata={"owner": "[redacted:MY_API_TOKEN]"}))
    )
    suite = hashlib.sha256((tmp_path / "suite.json").read_bytes()).hexdigest()
    agent_eval("run", "--suite", "suite.json", "--out", "without", "--run-id", "r", cwd=tmp_path)
    with_, without = tree(tmp_path / "with"), tree(tmp_path / "without")
    assert suite.encode() in (tmp_path / "without" / "run" / "config.json").read_bytes()
    different = {name for name in with_ if with_[name] != without.get(name)}
    assert different == {"run/config.json", "manifest.json"}  # the digest of the suite file


@WHOLE_JOB
def test_replacements_are_counted_over_all_parts_of_a_suite(tmp_path: Path) -> None:
    cases = [told(SECRET if number % 3 else "nothing", number) for number in range(600)]
    assert run(tmp_path, *cases, layout="compact").code == 0
    assert leaks(tmp_path / "pack", SECRET) == []
    config = json.loads((tmp_path / "pack" / "run" / "config.json").read_bytes())
    assert config["execution_config"]["redacted_cases"] == 400


@pytest.mark.parametrize(
    ("word", "tool"),
    [
        *((word, "lookup_order") for word in ("case_id", "tool_contract", "verdicts", "tool_call")),
        ("trajectory_step", "lookup_order"),
        ("postgres", "query_postgres"),
    ],
)
def test_password_that_is_a_word_of_ours_breaks_nothing(word: str, tool: str, tmp_path: Path) -> None:
    assert run(tmp_path, make_case("a", tool), secret=word).code == 0
    assert agent_eval("pack", "verify", "--run", "pack", cwd=tmp_path).code == 0
    assert word != "postgres" or leaks(tmp_path / "pack", word) == []


@pytest.mark.parametrize(
    ("case", "flags", "said"),
    [
        (make_case(f"order {SECRET}"), {}, "the case_id (cases[0])"),
        (make_case("a"), {"run_id": f"run {SECRET}"}, "the run_id"),
        ({**make_case("a"), "trace": [{"idx": 12345678, "actor": "agent", "type": "message"}]}, {}, "idx"),
    ],
)
def test_a_secret_that_cannot_be_replaced_is_refused_unsaid(
    case: dict[str, Any], flags: dict[str, str], said: str, tmp_path: Path
) -> None:
    secret = "12345678" if said == "idx" else SECRET
    ended = run(tmp_path, case, secret=secret, **flags)
    assert ended.code == 2
    assert said in ended.error["message"]
    assert secret not in json.dumps(ended.error, ensure_ascii=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["suite.json"]


TOKEN = "ghp_" + "a1B2" * 9
PERSONAL = {
    "ssn": "12-34", "badge": "B-123456", "customer.name": "Ann Lee", "e-mail": "ann@mail.example",
    "card": "4111 1111 1111 1111", "token": TOKEN,
}  # fmt: skip
RULES = (
    "--set", "redaction.fields=ssn", "--set", "redaction.patterns=badge=B-[0-9]{6}", "--set",
    "redaction.personal=true",
)  # fmt: skip


def personal_case(number: int = 0) -> dict[str, Any]:
    """A case with personal details in its input, of which its agent repeats all."""
    text = "; ".join(PERSONAL.values())
    case = make_case(f"case-{number}", "lookup_order", policy={"forbidden_tools": ["lookup_order"]})
    case["input"] = {"ssn": PERSONAL["ssn"], "customer": {"name": PERSONAL["customer.name"]}}
    case["expected_output"] = text
    case["regex_patterns"] = ["no such words"]
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": text})
    return case


AGENT = ("--suite", "suite.json", "--out", "p", "--agent-command", f"{sys.executable} -S -E agent.py")
REPEATED = json.dumps({"assistant_output": "; ".join(PERSONAL.values())})


def write(place: Path, agent: str, *cases: dict[str, Any]) -> None:
    """Write a suite, and an agent in Python."""
    (place / "suite.json").write_text(json.dumps(make_suite(*cases)))
    (place / "agent.py").write_text(f"import json, os, signal, sys\n{agent}")


@pytest.mark.parametrize("command", ["run", "run-loop"])
def test_what_the_rules_name_is_in_no_file(command: str, tmp_path: Path) -> None:
    write(tmp_path, f"print({REPEATED!r})", *map(personal_case, range(3)))
    words = AGENT if command == "run-loop" else AGENT[:4]
    ended = agent_eval(command, "--format", "json", *words, *RULES, cwd=tmp_path)
    answer = ended.json()
    assert (answer["redacted_cases"], answer["redactions"] > 12) == (3, True)
    for name in ("suite.json", "agent.py"):
        (tmp_path / name).unlink()
    for text in PERSONAL.values():
        assert leaks(tmp_path, text) == []
        assert text not in ended.out
    config = json.loads((tmp_path / "p" / "run" / "config.json").read_bytes())
    assert config["execution_config"]["redactions"] == answer["redactions"]
    assert agent_eval("verify", "p", cwd=tmp_path).code == 0
    again = ("rejudge", "--format", "json", "--run", "p", "--judge", "policy", "--out", "q")
    assert agent_eval(*again, cwd=tmp_path).json()["redacted_cases"] == 3


def test_the_journal_of_a_killed_run_holds_nothing_that_the_rules_name(tmp_path: Path) -> None:
    killing = (
        "if json.load(sys.stdin)['case_id'] == 'case-1': os.kill(int(open('pid').read()), signal.SIGKILL)"
    )
    write(tmp_path, f"{killing}\nprint({REPEATED!r})", *map(personal_case, range(2)))
    process = start("run-loop", *AGENT, "--parallel", "1", *RULES, cwd=tmp_path, measured=False)
    (tmp_path / "pid").write_text(str(process.pid))
    process.communicate(timeout=60)
    journal = (tmp_path / "p.journal").read_bytes()
    assert b"case-0" in journal
    assert [name for name, text in PERSONAL.items() if text.encode() in journal] == []


def test_artifacts_of_a_pack_are_redacted_when_it_is_judged_again(tmp_path: Path) -> None:
    write(tmp_path, f"print({SECRET!r}, file=sys.stderr)\nsys.exit(3)", make_case("a", "lookup_order"))
    agent_eval("run-loop", *AGENT, cwd=tmp_path)
    assert leaks(tmp_path / "p", SECRET)
    again = ("rejudge", "--run", "p", "--judge", "policy", "--out", "q")
    assert agent_eval(*again, cwd=tmp_path, environ={"MY_API_TOKEN": SECRET}).code == 4  # the agent failed
    assert (tmp_path / "q" / "manifest.json").exists()
    assert leaks(tmp_path / "q", SECRET) == []


def test_a_wrong_rule_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    words = ("run", "--suite", "none.json", "--out", "p", "--set", "redaction.patterns=x=(")
    ended = agent_eval(*words, cwd=tmp_path)
    assert ended.code == 2
    assert "RE2 cannot read it" in ended.error["message"]
