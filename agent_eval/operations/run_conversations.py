"""`agent_eval.run_suite`: run a suite of conversations from Python, with an agent of one's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from agent_eval.agents.adapter import AdapterAgent, AdapterModel, AgentAdapter
from agent_eval.agents.base import Agent
from agent_eval.config.spec import AgentSpec, Judging, LlmSpec, Output, RunSpec
from agent_eval.contracts.base import digest
from agent_eval.contracts.conversation_result import SuiteResult
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.base import Model
from agent_eval.operations.conversation_results import conversation_results
from agent_eval.operations.models import ModelAccess
from agent_eval.operations.run_agent import OwnParts, run_agent
from agent_eval.suites.aui import AuiDocument
from agent_eval.suites.bundled import bundled_suite, is_bundled_name
from agent_eval.suites.document import parse_header
from agent_eval.suites.reader import SuiteSource, open_suite

ADAPTER = "adapter"
"""Kind of the agent, and provider of the model, that an adapter is."""


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """How `run_suite` runs a suite.

    Example:
        >>> SuiteOptions(loops=3, tags=("critical",)).parallel
        1

    Attributes:
        loops: How often each test is run.
        parallel: How many conversations at once.
        tests: Texts of which the names of the only tests have one, in any letter case; all when empty.
        tags: Tags of which the only tests have one; all when empty.
        pack: Where the evidence pack is written; None for one that is discarded.
    """

    loops: int = 1
    parallel: int = 1
    tests: Sequence[str] = ()
    tags: Sequence[str] = ()
    pack: Path | None = None


def run_suite(
    adapter: AgentAdapter, suite: Mapping[str, Any] | str | Path, options: SuiteOptions | None = None
) -> SuiteResult:
    """Run a suite of conversations, judge it and score it.

    Args:
        adapter: The agent under test, and the model that judges and plays users.
        suite: The suite as an object, the path of its file, or the name of a bundled one.
        options: How it is run; the defaults when None.

    Returns:
        The result; `format_suite_result` writes it as markdown.

    Raises:
        InvalidInput: The suite has faults, or is none of conversations.
        NothingMeasured: No test has such a name and such a tag.
        NotEvaluable: The agent cannot be run at all.
    """
    options = options or SuiteOptions()
    source = _opened(suite)
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as scratch:
        pack = options.pack or Path(scratch) / "pack"
        spec = RunSpec(
            suite=source.path,
            output=Output(pack=pack),
            tests=tuple(options.tests),
            tags=tuple(options.tags),
            agent=AgentSpec(name=ADAPTER, trials=options.loops, parallel=options.parallel, workers=1),
            judging=Judging(llm=LlmSpec(provider=ADAPTER)),
        )
        own_parts = OwnParts(_agent(adapter, source), _AdapterAccess(adapter, source))
        run_agent(spec, environ=os.environ, source=source, own_parts=own_parts)
        result = conversation_results(pack)
    return result if options.pack is not None else result.model_copy(update={"pack": None})


def _opened(suite: Mapping[str, Any] | str | Path) -> SuiteSource:
    if isinstance(suite, Mapping):
        document = AuiDocument(Path("suite.json"), digest(dict(suite)), dict(suite))
        for problem in document.problems:
            raise problem.to_error("the suite", more=0)
        return SuiteSource(document, parse_header(document.raw_header, "the suite", None))
    name = str(suite)
    source = open_suite(bundled_suite(name) if is_bundled_name(name) else Path(suite))
    if not isinstance(source.document, AuiDocument):
        raise InvalidInput(
            f"{name} is a suite of cases, and run_suite is for suites of conversations",
            remedy="Run it with agent_eval.operations.run_agent.run_agent.",
            file=name,
        )
    return source


def _agent(adapter: AgentAdapter, source: SuiteSource) -> Agent:
    named = source.document.agent if isinstance(source.document, AuiDocument) else None
    if named is None:
        raise ValueError("the suite names no agent")
    try:
        key = named.resolved_key(os.environ)
    except UsageError:
        key = ""  # the adapter has its own
    return AdapterAgent(adapter, named.agent_id, key, named.model)


class _AdapterAccess(ModelAccess):
    """The model of an adapter, as a run takes models."""

    def __init__(self, adapter: AgentAdapter, source: SuiteSource) -> None:
        super().__init__(LlmSpec(provider=ADAPTER), {})
        document = source.document
        judge = document.judge_model if isinstance(document, AuiDocument) else None
        self._adapted = AdapterModel(adapter, judge or "")

    @override
    def describe(self) -> dict[str, Any]:
        return self._adapted.describe()

    @override
    def __call__(self) -> Model:
        return self._adapted
