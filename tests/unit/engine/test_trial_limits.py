"""What a trial and a run have used, and costs that are unknown."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Case, RunLimits, Trace, TrialLimits
from agent_eval.engine.progress import RunUse
from agent_eval.engine.usage import TrialUse
from tests.factories import make_case, make_event


def used(*events: dict[str, Any], seconds: float = 1.0) -> TrialUse:
    case = Case.model_validate({"case_id": "c", "trace": list(events)})
    use = TrialUse()
    use.add(case, Trace(case.trace), seconds)
    return use


def test_agent_steps_and_tool_calls_are_counted() -> None:
    case = Case.model_validate(make_case("c", "a", "b"))
    use = TrialUse()
    use.add(case, Trace(case.trace), 1.0)
    use.add(case, Trace(case.trace), 2.0)
    assert (use.seconds, use.steps, use.tool_calls) == (3.0, 6, 4)


def test_what_nothing_tells_is_unknown_and_not_0() -> None:
    use = used(make_event(0, attributes={"note": 1}))
    assert use.tokens is None
    assert use.cost_usd is None
    assert use.reached(TrialLimits(tokens=1, cost_usd=0.1)) is None


def test_tokens_are_priced_where_no_cost_is_recorded() -> None:
    attributes = {
        "gen_ai.response.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 1_000_000,
        "gen_ai.usage.output_tokens": 0,
    }
    use = used(make_event(0, attributes=attributes))
    assert use.tokens == 1_000_000
    assert use.cost_usd == pytest.approx(2.5)


def test_a_limit_that_is_met_exactly_is_kept_but_leaves_nothing() -> None:
    use = used(make_event(0, attributes={"cost_usd": 0.5}))
    assert use.reached(TrialLimits(cost_usd=0.5)) is None
    assert use.is_spent(TrialLimits(cost_usd=0.5))
    assert not use.is_spent(TrialLimits(cost_usd=0.6, tokens=3))


def test_a_run_knows_what_it_does_not_know() -> None:
    now = [0.0]
    run = RunUse(RunLimits(seconds=10, cost_usd=1.0), lambda: now[0])
    run.add(None)
    run.add(0.4)
    assert (run.cost_usd, run.average, run.reached(), run.may_start(0), run.may_start(1)) == (
        *(0.4, 0.4, ""),
        *(True, False),
    )
    run.add(0.4)
    assert "cost limit of 1 US dollars is reached (0.8 spent, and a trial costs 0.4" in run.reached()
    now[0] = 10.0
    assert "time limit of 10 s" in run.reached()
