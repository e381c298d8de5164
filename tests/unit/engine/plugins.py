"""Judges that misbehave, for tests: what a plug-in may do, someone's will."""

from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge, JudgeConfig


class Plain(BaseJudge[JudgeConfig]):
    judge_id = "plain"
    Config = JudgeConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        return self.passed(case, "fine")


class NotJson(Plain):
    """Gives evidence that JSON cannot hold on one case."""

    judge_id = "not_json"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        found: Any = {"tools": {1, 2}} if case.case_id == "c1" else {"tools": [1, 2]}
        return self.passed(case, "fine", evidence=found)


class Poisoned(Plain):
    """Answers with verdicts of its own class, which cannot be read."""

    judge_id = "poisoned"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        class Poison(Verdict):
            @property
            def model_extra(self) -> dict[str, Any] | None:
                raise ZeroDivisionError("poison")

        return Poison.model_construct(**self.passed(case, "fine").__dict__)


class Meddling(Plain):
    """Changes what it was only asked to look at."""

    judge_id = "meddling"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        for event in trace.events:
            event.output = "changed"
            event.attributes["changed"] = True
        case.metadata["changed"] = True
        return self.failed(case, "meddled", FailureKind.CONTRACT_VIOLATION)
