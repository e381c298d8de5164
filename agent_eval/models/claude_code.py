"""The `claude-code` model: the `claude` command line in print mode, with a subscription or a key of its own.

The program gets no tool, no settings and an empty directory, so that no file of a repository instructs it.
Its sampling parameters cannot be set.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput
from agent_eval.models.base import Model, ModelFailure, ModelOptions, ModelReply, ModelRequest
from agent_eval.models.hosted import MAX_BYTES
from agent_eval.models.retries import account_name, time_left, timed_out
from agent_eval.models.usage import figure_of, whole_usage_of
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child
from agent_eval.storage.json import Limits, parse

_OWN_VARIABLES = ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "ANTHROPIC_BASE_URL")
"""Variables that the program signs in with, beside its key."""


class ClaudeCodeModel(Model):
    """The `claude` program, started once for each request."""

    kind = "claude-code"
    default_model = "sonnet"

    def __init__(self, options: ModelOptions) -> None:
        self.model = options.model or self.default_model
        self._seconds = options.seconds
        own = {"ANTHROPIC_API_KEY": options.api_key, "ANTHROPIC_BASE_URL": options.base_url}
        self._env = {
            **allowed_environment(options.environ, _OWN_VARIABLES),
            **{name: value for name, value in own.items() if value},
        }
        self.account = account_name(options.base_url or "claude-code", options.api_key or "")

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> ClaudeCodeModel:
        return cls(options)

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        began = time.monotonic()
        has_schema = request.reply_schema is not None
        envelope = _envelope(self._run(request))
        text, reason = envelope.get("result"), envelope.get("stop_reason")
        if has_schema and isinstance(envelope.get("structured_output"), dict):
            text = json.dumps(envelope["structured_output"], ensure_ascii=False)
        return ModelReply(
            text if isinstance(text, str) else "",
            stop_reason=reason if isinstance(reason, str) else None,
            model=_model(envelope.get("modelUsage")) or self.model,
            usage=whole_usage_of(envelope.get("usage")),
            cost_usd=figure_of(envelope.get("total_cost_usd")),
            rung="json_schema" if has_schema else None,
            dropped=tuple(request.parameters),
            seconds=time.monotonic() - began,
        )

    def _run(self, request: ModelRequest) -> ChildResult:
        """Ask with one prompt: the last message, or one JSON line for each of several."""
        prompt = request.messages[-1].text
        if len(request.messages) > 1:
            lines = [json.dumps({"role": message.role, "text": message.text}) for message in request.messages]
            about = "The conversation so far, one JSON line a message. Write the next one as the assistant."
            prompt = "\n".join([about, "", *lines])
        stdin = prompt.encode("utf-8", "backslashreplace")
        command = [
            *("claude", "--print", "--output-format", "json", "--model", request.model or self.model),
            *("--system-prompt", request.system, "--tools", ""),
            *("--setting-sources", "", "--strict-mcp-config", "--no-session-persistence"),
        ]
        if request.reply_schema is not None:
            command += ["--json-schema", json.dumps(request.reply_schema)]
        env = {**self._env, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.max_tokens)}
        seconds = request.seconds or self._seconds
        limits = ChildLimits(time_left(seconds) or 0.0, MAX_BYTES, MAX_BYTES)
        with tempfile.TemporaryDirectory() as directory:
            try:
                result = run_child(command, stdin=stdin, env=env, limits=limits, cwd=directory)
            except AgentEvalError as error:
                raise ModelFailure(
                    FailureKind.INFRASTRUCTURE,
                    f"could not be asked: {error.message}",
                    remedy="Install Claude Code, and sign in.",
                    is_final=True,
                ) from None
        return (
            replace(result, problem=timed_out(seconds)) if result.failure is FailureKind.TIMEOUT else result
        )


def _envelope(result: ChildResult) -> dict[str, Any]:
    """Read the object that the program printed, if it has a reply."""
    try:
        value = parse(result.stdout, source="the answer of claude", limits=Limits(wide_integers=True))
    except InvalidInput:
        value = None
    if not isinstance(value, dict) or value.get("type") != "result":
        if result.failure in (FailureKind.TIMEOUT, FailureKind.OUTPUT_LIMIT):
            raise ModelFailure(result.failure, result.problem)
        words = " ".join(result.stderr[-300:].decode("utf-8", "replace").split())
        problem = f"printed no result: claude {result.problem or 'ended'}" + (f": {words}" if words else "")
        remedy = "Update Claude Code." if "unknown option" in words else ""
        raise ModelFailure(FailureKind.INFRASTRUCTURE, problem, remedy=remedy, is_final=bool(remedy))
    if value.get("is_error") or value.get("subtype") not in (None, "success"):
        words = str(value.get("result") or value.get("subtype"))[:300]
        raise ModelFailure(FailureKind.INFRASTRUCTURE, f"answered with an error: {words}")
    return value


def _model(usage: Any) -> str | None:
    """Return the model that wrote most, from the counts of each."""
    if not isinstance(usage, Mapping) or not usage:
        return None
    written = {
        str(name): figure_of(counts.get("outputTokens")) if isinstance(counts, Mapping) else None
        for name, counts in usage.items()
    }
    return max(sorted(written), key=lambda name: written[name] or 0)
