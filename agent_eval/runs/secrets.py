"""Which values must not be written: those of environment variables whose names say that they are secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_eval.contracts import Contract, GateStatus, Outcome
from agent_eval.errors import FailureKind
from agent_eval.judges.catalog import JUDGES
from agent_eval.storage.redaction import Redactor


def redactor_for(environ: Mapping[str, str], *more: str) -> Redactor:
    """The redactor for everything that a command writes.

    Args:
        environ: The environment variables.
        more: Further secrets, such as a token that was given as a flag.
    """
    return Redactor.from_environment(environ, *more, vocabulary=_vocabulary())


def _vocabulary() -> Iterator[str]:
    """Words that stand in every pack and comment, so that no secret is lost with them.

    A password that is called like a field of ours would otherwise take the field with it.
    """
    yield from ("agent-eval", "trace_score", "message", "tool_call", "tool_result")
    yield from ("propose_execute_repair", "propose", "repair", "attempt_history", "selected_attempt")
    yield from JUDGES
    for words in (Outcome, FailureKind, GateStatus):
        yield from (word.value for word in words)
    waiting: list[type[Contract]] = [Contract]
    while waiting:
        kind = waiting.pop()
        yield from kind.model_fields
        waiting += kind.__subclasses__()
