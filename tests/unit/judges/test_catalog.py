from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_eval.contracts import Case, Outcome, Trace, Verdict, case_result
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges import (
    DEFAULT_JUDGES,
    JUDGES,
    BaseJudge,
    Judge,
    JudgeConfig,
    catalog,
    judge_case,
    load_judges,
    validate_case,
)
from agent_eval.judges.base import fields_not_judged
from tests.unit.judges.traces import asks, make_case, says, uses


class Strict(JudgeConfig):
    word: str = "sorry"


class NoApologies(BaseJudge[Strict]):
    judge_id = "no_apologies"
    Config = Strict

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        if self.config.word in str(trace.final_output):
            return self.failed(case, f"it says {self.config.word}", FailureKind.POLICY_VIOLATION)
        return self.passed(case, "no apology")


class Unconfigured(BaseJudge):  # type: ignore[type-arg]
    judge_id = "unconfigured"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        return self.passed(case, "fine")


class ForeignConfig(Unconfigured):
    class Config:
        hard = True


class Plain:
    judge_id = "plain"
    hard = True

    def evaluate(self, case: Case, trace: Trace) -> Any:
        raise AssertionError("not called")


class Raises(Plain):
    def evaluate(self, case: Case, trace: Trace) -> Any:
        raise RuntimeError("boom " + "x" * 5000)


class Mute(Exception):
    def __str__(self) -> str:
        raise OSError


class RaisesWithoutWords(Plain):
    def evaluate(self, case: Case, trace: Trace) -> Any:
        raise Mute


class Recurses(Plain):
    def evaluate(self, case: Case, trace: Trace) -> Any:
        return self.evaluate(case, trace)


class SaysTrue(Plain):
    def evaluate(self, case: Case, trace: Trace) -> Any:
        return True


class SpeaksForOthers(Plain):
    def evaluate(self, case: Case, trace: Trace) -> Any:
        return NoApologies().passed(case, "")


class NeedsAnArgument(Plain):
    def __init__(self, wanted: str) -> None:
        self.wanted = wanted


class CannotBeBuilt(Plain):
    def __init__(self) -> None:
        raise Mute


class CannotCheckNorSayWhy(Plain):
    judge_id = "cannot_check_nor_say_why"

    def check_case(self, case: Case) -> None:
        raise Mute


class CannotCheck(Plain):
    judge_id = "cannot_check"

    def check_case(self, case: Case) -> None:
        raise KeyError("tone")


class Impostor(Plain):
    judge_id = "replay_contract"


class NoJudge:
    judge_id = "no_judge"


class Nameless(Plain):
    judge_id = ""


HERE = __name__
OWN = [f"{HERE}:NoApologies"]
NOT_CALLABLE = 7
ENDED = "Judge `plain` ended without a verdict in `case-1`."


def test_every_built_in_judge_loads_under_its_own_name() -> None:
    for name in JUDGES:
        if name not in ("lean", "command"):
            (judge,) = load_judges([name])
            assert judge.judge_id == name
            assert isinstance(judge, Judge)


def test_the_defaults_are_hard_and_in_order() -> None:
    judges = load_judges(DEFAULT_JUDGES)
    assert [(judge.judge_id, judge.hard) for judge in judges] == [(name, True) for name in DEFAULT_JUDGES]


@pytest.mark.parametrize(("config", "hard"), [({"hard": False}, False), (None, True), ({}, True)])
def test_a_config_can_make_a_judge_soft_and_null_is_the_default(config: Any, hard: bool) -> None:
    assert load_judges(["policy"], {"policy": config})[0].hard is hard


@pytest.mark.parametrize(
    ("names", "configs", "message", "remedy"),
    [
        (["polcy"], {}, 'there is no judge "polcy"', "Did you mean policy?"),
        (["zzz"], {}, 'there is no judge "zzz"', "Known judges: "),
        (["policy"], {"regx": {}}, 'there is no judge "regx"', "Did you mean regex?"),
        (["policy"], {"policy": {"hrad": 1}}, 'judge "policy": unknown key "hrad"', "Did you mean hard?"),
        (["policy"], {"policy": {"zzz": 1}}, 'unknown key "zzz"', "Known keys: hard, weight, category."),
        (["policy"], {"policy": {"hard": "yes"}}, 'not "yes"', "docs/guides/judges.md"),
        (["policy"], {"policy": [1]}, "is not an object", "Write an object"),
        (["policy", "policy"], {}, "is named twice", "Name every judge once"),
        (["no_such_module:Judge"], {}, "cannot be loaded: ModuleNotFoundError", "module:Class"),
        ([f"{HERE}:Missing"], {}, "cannot be loaded: AttributeError", "module:Class"),
        ([f"{HERE}:"], {}, "cannot be loaded", "module:Class"),
        ([f"{HERE}:NOT_CALLABLE"], {}, "it is not a class", "BaseJudge"),
        ([f"{HERE}:NoJudge"], {}, "it needs judge_id, hard and evaluate", "BaseJudge"),
        ([f"{HERE}:Impostor"], {}, "is a built-in judge", "judge_id of its own"),
        ([f"{HERE}:Nameless"], {}, "it needs judge_id, hard and evaluate", "BaseJudge"),
        ([f"{HERE}:ForeignConfig"], {}, "its Config does not derive from", "BaseJudge"),
        ([f"{HERE}:NeedsAnArgument"], {}, "building it raised TypeError", "BaseJudge"),
        ([f"{HERE}:CannotBeBuilt"], {}, "building it raised Mute", "BaseJudge"),
        ([f"{HERE}:Plain"], {"plain": {"a": 1}}, "takes no configuration", "Remove its entry"),
        (OWN, {"no_apologies": {"wrod": 1}}, "unknown key", "Did you mean word?"),
        (OWN, {"no_apologies": {}, OWN[0]: {}}, "is configured twice", "Keep one"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_remedy(
    names: list[str], configs: dict[str, Any], message: str, remedy: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_judges(names, configs)
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert caught.value.details["field"].startswith("judge")
    assert caught.value.exit_code == 2


def test_configurations_of_known_judges_that_do_not_run_are_allowed() -> None:
    assert [judge.judge_id for judge in load_judges(["policy"], {"regex": {"hard": False}})] == ["policy"]


def test_a_judge_is_found_by_module_and_class_and_configured_under_either_name() -> None:
    case = make_case(says("I am so sorry"))
    for key in ("no_apologies", *OWN):
        (judge,) = load_judges(OWN, {key: {"word": "so sorry", "hard": False}})
        verdict = judge.evaluate(case, Trace(case.trace))
        assert (verdict.judge_id, verdict.passed, verdict.hard) == ("no_apologies", False, False)


def test_a_module_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "judge_of_mine.py").write_text(
        "class J:\n    judge_id = 'mine'\n    hard = True\n    def evaluate(self, case, trace): ...\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert load_judges(["judge_of_mine:J"])[0].judge_id == "mine"
    assert sys.path == path
    assert "judge_of_mine" not in sys.modules


def test_a_judge_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("apologies", f"{HERE}:NoApologies", catalog.ENTRY_POINT_GROUP)
    monkeypatch.setattr(catalog, "_entry_points", lambda: [entry])
    assert load_judges(["apologies"], {"apologies": {"word": "x"}})[0].judge_id == "no_apologies"
    with pytest.raises(InvalidInput) as caught:
        load_judges(["apologie"])
    assert "Did you mean apologies?" in caught.value.remedy


def test_names_from_a_pack_find_no_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_entry_points", lambda: pytest.fail("plug-ins were looked for"))
    for name in (f"{HERE}:NoApologies", "apologies"):
        with pytest.raises(InvalidInput) as caught:
            load_judges([name], allow_plugins=False)
        assert "module:Class" not in caught.value.remedy


@pytest.mark.parametrize("names", [[], ["policy"], ["policy", "replay_contract"]])
@pytest.mark.parametrize("hard", [True, False])
def test_the_check_of_the_trace_always_comes_first_and_can_be_configured_without_being_named(
    names: list[str], hard: bool
) -> None:
    case = make_case(uses("a"), says())
    configs = {} if hard else {"replay_contract": {"hard": False}}
    first, *others = judge_case(load_judges(names, configs), case, Trace(case.trace))
    assert (first.judge_id, first.hard) == ("replay_contract", hard)
    assert [(verdict.judge_id, verdict.hard) for verdict in others] == [("policy", True)][: len(names)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "the judge raised RuntimeError: boom xxx"),
        ("RaisesWithoutWords", "the judge raised Mute"),
        ("Recurses", "the judge raised RecursionError"),
        ("SaysTrue", f"{ENDED} It returned bool"),
        ("SpeaksForOthers", f'{ENDED} It answered for "no_apologies" on case "case-1"'),
    ],
)
def test_a_broken_judge_gives_an_error_verdict_and_costs_no_other_verdict(name: str, reason: str) -> None:
    case = make_case(says())
    verdicts = judge_case(load_judges([f"{HERE}:{name}", "policy"]), case, Trace(case.trace))
    assert [verdict.outcome.value for verdict in verdicts] == ["passed", "error", "skipped"]
    assert verdicts[1].reason.startswith(reason)
    assert len(verdicts[1].reason) <= 300
    assert verdicts[1].failure is FailureKind.JUDGE_ERROR
    assert verdicts[1].hard


def test_only_the_judges_that_run_check_the_case() -> None:
    case = make_case(says(), regex_patterns=["("])
    validate_case(load_judges(["policy", f"{HERE}:Plain"]), case)
    with pytest.raises(InvalidInput):
        validate_case(load_judges(DEFAULT_JUDGES), case)


@pytest.mark.parametrize(
    ("judge", "says_why"), [("CannotCheck", "KeyError: 'tone'"), ("CannotCheckNorSayWhy", "Mute")]
)
def test_a_plug_in_that_fails_to_check_a_case_names_the_case(judge: str, says_why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_case(load_judges([f"{HERE}:{judge}"]), make_case(says()))
    assert says_why in caught.value.message
    assert caught.value.details["case_id"] == "case-1"


def test_inconclusive_is_neither_pass_nor_failure() -> None:
    case = make_case(says())
    verdict = NoApologies().inconclusive(case, "could not tell", refs=[3, 1, 3], evidence={"a": 1})
    assert (verdict.outcome, verdict.passed, verdict.failure) == (Outcome.INCONCLUSIVE, False, None)
    assert verdict.evidence_refs == [1, 3]
    assert verdict.score is None
    assert NoApologies().passed(case, "fine", evidence=None).evidence == {}


class Limits(BaseModel):
    model_config = {"extra": "forbid"}

    per_tool: dict[str, int] = {}


class Nested(JudgeConfig):
    limits: list[Limits] = Field(default_factory=list)


class NestedJudge(NoApologies):
    judge_id = "nested"
    Config = Nested  # type: ignore[assignment]


def test_keys_within_a_configuration_have_nearest_names_too() -> None:
    with pytest.raises(InvalidInput) as caught:
        load_judges([f"{HERE}:NestedJudge"], {"nested": {"limits": [{"per_tol": {}}]}})
    assert caught.value.details["field"] == f"judge_configs.{HERE}:NestedJudge.limits.0.per_tol"
    assert "Did you mean per_tool?" in caught.value.remedy


def test_a_judges_weight_and_category_stand_in_its_verdicts_and_decide_the_score() -> None:
    weighed = {"weight": 0.5, "category": "safety", "hard": False}
    configs = {"regex": {"weight": 3, "category": "format"}, "policy": weighed}
    case = make_case(says("hi"), regex_patterns=["hi"], policy={"required_tools": ["send"]})
    found = judge_case(load_judges(["regex", "policy"], configs), case, Trace(case.trace))
    told = {verdict.judge_id: (verdict.weight, verdict.category) for verdict in found}
    assert told == {"replay_contract": (1.0, None), "regex": (3.0, "format"), "policy": (0.5, "safety")}
    result = case_result("case-1", found)
    assert result.outcome is Outcome.FAILED
    assert result.score == 4 / 4.5


def test_a_judge_that_raises_keeps_its_weight_and_category() -> None:
    class Fails(Unconfigured):
        def evaluate(self, case: Case, trace: Trace) -> Verdict:
            raise ValueError("no")

    case = make_case(says("hi"))
    *_, verdict = judge_case([Fails(JudgeConfig(weight=2, category="safety"))], case, Trace(case.trace))
    assert (verdict.outcome, verdict.weight, verdict.category) == (Outcome.ERROR, 2.0, "safety")


@pytest.mark.parametrize("config", [{"weight": -1}, {"weight": 1e300}, {"weight": "2"}, {"category": ""}])
def test_a_weight_or_category_that_cannot_be_used_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_judges(["regex"], {"regex": config})
    assert str(next(iter(config))) in refused.value.message + str(refused.value.details)


def test_a_judge_without_a_model_of_its_own_takes_what_every_judge_takes() -> None:
    (judge,) = load_judges([f"{HERE}:Unconfigured"], {"unconfigured": {"hard": False, "category": "tone"}})
    verdict = judge.evaluate(make_case(), Trace([]))
    assert (verdict.hard, verdict.category, verdict.outcome) == (False, "tone", Outcome.PASSED)


def test_a_judge_that_does_not_say_what_it_reads_may_read_all_of_it() -> None:
    case = make_case(says(), regex_patterns=["done"])
    judges = load_judges(["command"], {"command": {"command": ["true"]}})
    assert judge_case(judges, case, Trace(case.trace))[0].evidence == {}


BUILT_IN: dict[str, Any] = {name: catalog.import_judge(spec) for name, spec in JUDGES.items()}


def test_every_rule_in_metadata_that_a_built_in_judge_reads_is_said_where_none_of_the_run_reads_it() -> None:
    read = {name for each in BUILT_IN.values() for name in each.reads or ()}
    fields = sorted(name for name in read if name.startswith("metadata."))
    case = make_case(says(), metadata={name.removeprefix("metadata."): ["x"] for name in fields})
    fields.remove("metadata.recorded_verdicts")  # verdicts, and no rule
    assert fields_not_judged(load_judges(["cost_budget"]), case) == fields


def test_built_in_judges_say_what_they_read() -> None:
    assert [name for name, each in BUILT_IN.items() if each.reads is None] == ["command"]


def test_every_built_in_judge_has_a_unit_test() -> None:
    unit = Path(__file__).parents[1]
    own = "".join(path.read_text("utf-8") for path in unit.glob("judges/builtin/test_*.py"))
    every = "".join(path.read_text("utf-8") for path in unit.rglob("test_*.py"))
    untested = [n for n, each in BUILT_IN.items() if f'"{n}"' not in own and each.__name__ not in every]
    assert untested == [], "add tests/unit/judges/builtin/test_JUDGE.py"


def test_a_judge_that_looks_at_the_answer_says_so() -> None:
    answer = re.compile(r"trace\.final_(?:event|output)\b")
    for name, each in BUILT_IN.items():
        source = Path(str(sys.modules[each.__module__].__file__)).read_text("utf-8")
        is_said = each.reads_answer or getattr(each, "runs_commands", False) or not answer.search(source)
        assert is_said, f"set reads_answer of {name}, or it passes an answer that was cut off"


def test_an_attempt_that_failed_is_an_error_whichever_judges_were_named() -> None:
    history = [{"attempt": 0, "failure": "timeout", "problem": "did not end"}]
    case = make_case(says(), regex_patterns=["done"], metadata={"attempt_history": history})
    verdicts = judge_case(load_judges(["regex"]), case, Trace(case.trace))
    outcomes = {verdict.judge_id: verdict.outcome.value for verdict in verdicts}
    assert outcomes == {"replay_contract": "error", "regex": "passed"}
    assert verdicts[0].reason == "the agent did not end"
    both = judge_case(load_judges(["regex", "execution"]), case, Trace(case.trace))
    assert [verdict.outcome.value for verdict in both] == ["passed", "passed", "error"]


USED = {"strict": "tool_used", "toolName": "A", "criterion": "a"}
UNUSED = {"strict": "tool_used", "toolName": "B", "criterion": "b"}
UNKNOWN = {"strict": "param_exists", "paramName": "p", "criterion": "p"}


SHARE = '50 % of the evaluations passed, and 40 % suffice; tool_used: "B" was not used'


@pytest.mark.parametrize(
    ("threshold", "evaluations", "outcome", "reason"),
    [
        (100, [USED], "passed", "1 strict evaluation passed"),
        (100, [USED, UNUSED], "failed", 'tool_used: "B" was not used'),
        (40, [USED, UNUSED], "passed", SHARE),
        (50, [USED, UNUSED], "passed", ""),
        (50.1, [USED, UNUSED], "failed", ""),
        (75, [{**USED, "weight": 3}, UNUSED], "passed", ""),
        (75, [USED, {**UNUSED, "weight": 3}], "failed", ""),
        (50, [USED, UNUSED, UNKNOWN], "failed", ""),
        (10, [USED, UNKNOWN], "error", ""),
    ],
)
def test_the_share_of_the_weights_decides(
    threshold: float, evaluations: list[dict[str, Any]], outcome: str, reason: str
) -> None:
    case = make_case(asks("Hello"), uses("A"), says(), metadata={"strict": evaluations})
    judges = load_judges(["strict"], {"strict": {"pass_threshold": threshold}})
    verdict = judge_case(judges, case, case.recorded)[1]
    assert (verdict.outcome.value, verdict.reason) == (outcome, reason or verdict.reason)
