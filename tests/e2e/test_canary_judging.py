"""Secrets that a judge's model, a simulated user, an agent's answers and imported exports repeat are nowhere.

The model of the judge and the agent are asked about a case as it is: their requests are no leak. Everything
else is searched: files, what was printed, and what a collector of telemetry was sent.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.canary import CANARIES, EVERYTHING, TellingModel, everything_below, leaks
from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.extent import WHOLE_JOB
from tests.factories import make_case, make_suite
from tests.fakes.aui import KEY, FakeAui
from tests.fakes.models import FakeOpenAi, Step

ENVIRON = {**CANARIES, "LLM_API_KEY": CANARIES["DEPLOY_KEY"], "AUI_API_KEY": KEY}
POLITE = "The agent is polite."
EXPORTS = REPOSITORY / "tests" / "fixtures" / "adapters"
FRAMEWORKS = ("langgraph", "openai_agents", "autogen", "crewai", "semantic_kernel")
LOGS = "otel openinference mlflow claude_code codex swe_agent inspect tau_bench agentdojo"
IMPORTERS = {
    "import-trace": ("--provider", ("openai", "anthropic", "vertex", "foundry")),
    "import-framework": ("--framework", FRAMEWORKS),
    "import-transcript": ("--source", tuple(LOGS.split())),
}


class Session:
    """Calls commands in one place, and keeps what they print."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.printed: dict[str, str] = {}

    def __call__(self, *words: str) -> Ended:
        ended = agent_eval(*words, cwd=self.place, environ=ENVIRON)
        self.printed[f"{len(self.printed)} {' '.join(words)}"] = ended.out + ended.err
        assert "Traceback" not in ended.err
        return ended

    def telling(self, inputs: set[str]) -> dict[str, list[str]]:
        """What tells a secret, and which: files but the inputs, and what was printed."""
        texts = dict(everything_below(self.place, inputs))
        texts |= {name: text.encode() for name, text in self.printed.items()}
        found = {name: leaks(data) for name, data in texts.items() if leaks(data)}
        return found | {name: ["AUI_API_KEY"] for name, data in texts.items() if KEY.encode() in data}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def judged_case(name: str) -> dict[str, Any]:
    criteria = [{"criterion": POLITE}, {"criterion": f"It never says {EVERYTHING}"}]
    case = make_case(name, "lookup_order", output=EVERYTHING, metadata={"llm": criteria})
    case["trace"][1]["output"] = {"found": EVERYTHING, EVERYTHING: 1}
    return case


def model_of(server: FakeOpenAi) -> tuple[str, ...]:
    address = f"judge_model.base_url={server.base_url}"
    return ("--provider", "openai", "--set", "judge_model.model=small", "--set", address)


def write_labels(place: Path) -> None:
    said = {"criterion": POLITE, "human": "passed", "by": "ann", "note": EVERYTHING}
    labels = [{"case_id": name, **said} for name in ("a", "b")]
    content = {"kind": "judge_labels", "drawn": "random", "labels": labels}
    (place / "labels.json").write_text(json.dumps(content))


@WHOLE_JOB
def test_no_secret_that_a_judges_model_repeats_is_in_anything_that_is_left(session: Session) -> None:
    (session.place / "suite.json").write_text(json.dumps(make_suite(judged_case("a"), judged_case("b"))))
    write_labels(session.place)
    judge = ("run", "--suite", "suite.json", "--judge", "llm")
    with TellingModel() as server:
        model = model_of(server)
        session(*judge, "--out", "first", "--cassette", "kept.json", *model, "--format", "text")
        asked = len(server.requests)
        session("rejudge", "--run", "first", "--out", "again", "--judge", "llm", *model)
        three = ("--set", "judge_model.votes=3", "--verbose", "--format", "text")
        session(*judge, "--out", "votes", *three, *model)
        session("rejudge", "--run", "votes", "--out", "reused", "--judge", "llm", *model)
        assert asked == 2, "both cases ask the same: each criterion is asked once"
        assert server.authorizations[0] == f"Bearer {CANARIES['DEPLOY_KEY']}"
    for out, step in (
        ("prose", Step(text=EVERYTHING)),
        ("refused", Step(status=400, body=json.dumps({"error": {"message": EVERYTHING}}).encode())),
        ("broken", Step(body=EVERYTHING.encode())),
    ):
        with FakeOpenAi(step) as server:
            session(*judge, "--out", out, "--cassette", f"{out}.kept.json", *model_of(server))
    session("replay", "--run", "first", "--out", "replay.json", "--judge", "llm")
    agreement = ("judge-agreement", "labels.json", "--run", "first")
    agreed = session(*agreement, "--out", "agreed.json", "--format", "json")
    assert agreed.json()["criteria"][0]["disagreements"]
    session(*agreement, "--format", "text")
    files = dict(everything_below(session.place, set()))
    assert {"kept.json", "replay.json", "agreed.json"} <= set(files)
    assert b"[redacted:MY_API_TOKEN]" in files["agreed.json"]
    assert session.telling({"suite.json", "labels.json"}) == {}


TEST = {
    "name": "A customer asks", "userInfo": {"name": "Jane", "note": EVERYTHING}, "tags": ["billing"],
    "guidelines": f"You are a customer who says {EVERYTHING}",
    "turns": [{"user": f"Hello, {EVERYTHING}", "expectation": EVERYTHING}, {"user": "auto"}],
    "evaluations": [
        {"criterion": POLITE, "category": "tone"},
        {"criterion": f"No {EVERYTHING}", "strict": "tool_used", "toolName": EVERYTHING},
        {"criterion": "No error", "strict": "not_escalated_due_to_error"},
    ],
}  # fmt: skip
CONVERSATIONS = {"name": "Support", "agentId": "agent-1", "apiKey": "${AUI_API_KEY}", "tests": [TEST]}


def test_no_secret_of_a_conversation_is_in_its_pages_its_pack_or_its_log(session: Session) -> None:
    trace = {"said": EVERYTHING, EVERYTHING: [EVERYTHING]}
    telling = {"text": EVERYTHING, "executed_workflows": [EVERYTHING], "trace_info": trace}
    with FakeAui(telling) as agent, TellingModel() as model:
        (session.place / "suite.json").write_text(json.dumps(CONVERSATIONS))
        words = ("run", "suite.json", "--set", f"agent.base_url={agent.url}", "--debug", "--loops", "2")
        ran = session(*words, *model_of(model), "--cassette", "kept.json", "--verbose", "--format", "text")
        assert agent.bodies("message")
        assert all(purpose in json.dumps(model.requests) for purpose in ("verdict", "customer"))
    assert "Support" in ran.out + ran.err
    files = dict(everything_below(session.place, set()))
    pages = [name for name in files if name.startswith("results/Support/") and name.endswith(".md")]
    assert len(pages) >= 2
    assert any(b"[redacted:MY_API_TOKEN]" in files[name] for name in pages)
    assert session.telling({"suite.json"}) == {}


def test_no_secret_is_in_exports_or_reports(session: Session) -> None:
    suite = make_suite(judged_case("a"), judged_case("b"))
    (session.place / "suite.json").write_text(json.dumps(suite))
    with TellingModel() as server:
        session("run", "--suite", "suite.json", "--judge", "llm", "--out", "p", *model_of(server))
    for command in ("export-junit", "export-csv", "export-otel"):
        assert session(command, "--run", "p", "--out", f"{command}.out").code == 0
        assert session(command, "--run", "p", "--out", "-").code == 0
    assert session("export-otel", "--run", "p", "--out", "o.json", "--protocol", "otlp-json").code == 0
    assert session("report", "html", "--run", "p", "--out", "p.html").code == 0
    assert session("report", "markdown", "--run", "p", "--out", "p.md").code == 0
    assert session("compare", "--baseline", "p", "--candidate", "p").code == 0
    session("stability-check", "p", "p")
    assert session("diff", "p", "p", "--format", "text").code in (0, 1)
    assert session("inspect", "p", "--format", "text").code == 0
    assert session.telling({"suite.json"}) == {}


@WHOLE_JOB
def test_no_secret_of_evidence_from_elsewhere_is_in_what_is_made_of_it(session: Session) -> None:
    (session.place / "suite.json").write_text(json.dumps(make_suite(judged_case("a"), judged_case("b"))))
    write_labels(session.place)
    with TellingModel() as server:
        for out in ("p", "q"):
            words = ("run", "--suite", "suite.json", "--judge", "llm", "--out", out, *model_of(server))
            agent_eval(*words, cwd=session.place, environ={"LLM_API_KEY": "of-another-machine"})
    recorded = {name for name, _ in everything_below(session.place, set())}
    assert leaks((session.place / "p/run/events.jsonl").read_bytes())
    for command in ("export-junit", "export-csv", "export-otel"):
        assert session(command, "--run", "p", "--out", f"{command}.out").code == 0
    assert session("export-otel", "--run", "p", "--out", "o.json", "--protocol", "otlp-json").code == 0
    assert session("compare", "--baseline", "p", "--candidate", "q", "--format", "text").code == 0
    assert session("gate", "--compare", "q/compare/baseline_delta.json", "--min-pass-rate", "0.5").code == 1
    for shown in (("--run", "p"), ("--compare", "q/compare/baseline_delta.json")):
        assert session("report", "html", *shown, "--out", f"{shown[0]}.html").code == 0
        assert session("report", "markdown", *shown, "--out", f"{shown[0]}.md").code == 0
    assert session("rejudge", "--run", "p", "--judge", "regex", "--out", "r").code in (0, 4)
    assert session("show", "p", "a").code == 0
    assert session("show", "p", "a", "--format", "text").code == 0
    assert session("diff", "p", "r", "--format", "text").code in (0, 1)
    assert session("inspect", "p").code == 0
    agreement = ("judge-agreement", "labels.json", "--run", "p", "--out", "agreed.json", "--format", "json")
    assert (session(*agreement).code, session.telling(recorded)) == (0, {})


def telling(value: Any) -> Any:
    """An exported record in which every text of several words goes on with the secrets."""
    if isinstance(value, dict):
        return {name: telling(inner) for name, inner in value.items()} | {"a field": {EVERYTHING: EVERYTHING}}
    if isinstance(value, list):
        return [telling(inner) for inner in value]
    return f"{value} {EVERYTHING}" if isinstance(value, str) and " " in value else value


def exports() -> Iterator[tuple[str, str, str, Path]]:
    """A command, its option, a format and an export of that format."""
    for command, (option, formats) in IMPORTERS.items():
        for name in formats:
            for path in sorted((EXPORTS / name).iterdir()):
                if path.suffix in (".json", ".jsonl", ".traj") and ".expected" not in path.suffixes:
                    yield command, option, name, path


@WHOLE_JOB
def test_no_secret_of_an_export_is_in_the_suite_or_the_diagnostics_of_its_import(session: Session) -> None:
    imported, inputs = set(), set()
    for number, (command, option, name, path) in enumerate(exports()):
        text = path.read_text()
        rows = [json.loads(text)] if path.suffix != ".jsonl" else list(map(json.loads, text.splitlines()))
        export = session.place / f"export{number}{path.suffix}"
        export.write_text("\n".join(json.dumps(telling(row)) for row in rows))
        inputs.add(export.name)
        out = ("--out", f"{number}.jsonl")
        ended = session(command, option, name, "--input", export.name, *out, "--format", "text")
        if ended.code == 0:
            imported.add(name)
        if number % 8 == 0:
            session(command, option, name, "--input", export.name, *out, "--strict")
            session("inspect", export.name, "--format", "text")
    assert imported == {name for _, formats in IMPORTERS.values() for name in formats}
    assert b"[redacted:MY_API_TOKEN]" in b"".join(data for _, data in everything_below(session.place, inputs))
    assert session.telling(inputs) == {}
