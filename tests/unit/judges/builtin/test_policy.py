from __future__ import annotations

import pytest

from tests.unit.judges.traces import Row, answers, asks, calls, judge, says, uses

FORBIDDEN = {"forbidden_tools": ["rm"]}

ROWS = [
    Row("without rules there is nothing to judge", "skipped", says()),
    Row("kept rules pass", "passed", uses("search"), policy={"required_tools": ["search"], **FORBIDDEN}),
    Row("a forbidden tool is named with its events",
        "failed policy_violation: forbidden tool rm used (events 1, 2 and 3)",
        *(says(), uses("rm"), calls("rm")), policy={"forbidden_tools": ["rm", "dd"]}, refs=[1, 2, 3],
        score=0.5),
    Row("a result of a forbidden tool counts without its call", "failed policy_violation", *(answers("rm"),),
        policy=FORBIDDEN),
    Row("a required tool must be called",
        "failed policy_violation: required tools book and search never called", answers("search"),
        policy={"required_tools": ["search", "book"]},
        evidence={"forbidden_used": [], "required_missing": ["book", "search"]}),
    Row("names match exactly", "passed", uses("search"),
        policy={"required_tools": ["search"], "forbidden_tools": ["Search", "search "]}),
    *(
        Row(f"a tool whose name ends as a forbidden one is warned of: {name}",
            f"passed: 1 tool rule kept; tool {name} called, whose name ends as that of a forbidden one",
            uses(name), policy=FORBIDDEN, evidence={"nearly_forbidden": [name]})
        for name in ("mcp__shell__rm", "shell.rm", "shell/rm", "shell:rm")
    ),
    *(
        Row(f"{name} is another tool", "passed: 1 tool rule kept", uses(name), policy=FORBIDDEN)
        for name in ("confirm", "dry_rm")
    ),
    Row("both kinds stand in one sentence",
        "failed policy_violation: forbidden tool rm used (events 0 and 1); required tool ls never called",
        uses("rm"), policy={"required_tools": ["ls"], **FORBIDDEN}),
    Row("a message that names a tool is no use of it", "passed", says("x", tool="rm"), policy=FORBIDDEN),
    *(
        Row(f"an agent that {name} keeps no rule", "error missing_output", events, policy=FORBIDDEN)
        for name, events in (("is silent", asks("?")), ("says a blank", asks("?") + says(" ")))
    ),
    *(
        Row("a tool without a name is refused", f"refused policy.{name}[1]", says(), policy={name: ["a", ""]})
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
