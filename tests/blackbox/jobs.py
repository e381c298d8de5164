"""One repository on each CI platform, whose job is the installed program.

The platforms, their runners and the APIs on localhost are those of the end-to-end tests.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.blackbox.installed import Ended, Program
from tests.e2e.platforms import KINDS, CiPlatform, platform
from tests.e2e.runner import orders
from tests.factories import make_suite
from tests.fakes.git_host import commit, git

LINE = "agent-eval ci --suite suite.json --max-regressed-cases 0"
CASES = ("order-1", "order-2", "order-3", "order-4")
PLATFORMS = (*KINDS, "outside")
WITHOUT_COMMENTS = ("circleci", "jenkins", "outside")


class Job:
    """The repository's job. `escalates` says whether the agent does in all cases what it must not."""

    def __init__(self, program: Program, top: Path) -> None:
        self.program, self.top = program, top
        self.environ: Mapping[str, str] = {}
        """Variables of the last job."""

    def run(self, environ: Mapping[str, str], command: object = None, *more: str) -> tuple[int, str]:
        """Run the job in the checkout; in place of what the runners of other tests run."""
        self.environ = environ
        ended: Ended = self.program.run([*LINE.split(), *more], self.top, environ)
        return ended.code, str(ended)

    def push(self) -> tuple[int, str]:
        """Run the job of main, and keep its evidence as the platform does."""
        raise NotImplementedError

    def change(self, number: int, *, escalates: bool) -> tuple[int, str]:
        """Run job `number` of a change into main."""
        raise NotImplementedError

    def outcome(self) -> str:
        """What a later step reads of the last job where it can; else what the evidence says."""
        output, env = self.environ.get("GITHUB_OUTPUT"), self.file("agent-eval.env")
        if output is not None:
            return re.findall(r"^outcome<<(\S+)\n(.*)\n\1$", Path(output).read_text(), re.MULTILINE)[0][1]
        if env.is_file() and "GITLAB_CI" in self.environ:
            return re.findall(r"outcome=\"?([a-z-]+)", env.read_text(), re.IGNORECASE)[0]
        decision = self.file("shop/compare/gate_decision.json")
        return json.loads(decision.read_text())["gate_status"] if decision.is_file() else "no-baseline"

    def comments(self) -> list[str]:
        """What the job wrote on the change."""
        return []

    def file(self, name: str) -> Path:
        """A file of the job's directory of results."""
        return self.top / "agent-eval-out" / name


class OnPlatform(Job):
    """The job of a platform."""

    def __init__(self, program: Program, ci: CiPlatform) -> None:
        super().__init__(program, ci.workspace)
        self.ci = ci
        ci.runner.execute = self.run
        if ci.name == "github":
            ci.runner.commits_files = True

    def push(self) -> tuple[int, str]:
        self.ci.write_suite(*orders())
        ended = self.ci.push()
        return ended.code, ended.text

    def change(self, number: int, *, escalates: bool) -> tuple[int, str]:
        self.ci.write_suite(*orders(bad=(1, 2, 3, 4) if escalates else ()))
        ended = self.ci.change(number)
        return ended.code, ended.text

    def comments(self) -> list[str]:
        return list(self.ci.do("comments"))


class Outside(Job):
    """The job outside of any platform: the store of baselines is a directory."""

    def __init__(self, program: Program, root: Path) -> None:
        super().__init__(program, root / "checkout")
        self.store = ("--baseline-store", str(root / "store"))
        commit(self.top, **{".gitignore": "agent-eval-out/\n"})
        git(self.top, "clone", "--quiet", "--bare", ".", str(root / "origin.git"))
        git(self.top, "remote", "add", "origin", str(root / "origin.git"))

    def _run(self, *, escalates: bool) -> tuple[int, str]:
        suite = make_suite(*orders(bad=(1, 2, 3, 4) if escalates else ()))
        commit(self.top, **{"suite.json": json.dumps(suite)})
        git(self.top, "push", "--quiet", "--set-upstream", "origin", "HEAD")
        return self.run({"GIT_CONFIG_NOSYSTEM": "1"}, None, *self.store)

    def push(self) -> tuple[int, str]:
        return self._run(escalates=False)

    def change(self, number: int, *, escalates: bool) -> tuple[int, str]:
        git(self.top, "switch", "--quiet", "--create", f"topic-{number}", "main")
        return self._run(escalates=escalates)

    def outcome(self) -> str:
        newest = max((Path(self.store[1]) / "runs").iterdir(), key=lambda run: int(run.name))
        return str(json.loads((newest / "outputs.json").read_text())["outcome"])


@contextmanager
def job_on(name: str, root: Path, program: Program) -> Iterator[Job]:
    """Start a platform on localhost, with a repository whose main has one commit."""
    if name == "outside":
        yield Outside(program, root)
    else:
        with platform(name, root) as ci:
            yield OnPlatform(program, ci)
