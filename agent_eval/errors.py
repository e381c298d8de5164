"""Errors, exit codes and the failure taxonomy.

Plain Python on purpose: every command imports this at start-up.

An error says what happened (`message`), where (`details`: `file`, `case_id`, `field`, `line`)
and what to do next (`details["remedy"]`). The command line prints it as one JSON object on
stderr, or as prose on a terminal, and exits with `exit_code`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit code of every command."""

    OK = 0
    """The gate or check passed, or the command did what it was asked to."""
    NO = 1
    """The gate or check failed."""
    WRONG_REQUEST = 2
    """The request was wrong: usage or invalid input."""
    INCONCLUSIVE = 3
    """The evidence does not decide, and the policy blocks on that."""
    NOT_EVALUABLE = 4
    """The evaluation could not be done: agent unreachable, disk full, output directory not writable."""


class FailureKind(StrEnum):
    """Why a verdict failed or could not be reached. One taxonomy for judges, engine and agents."""

    AGENT_ERROR = "agent_error"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    PARSE_ERROR = "parse_error"
    TYPE_ERROR = "type_error"
    CONTRACT_VIOLATION = "contract_violation"
    POLICY_VIOLATION = "policy_violation"
    BUDGET_EXCEEDED = "budget_exceeded"
    LOOP = "loop"
    INJECTION = "injection"
    MISSING_OUTPUT = "missing_output"
    JUDGE_ERROR = "judge_error"
    SIMULATOR_ERROR = "simulator_error"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"


class Fault(StrEnum):
    """Whose fault it is that a trial has no score. Only the agent's own faults count against the agent."""

    AGENT = "agent"
    """The agent crashed, was too late, or gave nothing that can be judged."""
    JUDGE = "judge"
    """A judge could not judge, or its model could not be asked."""
    ENVIRONMENT = "environment"
    """What surrounds the agent failed: a case's set-up, a live tool, the simulated user."""
    INFRASTRUCTURE = "infrastructure"
    """The agent could not be reached, its model's provider refused, or agent-eval itself failed."""


class AgentEvalError(Exception):
    """Base of every error that agent-eval raises on purpose.

    Args:
        message: What happened and where, in one sentence.
        remedy: What to do next, in one sentence.
        details: Places and values, JSON-serialisable (`file`, `case_id`, `field`, `line`, ...).

    Example:
        >>> error = InvalidInput("suite.json: no such file", remedy="Check the path.", file="suite.json")
        >>> error.exit_code, error.to_json()["error"]["code"], error.remedy
        (<ExitCode.WRONG_REQUEST: 2>, 'validation_error', 'Check the path.')
    """

    code = "error"
    exit_code = ExitCode.WRONG_REQUEST

    def __init__(self, message: str, *, remedy: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {key: value for key, value in details.items() if value is not None}
        if remedy:
            self.details["remedy"] = remedy

    @property
    def remedy(self) -> str:
        """What to do next; empty if the error has no remedy."""
        return str(self.details.get("remedy", ""))

    def to_json(self) -> dict[str, Any]:
        """Return the object that commands print on stderr: `{"error": {"code", "message", "details"}}`."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


class UsageError(AgentEvalError):
    """The command line is wrong: contradictory flags, or nothing to do."""

    code = "usage_error"


class InvalidInput(AgentEvalError):
    """A file or value from outside is malformed or invalid. Names file, place and remedy."""

    code = "validation_error"


class InvalidPack(AgentEvalError):
    """An evidence pack does not verify: changed, added, removed or linked files, or a broken manifest."""

    code = "invalid_pack"


class IncompatibleRuns(AgentEvalError):
    """Baseline and candidate did not evaluate the same thing."""

    code = "incompatible_runs"


class NothingMeasured(AgentEvalError):
    """No case was selected or judged, which is never a pass."""

    code = "nothing_measured"


class NotEvaluable(AgentEvalError):
    """The evaluation could not be done for reasons outside the request."""

    code = "not_evaluable"
    exit_code = ExitCode.NOT_EVALUABLE


class AlteredPack(NotEvaluable):
    """A pack that this job has sealed is not what it was."""

    code = "altered_pack"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"A sealed pack was altered while the job ran: `{path[:300]}`.",
            remedy="Nothing that this job found can be trusted: find what wrote there, and run again.",
            file=path,
        )


class StorageError(NotEvaluable):
    """Reading or writing failed: disk full, no permission, not a directory."""

    code = "storage_error"


class RemoteError(NotEvaluable):
    """A remote service answered with an error or not at all."""

    code = "remote_error"


def words_of(error: BaseException, most: int = 2000) -> str:
    """Say an exception's type and text, in `most` characters; its text may raise as well."""
    try:
        return f"{type(error).__name__}: {error}"[:most]
    except Exception:
        return type(error).__name__
