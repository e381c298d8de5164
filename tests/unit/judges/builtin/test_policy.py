from __future__ import annotations

import pytest

from tests.unit.judges.traces import Row, answers, asks, calls, judge, says, uses

FORBIDDEN = {"forbidden_tools": ["rm"]}

ROWS = [
    Row("without rules there is nothing to judge", says(), gives="skipped"),
    Row("kept rules pass", uses("search"), policy={"required_tools": ["search"], **FORBIDDEN},
        gives="passed"),
    Row("a forbidden tool is named with its events", *(says(), uses("rm"), calls("rm")),
        policy={"forbidden_tools": ["rm", "dd"]},
        gives="failed policy_violation: forbidden tool rm used (events 1, 2 and 3)", refs=[1, 2, 3],
        score=0.5),
    Row("a result of a forbidden tool counts without its call", *(answers("rm"),), policy=FORBIDDEN,
        gives="failed policy_violation"),
    Row("a required tool must be called", answers("search"), policy={"required_tools": ["search", "book"]},
        gives="failed policy_violation: required tools book and search never called",
        evidence={"forbidden_used": [], "required_missing": ["book", "search"]}),
    Row("names match exactly", uses("search"),
        policy={"required_tools": ["search"], "forbidden_tools": ["Search", "search "]}, gives="passed"),
    *(
        Row(f"a tool whose name ends as a forbidden one is warned of: {name}", uses(name), policy=FORBIDDEN,
            gives=f"passed: 1 tool rule kept; tool {name} called, whose name ends as that of a forbidden one",
            evidence={"nearly_forbidden": [name]})
        for name in ("mcp__shell__rm", "shell.rm", "shell/rm", "shell:rm")
    ),
    *(
        Row(f"{name} is another tool", uses(name), policy=FORBIDDEN, gives="passed: 1 tool rule kept")
        for name in ("confirm", "dry_rm")
    ),
    Row(
        "both kinds stand in one sentence",
        uses("rm"),
        policy={"required_tools": ["ls"], **FORBIDDEN},
        gives="failed policy_violation: forbidden tool rm used (events 0 and 1); "
        "required tool ls never called",
    ),
    Row("a message that names a tool is no use of it", says("x", tool="rm"), policy=FORBIDDEN,
        gives="passed"),
    *(
        Row(f"an agent that {name} keeps no rule", events, policy=FORBIDDEN, gives="error missing_output")
        for name, events in (("is silent", asks("?")), ("says a blank", asks("?") + says(" ")))
    ),
    *(
        Row("a tool without a name is refused", says(), policy={name: ["a", ""]},
            gives=f"refused policy.{name}[1]")
        for name in ("required_tools", "forbidden_tools")
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("policy")


def test_a_hostile_tool_name_is_quoted_and_cut() -> None:
    name = "rm\n::error::" + "x" * 5000
    verdict = judge("policy", calls(name), policy={"forbidden_tools": [name]})
    assert verdict.hard
    assert "\n" not in verdict.reason
    assert len(verdict.reason) < 150
