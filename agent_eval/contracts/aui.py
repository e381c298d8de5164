"""Suites of conversations in the format of the AUI evaluator, and the JSON Schema of that format."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)
from pydantic_core import PydanticCustomError

from agent_eval.contracts.base import Contract
from agent_eval.contracts.conversation import STOP_TOKEN, TURN_SECONDS
from agent_eval.contracts.suite import LONGEST_ANSWER, MOST_TURNS
from agent_eval.contracts.trace import is_blank

AUTO = "auto"
"""What a turn's `user` is where the simulated user writes the message."""

PADDED_TURNS = 7
"""A test with fewer turns is filled up to this number with `auto`."""

StrictKind = Literal[
    "escalated",
    "not_escalated",
    "tool_used",
    "tool_not_used",
    "param_equals",
    "param_exists",
    "param_not_exists",
    "escalated_due_to_error",
    "not_escalated_due_to_error",
    "rule_triggered",
    "rule_not_triggered",
    "integration_called",
]

STRICT_KINDS: tuple[str, ...] = get_args(StrictKind)
"""Every kind of strict evaluation."""


def is_missing(value: Any) -> bool:
    """Tell whether a parameter's value counts as none: empty, blank or `undefined`, or a list of such."""
    if isinstance(value, str):
        return value.strip() in ("", "undefined")
    if isinstance(value, list):
        return all(map(is_missing, value))
    return value is None or value == {}


def _visible(text: str) -> str:
    if is_blank(text):
        raise PydanticCustomError("blank", "it has no visible character")
    return text


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def _a_value(value: Any) -> Any:
    if is_missing(value):
        raise PydanticCustomError("missing_value", "this value counts as missing")
    return value


def _no_stop(text: str) -> str:
    if STOP_TOKEN in text:
        raise PydanticCustomError("stop_token", "it contains the word that ends a conversation")
    return text


def _file_name(text: str) -> str:
    # No control characters, half characters and line ends.
    is_unfit = any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)
    if is_unfit or text.strip() in (".", ".."):
        raise PydanticCustomError("file_name", "it cannot be the name of a file")
    return text


LONGEST_NAME = 200
"""Most characters of the name of a suite or test, which becomes the name of a file."""

Text = Annotated[StrictStr, AfterValidator(_visible), Field(json_schema_extra={"pattern": r"\S"})]
"""A text in which something can be seen."""

Name = Annotated[
    Text,
    AfterValidator(_file_name),
    Field(
        max_length=LONGEST_NAME, json_schema_extra={"pattern": r"^(?!\s*\.{0,2}\s*$)[^\u0000-\u001f\u007f]*$"}
    ),
]
"""A name that a file can have, apart from characters that are replaced."""

Number = Annotated[StrictFloat, Field(allow_inf_nan=False)]


class _Evaluation(Contract):
    """What every evaluation has: what is evaluated in words, its weight, and what it is grouped by."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: Text
    weight: Number = Field(default=1, ge=0)
    category: StrictStr = ""
    aui_logic: list[StrictStr] = Field(default_factory=list)


class LlmEvaluation(_Evaluation):
    """A criterion that a model judges by the whole conversation."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["strict"]}})


class PlainEvaluation(_Evaluation):
    """A strict evaluation that needs nothing but its kind: of escalation, or of an error."""

    strict: Literal["escalated", "not_escalated", "escalated_due_to_error", "not_escalated_due_to_error"]


class ToolUsed(_Evaluation):
    """A workflow that must have run."""

    strict: Literal["tool_used"]
    toolName: Text  # noqa: N815 - the names are those of the format


class ToolNotUsed(_Evaluation):
    """A workflow that must not have run, at all or before a turn, counted from 1."""

    strict: Literal["tool_not_used"]
    toolName: Text  # noqa: N815
    beforeTurn: Annotated[StrictInt, BeforeValidator(_whole)] = Field(default=0, ge=1)  # noqa: N815
    """0 where it is left out, which means the whole conversation."""


class ParamEquals(_Evaluation):
    """A parameter that must have a value."""

    strict: Literal["param_equals"]
    paramName: Text  # noqa: N815
    paramValue: Annotated[  # noqa: N815
        Any,
        AfterValidator(_a_value),
        Field(json_schema_extra={"not": {"enum": ["", "undefined", None, [], {}]}}),
    ]


class ParamKnown(_Evaluation):
    """A parameter that must be known, or must not be."""

    strict: Literal["param_exists", "param_not_exists"]
    paramName: Text  # noqa: N815


class RuleTriggered(_Evaluation):
    """A rule that must have been triggered, or must not have been."""

    strict: Literal["rule_triggered", "rule_not_triggered"]
    ruleCode: Text  # noqa: N815


class IntegrationCalled(_Evaluation):
    """An integration that must have been called with success."""

    strict: Literal["integration_called"]
    integrationCode: Text  # noqa: N815


_MODELS: tuple[type[_Evaluation], ...] = (
    PlainEvaluation,
    ToolUsed,
    ToolNotUsed,
    ParamEquals,
    ParamKnown,
    RuleTriggered,
    IntegrationCalled,
)

EVALUATION_MODELS: dict[str, type[_Evaluation]] = {
    kind: model for model in _MODELS for kind in get_args(model.model_fields["strict"].annotation)
}
"""The model of each strict kind."""


def own_fields(kind: str) -> frozenset[str]:
    """Return the fields that only this strict kind, and those like it, have."""
    return frozenset(EVALUATION_MODELS[kind].model_fields) - {*_Evaluation.model_fields, "strict"}


def _kind(evaluation: Any) -> str | None:
    """Return the tag of the model that an evaluation is read with; None for an unknown kind."""
    fields = evaluation if isinstance(evaluation, dict) else getattr(evaluation, "__dict__", {})
    if "strict" not in fields:
        return "LlmEvaluation"
    kind = fields["strict"]
    model = EVALUATION_MODELS.get(kind) if isinstance(kind, str) else None
    return None if model is None else model.__name__


Evaluation = Annotated[
    Annotated[LlmEvaluation, Tag("LlmEvaluation")]
    | Annotated[PlainEvaluation, Tag("PlainEvaluation")]
    | Annotated[ToolUsed, Tag("ToolUsed")]
    | Annotated[ToolNotUsed, Tag("ToolNotUsed")]
    | Annotated[ParamEquals, Tag("ParamEquals")]
    | Annotated[ParamKnown, Tag("ParamKnown")]
    | Annotated[RuleTriggered, Tag("RuleTriggered")]
    | Annotated[IntegrationCalled, Tag("IntegrationCalled")],
    Discriminator(
        _kind, custom_error_type="unknown_kind", custom_error_message="there is no such strict evaluation"
    ),
]


class AuiTurn(Contract):
    """One message of the user: as it is written, or `auto` to have the user simulated."""

    model_config = ConfigDict(frozen=True)

    user: Annotated[Text, AfterValidator(_no_stop), Field(json_schema_extra={"not": {"pattern": STOP_TOKEN}})]
    timeout: Number = Field(default=TURN_SECONDS, gt=0, le=LONGEST_ANSWER)
    expectation: StrictStr = ""

    @property
    def is_auto(self) -> bool:
        """Whether the simulated user writes the message."""
        return self.user == AUTO


class AuiTest(Contract):
    """A simulated user's scenario, and the evaluations of the conversation."""

    model_config = ConfigDict(frozen=True)

    name: Name
    userInfo: dict[str, Any] = Field(default_factory=dict)  # noqa: N815
    guidelines: Text
    systemPrompt: StrictStr = ""  # noqa: N815
    turns: list[AuiTurn] = Field(min_length=1, max_length=MOST_TURNS)
    evaluations: list[Evaluation] = Field(
        min_length=1,
        json_schema_extra={
            "contains": {"not": {"required": ["weight"], "properties": {"weight": {"const": 0}}}}
        },
    )
    tags: list[StrictStr] = Field(default_factory=list)

    @property
    def padding(self) -> int:
        """How many `auto` turns fill the test up."""
        return max(PADDED_TURNS - len(self.turns), 0)


class AuiSuite(Contract):
    """A suite of conversations: the agent that is tested, and the tests.

    `apiKey` is the key itself, or the name of an environment variable as `${NAME}`.
    """

    model_config = ConfigDict(frozen=True, title="AUI suite")

    name: Name
    agentId: Text  # noqa: N815
    apiKey: Text = Field(repr=False)  # noqa: N815
    model: StrictStr = ""
    judgeModel: StrictStr = ""  # noqa: N815
    tests: list[AuiTest] = Field(min_length=1)
