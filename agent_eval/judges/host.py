"""The child process that one judge from a project's files lives in; `hosted` starts it and asks it.

Requests and answers are lines of JSON. The first request names the judge, and its answer describes it; each
further one is a case. What the judge prints goes to standard error, so that only this module answers. The
process holds no secret, and other processes of the same user, such as the agent under test, cannot read or
change its memory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.event import Event
from agent_eval.errors import AgentEvalError, InvalidInput, words_of
from agent_eval.judges.base import BaseJudge, EvaluationsConfig, Judge, config_of
from agent_eval.judges.catalog import build_judge, config_key, import_judge
from agent_eval.judges.code import code_digests, is_installed
from agent_eval.processes.privacy import become_private
from agent_eval.processes.serving import own_streams
from agent_eval.storage.json import dumps


def main() -> None:
    """Serve requests until standard input ends."""
    become_private()
    requests, answers = own_streams()
    host = _Host()
    for line in requests:
        answer = host.answer(orjson.loads(line))
        try:
            encoded = dumps(answer)
        except Exception as problem:  # a verdict may be of any class, and hold anything
            words = f"gave a verdict that is not JSON: {problem}"
            encoded = dumps({"id": answer["id"], "wrong": words[:300]})
        answers.send(encoded)


class _Host:
    """The judge, once it is loaded."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._checkout: Path | None = None
        self._seen = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request. A judge that exits ends this process."""
        answer = {"id": request["id"]}
        try:
            if self._judge is None:
                return answer | {"judge": self._load(request)}
            case = Case.model_validate(request["case"], context=EARLIER)
            if request["do"] == "check":
                self._judge.check_case(case)  # type: ignore[attr-defined]  # asked only where it has one
                return answer | {"fine": True}
            events = request.get("trace")
            trace = Trace(
                case.trace if events is None else [Event.model_validate(event) for event in events],
                request["final_output_tool"],
            )
            verdict: object = self._judge.evaluate(case, trace)
            self._refuse_checkout()
            if isinstance(verdict, Verdict):
                return answer | {"verdict": {**verdict.__dict__, **(verdict.model_extra or {})}}
            return answer | {"wrong": f"returned {type(verdict).__name__} instead of a Verdict"}
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        except AgentEvalError as refused:
            return answer | {"refused": {"message": refused.message, **refused.details}}
        # A plug-in may raise anything, RecursionError included.
        except Exception as problem:
            return answer | {"raised": words_of(problem, 1000)}

    def _load(self, request: dict[str, Any]) -> dict[str, Any]:
        self._checkout = Path(request["not_from"]) if request["not_from"] else None
        name = request["name"]
        factory = import_judge(name)
        key = config_key(name, getattr(factory, "judge_id", name), request["configs"])
        own = getattr(getattr(factory, "Config", None), "model_fields", {})
        raw = request["configs"].get(key)
        if isinstance(raw, dict):
            of_host = set(request["host_keys"]) - set(own)
            raw = {word: value for word, value in raw.items() if word not in of_host}
        judge = build_judge(name, factory, raw)
        self._refuse_checkout()
        self._judge = judge
        config, reads = config_of(judge), getattr(judge, "reads", None)
        check = getattr(type(judge), "check_case", None)
        return {
            "key": key,
            "judge_id": judge.judge_id,
            "hard": bool(judge.hard),
            "weight": config.weight,
            "category": config.category,
            "pass_threshold": config.pass_threshold if isinstance(config, EvaluationsConfig) else None,
            "reads": None if reads is None else sorted(reads),
            "checks": check not in (None, BaseJudge.check_case) or "check_case" in vars(judge),
            "code": code_digests([judge]).get(judge.judge_id),
        }

    def _refuse_checkout(self) -> None:
        """Refuse a judge that imports from the checkout of the change, as an editable install makes it."""
        if self._checkout is None or len(sys.modules) == self._seen:
            return
        self._seen = len(sys.modules)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            path = Path(file) if isinstance(file, str) else None
            if path is not None and path.is_relative_to(self._checkout) and not is_installed(path):
                raise InvalidInput(
                    f"it imports {name} from the checkout, which is the change's",
                    remedy="Import it from files beside the judge, or from an installed package.",
                )
