"""Write starter files (`agent-eval init`): `agent-eval.yml`, a suite of two cases, files of CI platforms."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes

SETTINGS, SUITE, SAMPLE, ADAPTER = "agent-eval.yml", "suites/starter_suite.json", "agent.py", "eval_agent.py"
IGNORE, IGNORED = ".gitignore", ("/runs/", "/agent-eval-out/", "__pycache__/")

PLATFORMS = {
    "github": (".github/workflows/agent-eval.yml", "demo/starter/workflow.yml"),
    "gitlab": (".gitlab-ci.yml", "demo/starter/gitlab.yml"),
    "buildkite": (".buildkite/pipeline.yml", "demo/starter/buildkite.yml"),
    "circleci": (".circleci/config.yml", "demo/starter/circleci.yml"),
    "jenkins": ("Jenkinsfile", "demo/starter/Jenkinsfile"),
    "gitlab-pip": (".gitlab-ci.yml", "demo/starter/gitlab-pip.yml"),
    "buildkite-pip": (".buildkite/pipeline.yml", "demo/starter/buildkite-pip.yml"),
    "circleci-pip": (".circleci/config.yml", "demo/starter/circleci-pip.yml"),
    "jenkins-pip": ("Jenkinsfile", "demo/starter/Jenkinsfile-pip"),
}
"""By CI platform the path of its file, and that of the bundled one: it runs the image, or (`-pip`) installs
agent-eval itself."""

ALL = tuple(name for name in PLATFORMS if not name.endswith("-pip"))
"""One file a platform: what `init` writes where it does not know the platform."""

_HOSTS = {
    "github": re.compile(r"(^|[@/.])github\.com[:/]"),
    "gitlab": re.compile(r"[@/.:]gitlab[^/]*[:/]|^gitlab"),
}
_SIGNS = {"github": ".github", **{name: PLATFORMS[name][0] for name in ALL if name != "github"}}

_ACTION = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(/[\w./-]+)?@[0-9a-f]{40}")
_PLACEHOLDER = re.compile(
    r" *# Put here where this action lives[^\n]*\n( *- uses: )your-organisation/agent-eval@0{40}\n"
)
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})")
_PLACEHOLDER_IMAGE = "ghcr.io/your-organisation/agent-eval:v1"
_TO_BE_FILLED_IN = {
    "the action, your-organisation/agent-eval@000…": re.compile(r"uses: your-organisation/agent-eval@0{40}"),
    f"the image, {_PLACEHOLDER_IMAGE}": re.compile(re.escape(_PLACEHOLDER_IMAGE)),
    "what pip installs, AGENT_EVAL_PACKAGE": re.compile(r"AGENT_EVAL_PACKAGE(?:: \"\"| = '')\n"),
}
_TO_FILL_IN = re.compile(
    r"^(?:#|//) Put in place of (?:[^\n]*\n(?:#|//) )*?[^\n]*name@sha256:\.\.\.\n", re.MULTILINE
)
_ID_OF_THE_STEP = re.compile(r"^( +)id: evaluation\n", re.MULTILINE)
_AGENT_IN_SETTINGS = re.compile(r"^agent: [^\n]*\n", re.MULTILINE)
_SETUP_IN_SETTINGS = re.compile(r"^#setup: ", re.MULTILINE)
_OBJECT = """agent:
  run: {}
  env: [OPENAI_API_KEY, OPENAI_BASE_URL] # what its model needs
  keep_alive: true # a conversation goes on in one process
"""
_SETUP_OF_OBJECT = """\
# A job has no packages of yours, and neither has `agent-eval ci` at a terminal. For both, name the framework
# and agent-eval (agent-eval-gate @ git+https://...@COMMIT) in requirements.txt, begin `run` with
# .venv/bin/python, and take the # from this line:
#setup: """
_PLAIN = re.compile(r"[\w./][\w ./@:-]*(?<![ :])")
_MOST_READ = 1 << 20
_BRANCH = re.compile(r"[\w][\w./-]*")


@dataclass(frozen=True)
class StarterAgent:
    """The agent that `agent-eval.yml` names.

    Attributes:
        key: The environment variable of its credentials; None if it is not known to need one.
        function: Module and name of the Python function that a small program calls; None for another agent.
        is_object: Whether it is a program for an agent object, which asks a model itself.
    """

    value: str
    key: str | None = None
    function: tuple[str, str] | None = None
    is_object: bool = False


@dataclass(frozen=True)
class Repository:
    """What is known of the place where the files go.

    Attributes:
        remote: The address of `origin`; None without one.
        branch: The default branch.
    """

    remote: str | None = None
    branch: str = "main"


@dataclass
class Scaffold:
    """What was written, and what is left to a person.

    Attributes:
        to_add: Sentences on files that are there already, and what to add to them.
    """

    written: list[Path] = field(default_factory=list)
    to_add: list[str] = field(default_factory=list)

    def to_fill_in(self) -> list[str]:
        """List what is still to be put into the files, each with the place: nothing where all was given."""
        texts = {str(path): path.read_text(encoding="utf-8") for path in self.written}
        missing = []
        for what, placeholder in _TO_BE_FILLED_IN.items():
            places = [name for name, text in texts.items() if placeholder.search(text)]
            if places:
                missing.append(f"{what} ({', '.join(places)})")
        return missing


def platforms_of(out: Path, repository: Repository) -> tuple[str, ...]:
    """Tell which CI platforms a repository uses, by its remote's host and their files; empty if by none."""
    remote = (repository.remote or "").lower()
    return tuple(
        name
        for name in ALL
        if (out / _SIGNS[name]).exists() or (name in _HOSTS and _HOSTS[name].search(remote))
    )


def scaffold(
    out: Path,
    *,
    platforms: Sequence[str] | None = None,
    agent: StarterAgent | None = None,
    action: str | None = None,
    image: str | None = None,
    repository: Repository | None = None,
    force: bool = False,
) -> Scaffold:
    """Write the starter files below a directory; nothing if one is refused.

    More than six parameters: they are what `init` may be told.

    Args:
        platforms: CI platforms whose files are written; keys of `PLATFORMS`. None for those that the
            repository uses, whose own files stay as they are, or for all where none is known.
        agent: The agent to run; None for a sample, or for recorded traces alone where its place is taken.
        action: Where the action lives, pinned by commit: `owner/repo@sha`; None leaves it to be filled in.
        image: Where the image lives, with its tag or digest; None leaves it to be filled in.

    Raises:
        UsageError: A commit or tag is missing, platforms share a file, or files exist and `force` is false.
    """
    if action is not None and not _ACTION.fullmatch(action):
        raise UsageError(
            f"{action[:200]!r} does not say which commit of which repository the action is",
            remedy="Write it as owner/repository@commit, with all 40 digits of the commit.",
            field="action",
        )
    if image is not None and not _IMAGE.fullmatch(image):
        raise UsageError(
            f"{image[:200]!r} does not say which image",
            remedy="Give it a digest, as registry/name@sha256:..., or a tag, as registry/name:v1.",
            field="image",
        )
    repository, result = repository or Repository(), Scaffold()
    contents = _own_files(out, agent)
    detected = platforms_of(out, repository) if platforms is None else ()
    for name in detected or (ALL if platforms is None else platforms):
        standard, bundled = PLATFORMS[name]
        is_taken = name in detected and name != "github" and (out / standard).exists()
        place = _beside(name, standard, result) if is_taken else standard
        if place is None:
            continue
        if place in contents:
            raise UsageError(
                f"{' and '.join(platforms or ())}: {place} is the file of two of them",
                remedy="Choose one of them.",
                field="ci",
            )
        contents[place] = _of_platform(_bundled(bundled), agent, action, image, repository.branch)
    existing = [str(out / name) for name in contents if name != IGNORE and _is_there(out / name)]
    if existing and not force:
        raise UsageError(
            f"already there: {', '.join(existing)}",
            remedy="Choose another directory with --out, or overwrite them with --force.",
            file=existing[0],
            files=existing,
        )
    for name, text in contents.items():
        write_file(out / name, text.encode())
        result.written.append(out / name)
    return result


def _own_files(out: Path, agent: StarterAgent | None) -> dict[str, str]:
    """Make the files that every repository gets. What else is called as the sample agent is left alone."""
    settings = _bundled("demo/starter/agent-eval.yml")
    contents = {SETTINGS: settings, SUITE: _bundled("demo/starter/starter_suite.json")}
    if agent is not None:
        value = agent.value if _PLAIN.fullmatch(agent.value) else json.dumps(agent.value, ensure_ascii=False)
        stated = _OBJECT.format(value) if agent.is_object else f"agent: {value}\n"
        if agent.is_object:
            settings = _SETUP_IN_SETTINGS.sub(_SETUP_OF_OBJECT, settings)
        contents[SETTINGS] = _AGENT_IN_SETTINGS.sub(lambda _: stated, settings)
        contents[SUITE] = _bundled("demo/starter/agent_suite.json")
        if agent.function is not None:
            module, name = agent.function
            adapter = _bundled("demo/starter/function_agent.txt")
            contents[ADAPTER] = adapter.replace("MODULE", module).replace("FUNCTION", name)
    elif _text(out / SAMPLE) in (None, sample := _bundled("demo/starter/sample_agent.txt")):
        contents[SAMPLE] = sample
    else:
        contents[SETTINGS] = _AGENT_IN_SETTINGS.sub(lambda match: f"#{match[0]}", settings)
    ignored = _text(out / IGNORE) or ""
    if missing := [line for line in IGNORED if line not in ignored.splitlines()]:
        gap = "" if ignored.endswith("\n") or not ignored else "\n"
        contents[IGNORE] = f"{ignored}{gap}" + "".join(f"{line}\n" for line in missing)
    return contents


def _beside(platform: str, place: str, result: Scaffold) -> str | None:
    """Choose where a job goes beside a file of the user's own, and say what to add; None for nowhere."""
    if platform == "gitlab":
        own = ".gitlab/agent-eval.yml"
        result.to_add.append(f"Add to {place}: include: [{{local: {own}}}]")
        return own
    result.to_add.append(
        f"Add to {place} the job that `agent-eval init --ci {platform} --out DIRECTORY` writes."
    )
    return None


def _text(path: Path) -> str | None:
    return read_bytes(path, max_bytes=_MOST_READ).decode("utf-8", "replace") if _is_there(path) else None


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _bundled(name: str) -> str:
    return (files("agent_eval") / name).read_text(encoding="utf-8")


def _of_platform(
    text: str, agent: StarterAgent | None, action: str | None, image: str | None, branch: str
) -> str:
    """Fill in what is known: action, image, the default branch, and the variable of the agent's key."""
    if action is not None:
        text = _PLACEHOLDER.sub(rf"\g<1>{action}\n", text)
    if image is not None:
        text = _TO_FILL_IN.sub("", text).replace(_PLACEHOLDER_IMAGE, image)
    if _BRANCH.fullmatch(branch):
        text = text.replace("branches: [main]", f"branches: [{branch}]")
    if agent is not None and agent.key:
        secret = (
            f'env: {{ {agent.key}: "${{{{ secrets.{agent.key} }}}}" }} # empty for a change from a fork\n'
        )
        text = _ID_OF_THE_STEP.sub(lambda match: f"{match[0]}{match[1]}{secret}", text)
    return text
