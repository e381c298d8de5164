"""Make the baseline that the demonstration of conversations comes with.

`python -m tests.demo_baseline` makes it anew, outside of the checkout, so that it names no commit.
"""

import os
import tempfile
from contextlib import chdir
from pathlib import Path

from agent_eval.ci.demonstration import BUNDLED_BASELINE, write_conversation_inputs
from agent_eval.config.spec import AgentSpec, Identity, Judging, LlmSpec, Output, RunSpec
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.run_agent import run_agent
from agent_eval.storage.files import safe_name
from agent_eval.suites.aui_faults import KEY_VARIABLE

PLACE = Path(__file__).parents[1] / "agent_eval" / "demo" / BUNDLED_BASELINE
ENVIRON = {
    "AGENT_EVAL_CLOCK": "2026-11-22T12:00:00+00:00",
    "PATH": os.environ.get("PATH", ""),
    KEY_VARIABLE: "any-key-will-do",
}


def main() -> None:
    """Write the archive into the package."""
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, chdir(place), DemoServer(DemoAgents()) as server:
        suite, script = write_conversation_inputs(Path(place))
        pack = Path(place) / "pack"
        spec = RunSpec(
            suite=suite,
            output=Output(pack=pack, layout="compact"),
            agent=AgentSpec(base_url=server.url, parallel=8),
            judging=Judging(llm=LlmSpec(provider="scripted", script=script)),
            identity=Identity(run_id="before"),
        )
        run_agent(spec, environ=ENVIRON)
        write_bundle({safe_name("HR Assistant"): pack}, PLACE)


if __name__ == "__main__":
    main()
