"""A suite: the cases an agent is evaluated on."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agent_eval.contracts.base import Contract, digest, valid_or_unknown
from agent_eval.contracts.conversation import STOP_TOKEN
from agent_eval.contracts.trace import Event, Trace

NOT_PART_OF_A_DEFINITION = frozenset({"topic", "trace", "trials"})
"""Fields of a case that say nothing of what is asked: what an agent did, and the topic that 1.2 once had."""

RECORDED_METADATA = frozenset(
    {"attempt_history", "selected_attempt", "max_repairs", "loop_passed", "lost_tries", "imported"}
    | {"recorded_verdicts"}
    | {"planted_fault", "planted_oddity"}
)
"""Keys of a case's metadata that do the same: written by a run or an import, not by the suite's author."""

METADATA_KEYS = frozenset(
    {"allowed_tools", "canaries", "cost_usd", "final_output", "injections", "lean_payload", "llm"}
    | {"recorded_verdicts", "share_expected_output", "strict", "token_usage", "tool_response_cassette"}
    | {"tool_responses", "trajectory_match"}
)
"""Keys of a case's metadata that judges and agents read. A key that looks like one of them is refused."""

COMMON_METADATA_KEYS = frozenset({"model", "tools", "usage"})
"""Further keys that are read, but so common that a key like them may well be the author's own."""

ASKED_METADATA = frozenset(
    {"tools", "tool_responses", "tool_response_cassette", "model", "share_expected_output"}
)
"""Keys of a case's metadata that an agent meets beside the input: its tools, their answers, its model."""

MOST_TURNS = 200
"""Most turns of a conversation with a simulated user."""

LONGEST_ANSWER = 7 * 24 * 3600
"""Most seconds in which an agent may have to answer: times that the operating system's timers hold."""


class ToolContract(Contract):
    """Arguments a tool must and must not be called with, and optionally their JSON Schema."""

    required_args: list[StrictStr] = Field(
        default_factory=list, validation_alias=AliasChoices("required_args", "required")
    )
    forbidden_args: list[StrictStr] = Field(
        default_factory=list, validation_alias=AliasChoices("forbidden_args", "forbidden")
    )
    args_schema: dict[str, Any] | None = None


class Policy(Contract):
    """Tools the agent must use, and must not."""

    required_tools: list[StrictStr] = Field(default_factory=list)
    forbidden_tools: list[StrictStr] = Field(default_factory=list)


class RecordedTrial(Contract):
    """What the agent did in a further trial of a case. `metadata` adds to the case's own for this trial."""

    trace: list[Event]
    metadata: dict[str, Any] = Field(default_factory=dict)


class ExpectedToolCall(Contract):
    """A tool call that a case expects in one of its turns.

    Without `arguments` any arguments are right; `{}` expects none. The other fields say how arguments are
    compared, as in `metadata.trajectory_match`.
    """

    tool: StrictStr = Field(min_length=1)
    arguments: dict[str, Any] | None = None
    match: Literal["exact", "partial"] | None = None
    tolerance: StrictInt | StrictFloat | None = None
    ignore: list[StrictStr] = Field(default_factory=list)
    patterns: dict[str, StrictStr] = Field(default_factory=dict)
    defaults: dict[str, Any] = Field(default_factory=dict)


class CaseTurn(Contract):
    """One turn of a case with several: what the user says, and what is expected of the agent until the next.

    `expected_tool_calls: []` expects no calls; null, as `expected_output: null`, expects nothing. With `auto`
    the simulated user says something, and there is no input. `expectation` is for a judge that is a model,
    and `timeout` the seconds in which the agent must answer.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["input"]}, {"required": ["auto"]}]})

    input: Any = None
    expected_output: Any = None
    expected_tool_calls: list[ExpectedToolCall] | None = None
    auto: StrictBool = False
    expectation: StrictStr | None = None
    timeout: StrictInt | StrictFloat | None = Field(default=None, gt=0, le=LONGEST_ANSWER)

    @model_validator(mode="after")
    def _says_something(self) -> CaseTurn:
        if self.auto and self.input is not None:
            raise PydanticCustomError(
                "auto_and_input", "a turn with auto has no input: the user is simulated"
            )
        if not self.auto and "input" not in self.model_fields_set:
            raise PydanticCustomError("no_input", "a turn needs an input, or auto")
        return self


class Conversation(Contract):
    """The simulated user of a case: how they act, and what is known of them.

    The user is simulated in turns with `auto`, and after the last one up to `max_turns`. `user_info` is sent
    to the agent with every message, where its interface can carry that. `language` is that of the first
    input unless it is named.
    """

    guidelines: StrictStr = ""
    user_info: dict[str, Any] = Field(default_factory=dict)
    max_turns: StrictInt = Field(default=7, ge=1, le=MOST_TURNS)
    language: StrictStr | None = Field(default=None, min_length=1)
    system_prompt: StrictStr | None = Field(default=None, min_length=1)
    """System prompt of the agent for this case, where the agent's interface can carry one."""


class Case(Contract):
    """One task for the agent, what is expected of it and, for recorded runs, its trace.

    `trace` is the first trial, number 0; `trials` holds the further ones, where there are any. `turns` are
    the inputs of a conversation, sent one after the other instead of `input`; `conversation` is about the
    user who is simulated in some of them. `final_output_tool` names the tool whose arguments are the agent's
    answer, if that is no message. `setup` and `teardown` are commands that a run of an agent runs before and
    after each trial, where the operator allows it.
    """

    case_id: StrictStr = Field(min_length=1)
    input: Any = None
    expected_output: Any = Field(default=None, validation_alias=AliasChoices("expected_output", "expected"))
    trace: list[Event] = Field(default_factory=list)
    tool_contracts: dict[str, ToolContract] = Field(default_factory=dict)
    policy: Policy = Field(default_factory=Policy)
    regex_patterns: list[StrictStr] = Field(
        default_factory=list, validation_alias=AliasChoices("regex_patterns", "regex")
    )
    json_schema: dict[str, Any] | StrictBool | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    trials: list[RecordedTrial] = Field(default_factory=list)
    turns: list[CaseTurn] = Field(default_factory=list)
    conversation: Conversation | None = None
    final_output_tool: StrictStr | None = Field(default=None, min_length=1)
    setup: StrictStr | None = Field(default=None, min_length=1)
    teardown: StrictStr | None = Field(default=None, min_length=1)

    @field_validator("turns", "conversation", "final_output_tool", mode="wrap")
    @classmethod
    def _may_be_the_authors_own(
        cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        valid = valid_or_unknown(value, validate, info)
        return [] if valid is None and info.field_name == "turns" else valid

    @field_validator("turns")
    @classmethod
    def _instead_of_input(cls, turns: list[CaseTurn], info: ValidationInfo) -> list[CaseTurn]:
        own = info.data.get("input")
        if turns and own is not None and own != turns[0].input:
            raise PydanticCustomError("input_and_turns", "a case with turns has no input beside theirs")
        return turns

    @model_validator(mode="after")
    def _has_its_user(self) -> Case:
        if self.conversation is None:
            if any(turn.auto for turn in self.turns):
                raise PydanticCustomError("auto_turn", "a case with an auto turn needs a conversation")
            return self
        if any(isinstance(text, str) and STOP_TOKEN in text for text in self.inputs):
            raise PydanticCustomError("stop_token", f"an input may not contain {STOP_TOKEN}")
        return self

    @property
    def inputs(self) -> list[Any]:
        """What the user says, in order: the inputs of the turns, or the one input of a case without turns."""
        return [turn.input for turn in self.turns] or [self.input]

    @property
    def recorded(self) -> Trace:
        """The trace of the case, read as the case says."""
        return Trace(self.trace, self.final_output_tool)

    @property
    def trial_count(self) -> int:
        """How many trials were recorded."""
        return 1 + len(self.trials)

    def of_trial(self, number: int) -> Case:
        """Copy the case as if only one trial had been recorded."""
        if number == 0:
            return self
        if number < 0:
            raise IndexError(number)
        trial = self.trials[number - 1]
        metadata = {**self.metadata, **trial.metadata}
        return self.model_copy(update={"trace": trial.trace, "metadata": metadata, "trials": []})


class SuiteHeader(Contract):
    """Everything of a suite but its cases; the first line of a `.jsonl` suite."""

    dataset_id: StrictStr = Field(min_length=1)
    metadata: dict[str, Any] = Field(default_factory=dict)
    schema_version: StrictStr | None = None

    @property
    def version(self) -> str | None:
        """The schema version the suite states, at the top or in its metadata."""
        stated = self.schema_version or self.metadata.get("schema_version")
        return stated if isinstance(stated, str) else None


class Suite(SuiteHeader):
    """A whole suite in memory. Large suites are streamed case by case instead."""

    cases: list[Case] = Field(default_factory=list)


def asked_digest(case: dict[str, Any]) -> str:
    """Return the digest of what an agent meets in a case, as plain JSON: inputs, tools, their answers, model.

    Two cases with the same digest may expect something else, and their trajectories can be judged by either
    expectation.
    """
    metadata = case.get("metadata") or {}
    asked = {key: value for key, value in metadata.items() if key in ASKED_METADATA}
    stated = case.get("turns")
    turns = [turn for turn in stated if isinstance(turn, dict)] if isinstance(stated, list) else []
    shared = []
    if asked.get("share_expected_output"):
        of_turns = [turn["expected_output"] for turn in turns if "expected_output" in turn]
        shared = [case.get("expected_output"), case.get("expected"), *of_turns]
    inputs = [[turn.get("input") for turn in turns]] if turns else []
    if user := case.get("conversation"):
        inputs += [user, [[turn.get("auto"), turn.get("timeout")] for turn in turns]]
    commands = [[case.get(name) for name in ("setup", "teardown")]] if case.get("setup") else []
    return digest([case.get("input"), asked, shared, *inputs, *commands])


def definition_digest(case: dict[str, Any]) -> str:
    """Return the digest of what a case asks for, leaving out what an agent did.

    Two cases, as plain JSON, with the same digest ask the same, so their results may be compared.
    """
    return digest(definition_of(case))


def definition_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a case, as plain JSON, that says what is asked for; without empty metadata."""
    definition = {key: value for key, value in case.items() if key not in NOT_PART_OF_A_DEFINITION}
    metadata = definition.get("metadata")
    if isinstance(metadata, dict):
        if not RECORDED_METADATA.isdisjoint(metadata):
            metadata = {key: metadata[key] for key in metadata if key not in RECORDED_METADATA}
            definition["metadata"] = metadata
        if not metadata:
            del definition["metadata"]
    return definition
