"""Load judges whose verdicts are shown and count nowhere: those that a change adds, until it is merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_eval.contracts import REPLAY_CONTRACT
from agent_eval.errors import AgentEvalError
from agent_eval.judges.base import AdvisoryJudge
from agent_eval.judges.catalog import load_judges


def load_advisory(
    names: Iterable[str], configs: Mapping[str, Any], directory: Path | None
) -> list[AdvisoryJudge]:
    """Load judges whose verdicts are shown and count nowhere. One that cannot be loaded is an error verdict.

    None of them gets a variable that its configuration names in `env`: that may be a secret.

    Args:
        directory: Where their code is; None for the working directory.
    """
    without = {
        name: {key: value for key, value in config.items() if key != "env"}
        for name, config in configs.items()
        if isinstance(config, Mapping)
    }
    without.pop(REPLAY_CONTRACT, None)  # an entry for it would add it
    loaded = []
    for name in names:
        try:
            (judge,) = load_judges([name], without, directory=directory)
        except AgentEvalError as problem:
            loaded.append(AdvisoryJudge(name, None, problem.message))
        else:
            loaded.append(AdvisoryJudge(judge.judge_id, judge))
    return loaded
