"""Buildkite's pipeline in shards: the step that writes the others, each shard, and the decision on all."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.errors import ExitCode
from tests.contract.test_ci_files import complain
from tests.contract.test_ci_templates import InShell, at_work, place
from tests.extent import WHOLE_JOB
from tests.fakes.buildkite_upload import uploaded
from tests.unit.ci.platforms.builds import BuildRunner

TEMPLATE = Path(__file__).parents[2] / "ci-templates" / "buildkite-shards.yml"
LEFT = ("shards", "merged", ".agent-eval")
AGENT = """\
import json, sys
task = json.load(sys.stdin)
tools = {tools}
calls = [{{"tool": name, "arguments": {{}}}} for name in tools]
json.dump({{"assistant_output": "It is on its way.", "tool_calls": calls}}, sys.stdout)
"""


def case(number: int) -> dict[str, Any]:
    return {
        "case_id": f"order-{number}",
        "input": f"Where is order {number}?",
        "policy": {"required_tools": ["lookup_order"]},
        "metadata": {"tool_responses": {"lookup_order": {"status": "shipped"}}},
    }


class InShards(InShell):
    """Runs the first step, and then what it uploaded: each shard, and the last step."""

    def __init__(self, root: Path, agent: Path) -> None:
        super().__init__(root, [])
        self.pipeline: dict[str, Any] = {}
        self._kept = root / "pipeline.yml"
        self._write(
            "buildkite-agent",
            f"""case "$1 $2" in
"pipeline upload") [ "$3" = --no-interpolation ] && cat > {self._kept} ;;
"artifact download") [ -d shards ] ;;
*) exec {agent} "$@" ;;
esac""",
        )

    def execute(self, environ: dict[str, str]) -> tuple[int, str]:
        # Buildkite's agent cleans the checkout before each job.
        shutil.rmtree("agent-eval-out", ignore_errors=True)
        (first,) = yaml.safe_load(uploaded(TEMPLATE.read_text(), {}))["steps"]
        code, log = self._step(first["command"], environ, {})
        if code:
            return code, log
        self.pipeline = yaml.safe_load(self._kept.read_text())
        shard, last = self.pipeline["steps"]
        for number in range(shard["parallelism"]):
            of_shard = {
                "BUILDKITE_PARALLEL_JOB": str(number),
                "BUILDKITE_PARALLEL_JOB_COUNT": str(shard["parallelism"]),
            }
            code, more = self._step("\n".join(shard["command"]), environ, of_shard)
            assert code == 0, more
            log += more
        code, more = self._step("\n".join(last["command"]), environ, {})
        for name in LEFT:
            shutil.rmtree(name, ignore_errors=True)
        return code, log + more

    def _step(self, script: str, environ: dict[str, str], of_step: Mapping[str, str]) -> tuple[int, str]:
        self.script = script
        return super().execute({**environ, "EVALUATION_SHARDS": "3", **of_step})


def write_agent(runner: BuildRunner, *tools: str) -> None:
    (runner.repository.top / "agent.py").write_text(AGENT.format(tools=json.dumps(tools)))


@WHOLE_JOB
def test_shards_are_decided_on_as_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unused").mkdir()
    with place("buildkite", tmp_path) as (runner, push, change):
        runner.write_suite(*(case(number) for number in range(1, 9)))
        write_agent(runner, "lookup_order")
        runner.base = runner.repository.commit()
        runner.repository.push("main")
        at_work("buildkite.yml", tmp_path / "unused", runner)
        shell = InShards(tmp_path, tmp_path / "bin" / "buildkite-agent")
        shell.more = {"AGENT_EVAL_AGENT": f"{sys.executable} -S -E agent.py"}
        runner.execute = shell.execute  # type: ignore[method-assign]
        monkeypatch.chdir(runner.repository.top)
        first = push(400)
        assert first.code == ExitCode.OK, first.log
        assert complain("buildkite", shell.pipeline) == []
        unchanged = change()
        assert unchanged.code == ExitCode.OK, unchanged.log
        assert "merge base" in unchanged.report
        write_agent(runner)
        worse = change()
        assert worse.code == ExitCode.NO, worse.log
        assert "order-8" in worse.report


@pytest.mark.parametrize(
    ("shards", "count"), [("", 4), ("12", 12), ("x", 0), ("1/", None), ("4; touch pwned", None)]
)
def test_no_number_of_shards_and_nothing_is_uploaded(shards: str, count: int | None, tmp_path: Path) -> None:
    shell = InShell(tmp_path, [])
    shell._write("buildkite-agent", "cat")
    (step,) = yaml.safe_load(uploaded(TEMPLATE.read_text(), {}))["steps"]
    shell.script = f"cd {tmp_path}; {step['command']}"
    shell.more = {"EVALUATION_SHARDS": shards}
    code, log = shell.execute({"PATH": "/usr/bin:/bin"})
    assert not list(tmp_path.rglob("pwned"))
    if count is None:
        assert code != 0
    else:
        assert (code, yaml.safe_load(log)["steps"][0]["parallelism"]) == (0, count)
