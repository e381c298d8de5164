"""The fields that the objects of a format have: any other field is reported, as no reader takes it.

A row of `_KNOWN` is a format, a variant of its records, and where in such a record the objects are: the names
of fields on the way, `*` for every field, a name with `+` for that field within itself. Formats that are not
here keep all fields, or are checked message by message. Names are compared in snake case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.vocabulary import (
    ARGUMENTS,
    CALLS_INSIDE,
    IDS,
    KINDS,
    NAMES,
    PAYLOADS,
    RESULTS_INSIDE,
    snake,
)

_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)
"""What says nothing, in whatever field it is."""


def report_unknown(
    fields: Mapping[str, Any], name: str, place: str, prefix: str, diagnostics: Diagnostics
) -> None:
    """Report the fields of an object that its row of the table does not have, unless they are empty."""
    known = _names_of(name)
    if not known or known.issuperset(fields):
        return
    for field, value in fields.items():
        if field not in known and snake(field) not in known and value not in _EMPTY:
            diagnostics.unknown(place, f"{prefix}{field}")


def report_unknown_in(
    value: Any, name: str, place: str, diagnostics: Diagnostics, *, field: str = ""
) -> None:
    """Report the fields that no row has of a value, and of the objects in it.

    `name` is of a format and a variant, `field` where in the record the value is.
    """
    for row, steps in _places_of(name):
        for path, fields in _objects(value, steps, field):
            report_unknown(fields, row, place, f"{path}." if path else "", diagnostics)


@cache
def _places_of(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rows of a format's variant, each with the steps to its objects."""
    rows = [row for row in _KNOWN if row.partition(": ")[0] == name]
    return [(row, tuple(row.partition(": ")[2].split())) for row in rows]


@cache
def _names_of(row: str) -> frozenset[str]:
    """Return the names that a row allows, as they are written and in snake case."""
    names = _KNOWN.get(row, "").split()
    return frozenset(names) | frozenset(map(snake, names))


def _objects(value: Any, steps: tuple[str, ...], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _objects(inner, steps, f"{path}[{number}]")
    elif not isinstance(value, dict):
        return
    elif not steps:
        yield path, value
    else:
        step = steps[0].rstrip("+")
        present = [step] if step in value else [name for name in value if step in ("*", snake(name))]
        for field in present:
            inner = value[field]
            where = f"{path}.{field}" if path else field
            yield from _objects(inner, steps[1:], where)
            if steps[0].endswith("+"):
                yield from _objects(inner, steps, where)


_AUTOGEN = """
    id source models_usage metadata created_at content type _class tool_calls results target context
    retry_attempt code_blocks result full_message_id request_id format_string schema_string
"""
_AUTOGEN_CHAT = "content role name tool_calls tool_responses function_call tool_call_id"
_AGENTS_SPAN = """
    object id workflow_name group_id metadata tracing trace_id parent_id started_at ended_at span_data error
"""
_CREWAI_EVENT = """
    timestamp type source_class source_fingerprint source_type fingerprint_metadata task_id task_name
    agent_id agent_role event_id parent_event_id previous_event_id triggered_by_event_id started_event_id
    emission_sequence event_class class from_task from_agent model call_id messages tools callbacks
    available_functions temperature top_p max_tokens stream seed stop_sequences frequency_penalty
    presence_penalty n response call_type usage finish_reason response_id error error_type agent_key
    tool_name tool_args tool_class run_attempts delegations agent plan_step_number plan_step_description
    started_at finished_at from_cache output failure policy crew crew_name inputs eval_llm
    execution_duration filename n_iterations quality total_tokens agent_info iteration metric_category score
    task task_prompt context evaluation_type
"""
_FOUNDRY = """
    id object created_at completed_at started_at expires_at expired_at incomplete_at cancelled_at failed_at
    thread_id assistant_id agent_id run_id role content attachments file_ids status incomplete_details
    metadata type step_details last_error usage required_action model instructions tools tool_resources
    temperature top_p max_prompt_tokens max_completion_tokens truncation_strategy tool_choice
    response_format parallel_tool_calls reasoning_effort
"""
_LANGSMITH = """
    id name start_time end_time run_type extra error serialized events inputs outputs reference_example_id
    parent_run_id parent_run_ids tags attachments session_id session_name child_run_ids direct_child_run_ids
    child_runs feedback_stats feedback app_path url manifest manifest_id manifest_s3_id status prompt_tokens
    completion_tokens total_tokens prompt_token_details completion_token_details first_token_time total_cost
    prompt_cost completion_cost prompt_cost_details completion_cost_details trace_id dotted_order in_dataset
    last_queued_at share_token execution_order inputs_preview outputs_preview inputs_s3_urls outputs_s3_urls
    inputs_or_signed_url outputs_or_signed_url s3_urls error_preview price_model_id trace_tier trace_upgrade
    trace_first_received_at trace_min_start_time trace_max_start_time ttl_seconds reference_dataset_id
    thread_id tenant_id messages latency dangerously_allow_filesystem input_attachments output_attachments
    address last_reviewed_time added_at
"""
_SMOLAGENTS = """
    task task_images system_prompt step_number timing model_input_messages tool_calls error
    model_output_message model_output code_action observations observations_images action_output token_usage
    is_final_answer plan facts output start_time end_time step duration agent_memory
"""
_ANSWERS_OF_OPENAI = """
    id object created model choices usage system_fingerprint service_tier error metadata
    prompt_filter_results provider moderation input_user temperature top_p seed tools tool_choice
    response_format presence_penalty frequency_penalty messages timings stats x_groq citations
    search_results created_at completed_at status incomplete_details output request_id previous_response_id
    conversation instructions max_output_tokens user background billing max_tool_calls parallel_tool_calls
    prompt_cache_key prompt_cache_retention reasoning safety_identifier store text top_logprobs truncation
    output_text prompt content_filters input message done done_reason prompt_eval_count eval_count
    total_duration load_duration prompt_eval_duration eval_duration context
"""
_MESSAGES = """
    role _role Role parts blocks contents items _content _name _meta meta tool_calls toolCalls
    toolInvocations invalid_tool_calls toolRequests tool_call_chunks reasoning_content reasoning thought
    thoughts reasoningText reasoning_details timestamp createdAt created_at created CreatedAt ts metadata
    response_metadata modelInfo usage usage_metadata usageMetadata models_usage metrics tokens token_usage
    cost cost_usd model model_name ai_model_id model_id modelID modelId finish_reason stop_reason
    finishReason stopReason stop_sequence author_name authorName agent_name source name encoding
    inner_content text audio refusal annotations citations additional_kwargs additional_properties error
    status is_error isError exception artifact example instructions state run_id runId conversation_id
    thread_id threadId assistant_id agent_id object response_id responseId message_id messageId tracking_id
    provider provider_name provider_url provider_details provider_response_id provider_data providerMetadata
    providerOptions experimental_providerMetadata vendor_id vendor_details api index logprobs cache_control
    cache_breakpoint signature thought_signature extra_content encrypted_content prefix weight tool_plan
    phase experimental_attachments attachments incomplete_at incomplete_details completed_at
    raw_representation MimeType ModelId stepNumber functionId rawFinishReason stepType isContinued request
    warnings toolResults staticToolCalls dynamicToolCalls staticToolResults dynamicToolResults sources files
    toolCallsCount turn_idx requestor tool_messages tool_responses content_filter_results context_management
    container service_tier system_fingerprint event.name gen_ai.system gen_ai.message.index role_name data
    kwargs lc
"""
_ADK_CASE = """
    eval_id conversation conversation_scenario session_input creation_timestamp rubrics final_session_state
"""
_ADK_TURN = """
    invocation_id user_content final_response intermediate_data creation_timestamp rubrics app_details
"""
_MESSAGE = " ".join((_MESSAGES, *NAMES, *ARGUMENTS, *IDS, *PAYLOADS, *KINDS, *CALLS_INSIDE, *RESULTS_INSIDE))
_KNOWN: Mapping[str, str] = {
    "message": _MESSAGE,
    **dict.fromkeys(("langgraph chunk: data", "langgraph chunk: kwargs"), f"{_MESSAGE} chunk_position"),
    "openai answer": _ANSWERS_OF_OPENAI,
    "openai answer: choices": """
        index message finish_reason logprobs delta text stop_reason native_finish_reason error matched_stop
        provider_specific_fields content_filter_results content_filter_result token_ids reasoning
    """,
    "bedrock answer": """
        output stopReason usage metrics additionalModelResponseFields trace performanceConfig serviceTier
        model ResponseMetadata $metadata error
    """,
    "anthropic answer": """
        id type role content model stop_reason stop_sequence stop_details usage container context_management
        error request_id input_tokens
    """,
    "vertex answer": """
        candidates promptFeedback usageMetadata modelVersion responseId createTime error parsed
        sdk_http_response automatic_function_calling_history modelStatus
    """,
    "vertex answer: candidates": """
        content finish_reason finish_message index safety_ratings citation_metadata grounding_metadata
        avg_logprobs logprobs_result token_count grounding_attributions url_context_metadata url_context
    """,
    "bedrock log": """
        schemaType schemaVersion timestamp accountId region requestId operation modelId input output
        identity inferenceRegion errorCode requestMetadata
    """,
    "vertex adk session": """
        id app_name user_id state events context artifacts last_update_time event_logs past_events
        pending_events current_agent_name session_id
    """,
    "vertex adk session: events": """
        id author content invocation_id actions options timestamp branch partial turn_complete interrupted
        error_code error_message finish_reason model_version usage_metadata grounding_metadata
        citation_metadata long_running_tool_ids custom_metadata cache_metadata avg_logprobs logprobs_result
        is_greeting input_transcription output_transcription live_session_resumption_update live_session_id
        interaction_id isolation_scope
    """,
    "vertex adk evaluation set": "eval_set_id name description eval_cases creation_timestamp",
    **dict.fromkeys(("vertex adk evaluation set: eval_cases", "vertex adk evaluation case"), _ADK_CASE),
    "vertex adk evaluation set: eval_cases conversation": _ADK_TURN,
    "vertex adk evaluation case: conversation": _ADK_TURN,
    "foundry thread": f"{_FOUNDRY} thread messages runs run_steps steps",
    **dict.fromkeys(
        (f"foundry thread: {name}" for name in ("thread", "messages", "runs", "run_steps", "steps")),
        f"{_FOUNDRY} data first_id last_id has_more",
    ),
    **dict.fromkeys(
        (f"foundry thread: {name} data" for name in ("messages", "runs", "run_steps", "steps")), _FOUNDRY
    ),
    "foundry dataset": """
        name description evaluators data openai_graders evaluator_parameters data_mapping evaluation_name
    """,
    "foundry evaluation results": """
        rows metrics studio_url oai_eval_run_ids _evaluation_summary _evaluation_results_list
    """,
    "langgraph snapshot": """
        values next config metadata created_at parent_config tasks interrupts checkpoint checkpoint_id
        parent_checkpoint parent_checkpoint_id
    """,
    "langgraph event": "event name run_id tags metadata data parent_ids",
    "langgraph event: data": "input output chunk error",
    "langgraph debug": "type timestamp step payload ns",
    "langgraph debug: payload": """
        config values metadata next parent_config tasks id name input triggers error result interrupts
    """,
    "langgraph task": "id name input triggers metadata result error interrupts state path",
    "langgraph run": _LANGSMITH,
    "langgraph run: child_runs+": _LANGSMITH,
    "langgraph runs": """
        post patch runs cursors parsed_query rule_id start_time end_time feedback_stats trace_feedback_stats
        kwargs
    """,
    **dict.fromkeys((f"langgraph runs: {name}" for name in ("post", "patch", "runs")), _LANGSMITH),
    "openai_agents export": "data",
    "openai_agents export: data": _AGENTS_SPAN,
    "openai_agents span": _AGENTS_SPAN,
    "autogen message": _AUTOGEN,
    "autogen result": "messages stop_reason type _class",
    "autogen result: messages": _AUTOGEN,
    "autogen state": """
        type version llm_context agent_states agent_state message_buffer message_thread current_turn
        next_speaker_index current_speaker previous_speaker inner_chat_history task facts plan n_rounds
        n_stalls active_speakers
    """,
    "autogen 0.2 history": _AUTOGEN_CHAT,
    "autogen 0.2 views: *": _AUTOGEN_CHAT,
    "autogen 0.2 result": "chat_id chat_history summary cost human_input",
    "autogen 0.2 result: chat_history": _AUTOGEN_CHAT,
    "crewai output": "raw pydantic json_dict tasks_output token_usage",
    "crewai output: tasks_output": """
        description name expected_output summary raw pydantic json_dict agent output_format messages
        tool_failures
    """,
    "crewai log": "task_name task agent status output timestamp",
    "crewai event": _CREWAI_EVENT,
    "smolagents steps": _SMOLAGENTS,
    "smolagents run": "output state steps token_usage timing messages",
    "smolagents run: steps": _SMOLAGENTS,
}
"""Names of fields by format, variant and place."""
