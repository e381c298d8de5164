"""agent-eval: judge LLM agents' trajectories, compare with a baseline, gate the release.

Importing `agent_eval` is cheap: it loads nothing beyond the standard library. Import what you need from its
packages, such as `agent_eval.judges`. The names below evaluate conversations from Python; each is imported
when it is first used.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers
    from agent_eval.agents.adapter import AgentAdapter, AgentResponse, create_aui_adapter
    from agent_eval.operations.run_conversations import SuiteOptions, run_suite
    from agent_eval.reports.conversations import format_suite_result
    from agent_eval.suites.paths import get_demo_agents_path, get_package_root, get_quack_agents_path

__version__ = "1.0.0"

__all__ = [
    "AgentAdapter",
    "AgentResponse",
    "SuiteOptions",
    "__version__",
    "create_aui_adapter",
    "format_suite_result",
    "get_demo_agents_path",
    "get_package_root",
    "get_quack_agents_path",
    "run_suite",
]

_MODULE_OF = {
    "AgentAdapter": "agent_eval.agents.adapter",
    "AgentResponse": "agent_eval.agents.adapter",
    "SuiteOptions": "agent_eval.operations.run_conversations",
    "create_aui_adapter": "agent_eval.agents.adapter",
    "format_suite_result": "agent_eval.reports.conversations",
    "get_demo_agents_path": "agent_eval.suites.paths",
    "get_package_root": "agent_eval.suites.paths",
    "get_quack_agents_path": "agent_eval.suites.paths",
    "run_suite": "agent_eval.operations.run_conversations",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    return value
