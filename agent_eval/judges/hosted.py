"""A judge from a project's files, which runs in a child process of its own.

Such a judge is named `module:Class`. It has no place in the process that decides and may hold a token: there
it could end the process, patch the gate or read the token, also because of what the agent said. Its process
(`host`) gets the environment that every program needs, and what the configuration names in `env`; it stays
alive for the whole run, and answers one case after the other.

Whatever is not a whole verdict of this judge on this case is an error, and the process is ended.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import sys
import threading
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.verdict import WITHOUT_VERDICT
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.evidence.rows import first_problem
from agent_eval.judges.base import (
    EvaluationsConfig,
    Judge,
    JudgeConfig,
    StrictModel,
    clipped,
    ended_without_verdict,
    not_judged,
    quoted,
)
from agent_eval.judges.code import CodePlace
from agent_eval.judges.reading import read_config
from agent_eval.processes.child import ChildLimits, allowed_environment
from agent_eval.processes.living_child import ConversingChild
from agent_eval.storage.json import Limits, dumps, parse

MOST_DEATHS = 3
"""After so many ends in a row without a verdict, the judge is not asked again: each start takes a moment."""

_AT_ONCE = 8
_ANSWER_BYTES = 4 << 20
_START_SECONDS = 60.0
_STDERR_LIMIT = 500
_START = (
    "import sys; sys.path[:] = __import__('json').loads(sys.argv[1]); "
    "from agent_eval.judges.host import main; main()"
)


class HostConfig(StrictModel):
    """What a configuration says of the process of a judge, beside the judge's own keys."""

    timeout_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Wall time for one case."""
    env: list[str] = Field(default_factory=list)
    """Names of environment variables to pass to it, beside those that every program needs."""


class _Ended(Exception):
    """The process ended, or was ended, without an answer; the text says how, starting with a verb."""

    def __init__(self, how: str, stderr: bytes = b"") -> None:
        super().__init__(how)
        self.how = how
        self.stderr = stderr.decode("utf-8", "replace").strip()[-_STDERR_LIMIT:]


class HostedJudge(Judge):
    """A judge in a child process. Safe to use from many threads, and in forked processes.

    `name` is `module:Class`. `configs`, by name, have the keys of `HostConfig`; the judge's own is under its
    name or its id.
    """

    _idle: list[ConversingChild]

    def __init__(self, name: str, configs: Mapping[str, Any], place: CodePlace) -> None:
        self._name, self._place = name, place
        not_from = str(place.of) if place.is_elsewhere else None
        load = {"name": name, "configs": configs, "host_keys": list(HostConfig.model_fields)}
        self._load = json.dumps({**load, "not_from": not_from}, default=str).encode()
        self._deaths = 0
        self.forget()
        self._host = _host_config(name, configs.get(name))
        try:
            child, about = self._started()
            if about.key != name:  # only now it is known under which name its configuration is
                child.close()
                self._host = _host_config(about.key, configs.get(about.key))
                child, about = self._started()
        except _Ended as end:
            raise NotEvaluable(
                f"judge {quoted(name)} cannot be loaded: its process {end.how}",
                remedy="Import its module in a Python of your own to see why.",
                stderr=end.stderr,
            ) from None
        self._idle.append(child)
        self.judge_id, self.hard, self.key, self.code = about.judge_id, about.hard, about.key, about.code
        shared: dict[str, Any] = {"hard": about.hard, "weight": about.weight, "category": about.category}
        self.config: JudgeConfig = (
            JudgeConfig(**shared)
            if about.pass_threshold is None
            else EvaluationsConfig(**shared, pass_threshold=about.pass_threshold)
        )
        self.reads = None if about.reads is None else frozenset(about.reads)
        self._checks = about.checks

    def check_case(self, case: Case) -> None:
        """Refuse a case that the judge could never judge, if it says so."""
        if not self._checks:
            return
        try:
            answer = self._ask("check", case, None)
        except _Ended as end:
            raise NotEvaluable(
                f"{ended_without_verdict(self.judge_id, case.case_id)} It {end.how}, asked to check it.",
                remedy="Correct the judge's check_case.",
                case_id=case.case_id,
            ) from None
        if "refused" in answer or "raised" in answer:
            subject = f"case {quoted(case.case_id)}: judge {quoted(self.judge_id)}"
            raise _refusal(answer, f"{subject} cannot check it: ", case_id=case.case_id)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        try:
            answer = self._ask("evaluate", case, trace)
            if "raised" in answer:
                return not_judged(self, case, f"the judge raised {answer['raised']}")
            if "refused" in answer:
                return not_judged(self, case, f"the judge refused: {answer['refused'].get('message')}")
            if "verdict" not in answer:
                raise _Ended(clipped(str(answer.get("wrong", "gave no verdict"))))
            verdict = Verdict.model_validate(answer["verdict"])
            if verdict.judge_id != self.judge_id or verdict.case_id != case.case_id:
                raise _Ended(f"answered for {quoted(verdict.judge_id)} on case {quoted(verdict.case_id)}")
            return verdict
        except ValidationError as problem:
            end = _Ended(clipped(f"gave a malformed verdict: {first_problem(problem)}", 160))
        except _Ended as ended:
            end = ended
        evidence = {WITHOUT_VERDICT: end.how, **({"stderr": end.stderr} if end.stderr else {})}
        reason = f"{ended_without_verdict(self.judge_id, case.case_id)} It {end.how}."
        return not_judged(self, case, reason, evidence)

    def close(self) -> None:
        """End the processes; the next case starts another one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def forget(self) -> None:
        """Forget the processes without ending them: in a forked process, they are its parent's."""
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._idle = []

    def _ask(self, do: str, case: Case, trace: Trace | None) -> dict[str, Any]:
        """Ask for one case; where there is no whole answer, the process has been ended."""
        if self._deaths >= MOST_DEATHS:
            raise _Ended(f"was not asked again: it had ended {MOST_DEATHS} times in a row")
        rest: dict[str, Any] = {"do": do}
        try:
            if trace is not None:
                rest["final_output_tool"] = trace.final_output_tool
                if [id(event) for event in trace.events] != [id(event) for event in case.trace]:
                    rest["trace"] = [event.to_json() for event in trace.events]
            # The case as `Contract.to_json` has it. A live agent's trace may have what JSON cannot hold.
            request = b'{"case":' + case.model_dump_json().encode() + b"," + dumps(rest)[1:]
        except Exception as problem:
            raise _Ended(f"could not be sent the case: {type(problem).__name__}") from None
        with self._places:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            try:
                if child is None:
                    child, _ = self._started()
                answer = _answer(child, request, self._host.timeout_seconds)
            except BaseException as end:  # such as Ctrl-C
                self._deaths += isinstance(end, _Ended)
                if child is not None:
                    child.close()
                raise
            self._deaths = 0
            with self._lock:
                self._idle.append(child)
        return answer

    def _started(self) -> tuple[ConversingChild, _Description]:
        """Start a process, and load the judge there; return what the judge says of itself."""
        child = ConversingChild(
            # Isolated: no file of a project is imported but by the judge. Nothing is written beside it.
            [sys.executable, "-IB", "-c", _START, json.dumps(self._place.search_path())],
            env=allowed_environment(os.environ, self._host.env),
            cwd=self._place.directory,
        )
        try:
            answer = _answer(child, self._load, _START_SECONDS)
            if "judge" not in answer:
                where = f"judge {quoted(self._name)} cannot be loaded: "
                raise _refusal(answer, where, field="judges")
            return child, _Description.model_validate(answer["judge"])
        except ValidationError:
            child.close()
            raise _Ended("did not say what judge it is") from None
        except BaseException:
            child.close()
            raise


class _Description(StrictModel):
    """What a judge says of itself."""

    key: str
    judge_id: str = Field(min_length=1)
    hard: bool
    weight: float
    category: str | None
    pass_threshold: float | None
    reads: list[str] | None
    checks: bool
    code: str | None


def _host_config(name: str, raw: Any) -> HostConfig:
    stated = raw if isinstance(raw, Mapping) else {}
    return read_config(
        name, HostConfig, {key: stated[key] for key in HostConfig.model_fields if key in stated}
    )


def _answer(child: ConversingChild, request: bytes, seconds: float) -> dict[str, Any]:
    """Ask a process, and read its answer as what it is: text from outside."""
    token = secrets.token_hex(8)
    line = b'{"id":"' + token.encode() + b'",' + request[1:]
    limits = ChildLimits(seconds=seconds, stdout_bytes=_ANSWER_BYTES, stderr_bytes=_ANSWER_BYTES)
    result = child.ask(line, limits)
    if result.failure is not None:
        raise _Ended(result.problem, result.stderr)
    if child.has_unread:
        raise _Ended("wrote more than its answer", result.stderr)
    try:
        answer = parse(result.stdout, source="the answer", limits=Limits(max_bytes=_ANSWER_BYTES))
    except InvalidInput as problem:
        raise _Ended(f"wrote what is no answer ({clipped(problem.message, 120)})", result.stderr) from None
    if not isinstance(answer, dict) or answer.get("id") != token:
        raise _Ended("wrote an answer to another question", result.stderr)
    return answer


def _refusal(answer: Mapping[str, Any], where: str, **place: str) -> InvalidInput:
    """Make the error for a judge that cannot be used, in the words of its process."""
    refused = answer.get("refused")
    if not isinstance(refused, dict):
        words = clipped(str(answer.get("raised", "it says nothing of itself")), 160)
        return InvalidInput(where + words, remedy="Correct the judge, or the case.", **place)
    stated = {key: clipped(str(value), 1000) for key, value in refused.items()}
    details = {key: stated[key] for key in ("field", "case_id", "file") if key in stated}
    return InvalidInput(stated.get("message", where), remedy=stated.get("remedy", ""), **details)


_HOSTED: dict[tuple[str, str, CodePlace], HostedJudge] = {}
"""The judges whose processes are alive."""


def hosted_judge(name: str, configs: Mapping[str, Any], place: CodePlace) -> HostedJudge:
    """Return the judge in its process: the same one for the same configuration.

    Raises what `HostedJudge` raises.
    """
    key = (name, json.dumps(configs, sort_keys=True, default=str), place)
    judge = _HOSTED.get(key)
    if judge is None:
        judge = _HOSTED[key] = HostedJudge(name, configs, place)
    return judge


def end_hosted_judges() -> None:
    """End the processes of all judges. Call it before a decision is made: nothing that they left runs on."""
    for judge in _HOSTED.values():
        judge.close()


def reload_hosted_judges() -> None:
    """Let each judge be loaded anew. Call it where files of judges were replaced."""
    end_hosted_judges()
    _HOSTED.clear()


def _forget_all() -> None:
    for judge in _HOSTED.values():
        judge.forget()


# Before the supervisors of the processes are ended, which wait for these.
atexit.register(end_hosted_judges)
os.register_at_fork(after_in_child=_forget_all)
