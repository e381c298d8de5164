"""Whoever writes a pattern, it runs on RE2, in time linear in the text, and never on Python's engine."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import re2

import agent_eval.judges
from agent_eval.judges.builtin.final_output import last_number
from agent_eval.judges.matching import json_schema as schemas
from agent_eval.judges.matching import re2 as patterns
from tests.unit.judges.traces import asks, calls, judge, says, uses

ENDLESS = "(a+)+$"
LONG = "a" * 1_000_000 + "!"

JUDGES = Path(agent_eval.judges.__file__).parent
OWN_PATTERNS_ONLY = {
    "base.py", "builtin/final_output.py", "builtin/prompt_injection.py",
    "builtin/replay_contract.py", "builtin/tool_abuse.py", "matching/re2.py", "matching/transcript.py",
    "reading.py",
}  # fmt: skip
"""These use Python's engine, for patterns that are written in the module itself."""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What either engine was asked to compile."""
    compiled: dict[str, list[str]] = {"re": [], "re2": []}
    for cached in (
        patterns.compile_pattern,
        patterns.compile_glob,
        patterns.compile_schema_pattern,
        schemas._validator_for,
        schemas._inspect_once,
    ):
        cached.cache_clear()
    python_compile, re2_compile = re._compile, re2.compile  # type: ignore[attr-defined]

    def in_python(pattern: Any, flags: Any) -> Any:
        compiled["re"].append(str(pattern))
        return python_compile(pattern, flags)

    def in_re2(pattern: Any, options: Any = None) -> Any:
        compiled["re2"].append(str(pattern))
        return re2_compile(pattern, options)

    monkeypatch.setattr(re, "_compile", in_python)
    monkeypatch.setattr(re2, "compile", in_re2)
    return compiled


def expecting(**call: Any) -> dict[str, Any]:
    return {"trajectory_match": {"calls": [{"tool": "send", **call}]}}


ASKED: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "regex": ("regex", says(LONG), {"regex_patterns": [ENDLESS]}),
    "json_schema pattern": ("json_schema", says([LONG]), {"json_schema": {"items": {"pattern": ENDLESS}}}),
    "json_schema patternProperties": ("json_schema", says({LONG: 1}),
        {"json_schema": {"patternProperties": {ENDLESS: False}, "required": ["b"]}}),
    "json_schema additionalProperties": ("json_schema", says({LONG: 1}),
        {"json_schema": {"patternProperties": {ENDLESS: True}, "additionalProperties": False}}),
    "json_schema of an older draft": ("json_schema", says([LONG]),
        {"json_schema": {"$schema": "http://json-schema.org/draft-04/schema#",
        "items": {"pattern": ENDLESS}}}),
    "tool_contract args_schema": ("tool_contract", uses("send", {"to": LONG}),
        {"tool_contracts": {"send": {"args_schema": {"properties": {"to": {"pattern": ENDLESS}}}}}}),
    "trajectory_match patterns": ("trajectory_match", uses("send", {"to": LONG}),
        {"metadata": expecting(arguments={"to": "x"}, patterns={"to": ENDLESS})}),
    "tool_abuse forbidden_tool_patterns": ("tool_abuse", calls(LONG),
        {"config": {"forbidden_tool_patterns": [ENDLESS, "a+!"]}}),
    "prompt_injection signs": ("prompt_injection", uses("read", {}, LONG) + says("done"),
        {"config": {"signs": [ENDLESS]}}),
    "prompt_injection pasted text": ("prompt_injection", asks(LONG) + says("done"),
        {"config": {"signs": [ENDLESS]}}),
}  # fmt: skip


@pytest.mark.parametrize("option", ASKED)
def test_each_option_that_takes_a_pattern_hands_it_to_re2(option: str, engines: dict[str, list[str]]) -> None:
    name, events, fields = ASKED[option]
    verdict = judge(name, events, **fields)
    assert any("(a+)+" in pattern for pattern in engines["re2"])
    assert not any("(a+)+" in pattern for pattern in engines["re"])
    # The pattern is not found in the text: what asks for it fails, what looks for an attack passes.
    assert verdict.outcome == ("passed" if name == "prompt_injection" else "failed")


def test_globs_run_on_re2_as_well(engines: dict[str, list[str]]) -> None:
    glob = "*a" * 40 + "b"
    rules = {"match": "partial", "ignore": [glob], "arguments": {"x": 1}}
    verdict = judge("trajectory_match", uses("send", {"a" * 100_000: 1, "x": 1}), metadata=expecting(**rules))
    assert verdict.passed
    assert any("a.*a.*a" in pattern for pattern in engines["re2"])
    assert not any("a.*a" in pattern or "a.*?a" in pattern for pattern in engines["re"])


def test_no_judge_gives_pythons_engine_a_pattern_that_is_not_its_own() -> None:
    uses_re = set()
    for path in sorted(JUDGES.rglob("*.py")):
        module = str(path.relative_to(JUDGES))
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            name.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")])
        }
        assert imported.isdisjoint({"fnmatch", "glob", "regex", "sre_compile"}), module
        if "re" not in imported:
            continue
        uses_re.add(module)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
            ):
                pattern = ast.unparse(node.args[0])
                # A constant, or one put together from constants of the module.
                names = {one.id for one in ast.walk(node.args[0]) if isinstance(one, ast.Name)}
                assert all(name.isupper() for name in names), f"{module}: {pattern}"
    assert uses_re == OWN_PATTERNS_ONLY


@pytest.mark.parametrize("piece", ["a", "1", "1,", "-", "a:", "1\u00a0", "\u2014a", "'"])
def test_the_last_number_of_hostile_text_is_read_in_linear_time(piece: str) -> None:
    # Quadratic time would take hours: the test would not end.
    last_number(piece * 2_000_000 + "x")
