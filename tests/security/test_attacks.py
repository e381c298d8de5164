"""What an agent, a suite or a branch may try, and what the command line makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval, tree
from tests.extent import WHOLE_JOB, crossed
from tests.factories import make_case, make_event, make_suite

LONG = "a" * 1_000_000 + "!"
BACKTRACKING = "(a+)+$"


def run(place: Path, *cases: dict[str, Any], name: str = "suite", **options: str) -> Ended:
    (place / f"{name}.json").write_text(json.dumps(make_suite(*cases)))
    layout = options.pop("layout", None)
    flags = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    flags += ["--set", f"evidence.layout={layout}"] if layout else []
    return agent_eval("run", "--format", "json", "--suite", f"{name}.json", "--out", name, *flags, cwd=place)


def passed(ended: Ended) -> int:
    # Not `ended.json()`: what takes long says on stderr how far it is.
    return int(json.loads(ended.out)["summary"]["passed_cases"])


SAID_NOTHING: dict[str, list[dict[str, Any]]] = {
    "no event": [],
    "a null output": [make_event(0, output=None)],
    "an error": [make_event(0, type="error", error="exit 1")],
    "a tool's answer only": [
        make_event(0, type="tool_call", tool="t", input={}),
        make_event(1, actor="tool", type="tool_result", tool="t", output="fine"),
    ],
    "a user's word only": [make_event(0, actor="user", input="fine")],
}


@crossed(said=[*SAID_NOTHING], judge=["regex", "json_schema", "final_output"])
def test_agent_that_said_nothing_does_not_pass_as_expected(said: str, judge: str, tmp_path: Path) -> None:
    case = make_case("a", expected_output="fine", regex_patterns=["fine"], json_schema={"const": "fine"})
    case["trace"] = SAID_NOTHING[said]
    assert passed(run(tmp_path, case, judge=judge)) == 0
    case["trace"] = [make_event(0, output='"fine"' if judge == "json_schema" else "fine")]
    assert passed(run(tmp_path, case, judge=judge)) == 1


CIRCLE = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
TOWER = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 60)}
ENDLESS: dict[str, dict[str, Any]] = {
    "regex": {"regex_patterns": [BACKTRACKING]},
    "schema pattern": {"json_schema": {"type": "string", "pattern": f"^{BACKTRACKING}"}},
    "reference to itself": {"json_schema": {"$ref": "#"}},
    "references in a circle": {"json_schema": {"$ref": "#/$defs/a", "$defs": CIRCLE}},
    "references that multiply": {"json_schema": {"$ref": "#/$defs/d59", "$defs": {"d0": {}, **TOWER}}},
}


@pytest.mark.parametrize("fields", ENDLESS.values(), ids=ENDLESS)
@WHOLE_JOB
def test_what_would_take_for_ever_ends_without_a_pass(fields: dict[str, Any], tmp_path: Path) -> None:
    ended = run(
        tmp_path, make_case("a", output=json.dumps(LONG) if "json_schema" in fields else LONG, **fields)
    )
    # Nothing could be judged: that is said with exit 4.
    assert ended.code in (0, 2, 4)
    assert ended.code or passed(ended) == 0


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/x", "file:///etc/passwd", "/etc/passwd", "other.json"]
)
def test_schemas_refer_to_nothing_outside(address: str, tmp_path: Path) -> None:
    ended = run(tmp_path, make_case("a", json_schema={"$ref": address}))
    assert ended.code == 2
    assert "json_schema" in ended.error["message"]
    assert not (tmp_path / "suite").exists()


IDS = [
    *("../../x", "/etc/x", "..", ".", "a/b", "A/B", "a\\b", "C:\\x", "CON", "con", "nul.txt", "x" * 300),
    *("é", "e\u0301", "🙂", "a\nb", "\x00", "\u202ex", " ", "-rf", "~", "$HOME", "manifest.json"),
]


@pytest.mark.parametrize("layout", ["files", "compact"])
def test_any_case_id_stays_inside(layout: str, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "deeper"
    place.mkdir(parents=True)
    assert run(place, *map(make_case, IDS), layout=layout).json()["summary"]["total_cases"] == len(IDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]
    assert sorted(path.name for path in place.iterdir()) == ["suite", "suite.json"]
    assert agent_eval("pack", "verify", "--run", "suite", cwd=place).code == 0
    if layout == "files":
        names = [path.name for path in (place / "suite" / "cases").iterdir()]
        assert len({name.lower() for name in names}) == len(IDS)
        assert all(name.isascii() and len(name) <= 100 for name in names)


@pytest.mark.parametrize(
    "judge", ["os:system", "os.path:join", "../../x:y", "subprocess:Popen", "builtins:exec", "this:s", "x;y"]
)
def test_what_is_no_judge_is_refused(judge: str, tmp_path: Path) -> None:
    assert run(tmp_path, make_case("a"), judge=judge).code == 2
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize("time", ["yesterday", "2026-13-45T99:00:00Z", "2026-01-01T00:00:00", "", "9" * 40])
def test_no_timestamp_makes_a_command_crash(time: str, tmp_path: Path) -> None:
    case = make_case("a")
    case["trace"][0]["ts"] = time
    for name in ("one", "two"):
        assert run(tmp_path, case, name=name).code == 0
    ended = agent_eval("compare", "--baseline", "one", "--candidate", "two", cwd=tmp_path)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("number", [1e308, -1.0, 0, 2**62, 5e-324])
def test_no_figure_makes_a_command_crash(number: float, tmp_path: Path) -> None:
    attributes = {"cost_usd": number, "input_tokens": number, "model": "x" * 10_000}
    events = [make_event(at, attributes=attributes, latency_ms=number, output="done") for at in range(3)]
    metadata = {"usage": [], "model": {}, "cost_usd": "much", "schema_version": "9"}
    case = make_case("a", regex_patterns=["done"], metadata=metadata)
    for name in ("one", "two"):
        assert run(tmp_path, {**case, "trace": events if name == "two" else events[:1]}, name=name).code == 0
    assert agent_eval("compare", "--baseline", "one", "--candidate", "two", cwd=tmp_path).code == 0
    shown = agent_eval("report", "markdown", "--compare", "two/compare/baseline_delta.json", cwd=tmp_path)
    assert shown.code in (0, 2)
    assert "nan" not in shown.out.lower().split()
    assert "inf" not in shown.out.lower().split()


OUTSIDE = ["suite.json", ".", "..", "/proc/x", "suite.json/deep"]


@pytest.mark.parametrize("out", OUTSIDE)
def test_only_packs_are_replaced(out: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "suite.json").write_text(json.dumps(make_suite(make_case("a"))))
    before = tree(tmp_path)
    assert agent_eval("run", "--suite", "suite.json", "--out", out, cwd=tmp_path).code in (2, 4)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "out",
    [
        "run/x.json", "run/config.json", "run/summary.json", "cases/a/trajectory.json", "judges/policy.json",
        "manifest.json", "derived.json", "compare/../run/config.json", "cases/a/artifacts/x", "judges/x.json",
        "Manifest.JSON", "RUN/x", "run/new.json",
    ],
)  # fmt: skip
def test_nothing_is_written_into_a_sealed_run(out: str, tmp_path: Path) -> None:
    run(tmp_path, make_case("a"))
    before = tree(tmp_path)
    options = ("--baseline", "suite", "--candidate", "suite", "--out", f"suite/{out}")
    assert agent_eval("compare", *options, cwd=tmp_path).code == 2
    assert tree(tmp_path) == before


def test_broken_files_are_not_quoted(tmp_path: Path) -> None:
    """They may be links to something that the log must not show."""
    (tmp_path / "hidden").write_text("swordfish: [swordfish\n  swordfish: {x\n")
    for name in ("a.json", "a.jsonl", "a.yaml", "agent-eval.yml"):
        (tmp_path / name).symlink_to("hidden")
    for command in (
        *(("run", "--suite", f"a.{kind}", "--out", "out") for kind in ("json", "jsonl", "yaml")),
        ("ci",),
        ("compare", "--baseline", "hidden", "--candidate", "hidden"),
        ("gate", "--compare", "hidden", "--max-regressed-cases", "0"),
    ):
        ended = agent_eval(*command, cwd=tmp_path)
        assert ended.code == 2
        assert "swordfish" not in ended.out + ended.err
