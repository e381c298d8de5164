"""The composite variant of the action, whose steps are run as a runner runs them."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.program import environment, write_program
from tests.e2e.runner import PULL, Runner, orders
from tests.fakes.composite import CompositeAction
from tests.fakes.github import FakeGitHub

ROOT = Path(__file__).parents[2]
PYTHON = """\
#!/bin/bash
# `python3 -I -m venv DIR` makes DIR/bin/python3, which installs nothing and runs agent-eval.
[ "$1 $2 $3" = "-I -m venv" ] || { echo "the job's python3: $*"; exit 9; }
mkdir -p "$4/bin"
cat > "$4/bin/python3" <<'END'
#!/bin/bash
case "$*" in
"-I -m pip install "*) shift 4; echo "$@" >> INSTALLED ;;
"-IBu -m agent_eval "*) shift 3; exec PROGRAM "$@" ;;
*) echo "the environment's python3: $*"; exit 9 ;;
esac
END
chmod +x "$4/bin/python3"
"""


class CompositeRunner(Runner):
    """Runs the composite action where the other runs the program."""

    def __init__(self, root: Path, github: FakeGitHub) -> None:
        super().__init__(root, github)
        self.programs, self.temporary = root / "programs", root / "temporary"
        for directory in (self.programs, self.temporary):
            directory.mkdir()
        program = self.programs / "program"
        self.inherited = write_program(program)
        # The usual /bin/sh would drop variables with a hyphen; in a job nothing but bash is in between.
        program.write_text(program.read_text().replace("#!/bin/sh", "#!/bin/bash"))
        self.installed = root / "installed"
        python = PYTHON.replace("PROGRAM", str(self.programs / "program"))
        (self.programs / "python3").write_text(python.replace("INSTALLED", str(self.installed)))
        (self.programs / "python3").chmod(0o755)

    def execute(self, environ: dict[str, str], command: tuple[str, ...]) -> tuple[int, str]:
        inputs = {
            name.removeprefix("INPUT_").lower(): value
            for name, value in environ.items()
            if name.startswith("INPUT_")
        }
        kept = {name: value for name, value in environ.items() if not name.startswith("INPUT_")}
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        action = CompositeAction(ROOT / "ci-templates" / "composite" / "action.yml", self.temporary)
        code, log, outputs = action.run(
            inputs, {**environment(kept), "PATH": path}, cwd=self.workspace, pass_fds=self.inherited
        )
        written = "".join(f"{name}<<END\n{value}\nEND\n" for name, value in outputs.items())
        Path(environ["GITHUB_OUTPUT"]).write_text(written)
        return code, log


@pytest.fixture
def runner(tmp_path: Path, github: FakeGitHub) -> CompositeRunner:
    return CompositeRunner(tmp_path, github)


def test_composite__gates_comments_and_hands_the_outputs_out(runner: CompositeRunner) -> None:
    runner.write_suite(*orders())
    first = runner.push()
    assert (first.code, first.outcome) == (0, "no-baseline"), first.log
    runner.upload(first, 400)
    assert runner.pull_request().outcome == "passed"
    runner.write_suite(*orders(bad=(2,)))
    worse = runner.pull_request(run_id=501)
    assert (worse.code, worse.outcome, worse.outputs["regressed-cases"]) == (1, "failed", "1"), worse.log
    assert worse.outputs["passed"] == "false"
    assert (runner.workspace / worse.outputs["report"]).exists()
    [comment] = runner.github.bodies(PULL)
    assert "order\\-2" in comment or "order-2" in comment


def test_composite__installs_by_hash_and_then_itself_without_the_network(runner: CompositeRunner) -> None:
    runner.write_suite(*orders())
    runner.push()
    locked, itself = runner.installed.read_text().splitlines()
    words = locked.split()
    assert {"--require-hashes", "--no-deps"} <= set(words)
    files = [Path(words[at + 1]) for at, word in enumerate(words) if word == "--requirement"]
    assert [file.name for file in files] == ["build.lock", "runtime.lock"]
    assert all(file.exists() for file in files)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(itself.split())
    assert (Path(itself.split()[-1]) / "pyproject.toml").samefile(ROOT / "pyproject.toml")


def test_composite__the_agent_runs_with_what_the_job_installed(runner: CompositeRunner) -> None:
    tools = runner.root / "tools"
    tools.mkdir()
    (tools / "agent-of-the-job").write_text(
        f"#!{sys.executable} -SE\nimport json, sys\njson.dump({{'assistant_output': 'hello'}}, sys.stdout)\n"
    )
    (tools / "agent-of-the-job").chmod(0o755)
    shutil.copy(tools / "agent-of-the-job", runner.programs)
    runner.write_suite({"case_id": "hello", "input": "Say hello.", "expected": {"contains": ["hello"]}})
    step = runner.push(agent="command:agent-of-the-job", min_pass_rate="0")
    assert step.code == 0, step.log


def test_composite__an_installation_that_fails_evaluates_nothing(runner: CompositeRunner) -> None:
    (runner.programs / "python3").write_text("#!/bin/sh\necho no Python >&2; exit 3\n")
    runner.write_suite(*orders())
    step = runner.push()
    assert (step.code, step.outcome) == (3, "")
    assert not (runner.workspace / "agent-eval-out").exists()
