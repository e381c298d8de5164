"""The access that git has to the remote of a checkout, as it is before any code of a change runs there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child

REMOTE = "origin"

_ACCESS = ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND")
_OF_THE_ACCESS = re.compile(
    rf"core\.(sshcommand|gitproxy)|ssh\.variant|(http|credential|url|protocol)\..+"
    rf"|remote\.{REMOTE}\.(url|pushurl|uploadpack|receivepack|proxy|proxyauthmethod)",
    re.DOTALL,
)
_HARDENED = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_NO_QUESTIONS = {"GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1"}


@dataclass(frozen=True)
class NotedRemote:
    """The remote of a checkout: its address, and the settings by which git reaches it.

    Code that runs in the checkout can write its configuration and hooks. What is noted here before is used
    with a repository of its own, where git reads no other configuration and runs no hook.

    Example:
        `NotedRemote.of(Path.cwd(), os.environ, ChildLimits()).is_known`

    Attributes:
        top: The top of the checkout, to which the address may be relative.
        environ: What git sees of the environment variables.
        settings: Name and value of each setting of the access, in git's order.
        object_format: The hash by which objects are named.
        limits: Of each call of git.
    """

    top: Path
    environ: Mapping[str, str]
    settings: tuple[tuple[str, str], ...]
    object_format: str
    limits: ChildLimits

    @classmethod
    def of(cls, checkout: Path, environ: Mapping[str, str], limits: ChildLimits) -> NotedRemote:
        """Note the remote of a checkout.

        Args:
            checkout: A directory in it.
            environ: The environment variables.
            limits: Of each call of git.

        Raises:
            AgentEvalError: Git cannot be run.
        """
        start = checkout.resolve()
        top = next((at for at in (start, *start.parents) if (at / ".git").exists()), start)
        seen = {**allowed_environment(environ, (*_ACCESS, "GIT_CONFIG_GLOBAL")), **_NO_QUESTIONS}

        def output(*arguments: str) -> str:
            argv = ["git", *_HARDENED, "-c", f"safe.directory={top}", *arguments]
            done = run_child(argv, env=seen, limits=limits, cwd=top)
            return done.stdout.decode("utf-8", "surrogateescape") if done.failure is None else ""

        listed = output("config", "--list", "-z", "--includes").split("\0")
        settings = (entry.partition("\n") for entry in listed)
        return cls(
            top,
            {**allowed_environment(environ, _ACCESS), **_NO_QUESTIONS},
            tuple(
                # A setting without a value is a switch that is on.
                (name, value if is_set else "true")
                for name, is_set, value in settings
                if _OF_THE_ACCESS.fullmatch(name)
            ),
            output("rev-parse", "--show-object-format").strip() or "sha1",
            limits,
        )

    @property
    def is_known(self) -> bool:
        """Whether the checkout has such a remote."""
        return any(name == f"remote.{REMOTE}.url" for name, _ in self.settings)

    @contextmanager
    def repository(self) -> Iterator[OwnRepository]:
        """Make an empty repository that is removed in the end.

        Raises:
            AgentEvalError: Git cannot be run.
        """
        with TemporaryDirectory(prefix="agent-eval-history-") as folder:
            own = OwnRepository(self, Path(folder) / "git")
            own.git("init", "--quiet", "--bare", "--template=", f"--object-format={self.object_format}")
            yield own


class OwnRepository:
    """A repository beside the checkout, in which git knows a noted remote and nothing else.

    Example:
        `with noted.repository() as own: own.git("ls-remote", REMOTE).stdout` lists the remote's references.

    Args:
        noted: The remote.
        home: Directory of the repository.
    """

    def __init__(self, noted: NotedRemote, home: Path) -> None:
        self._top, self._limits = noted.top, noted.limits
        self._environ = {
            **noted.environ,
            **_as_variables(noted.settings),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(home),
        }

    def git(self, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None) -> ChildResult:
        """Run git.

        Args:
            arguments: Its command.
            stdin: What it reads.
            more: Further variables.

        Raises:
            AgentEvalError: It cannot be run.
        """
        return run_child(
            ["git", *_HARDENED, *arguments],
            stdin=stdin,
            env={**self._environ, **(more or {})},
            limits=self._limits,
            cwd=self._top,
        )


def _as_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Write settings as the variables from which git takes them."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
