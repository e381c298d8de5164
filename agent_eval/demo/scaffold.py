"""Write starter files: a suite, configuration, and the files of CI platforms (`agent-eval init`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.atomic import write_file

SCAFFOLD = {
    "suites/starter_suite.json": "demo/starter/starter_suite.json",
    "config/judges.json": "demo/starter/judges.json",
    "config/gate.yml": "demo/starter/gate.yml",
    "agent-eval.yml": "demo/starter/agent-eval.yml",
    ".agent_eval/schemas/suite.schema.json": "schemas/suite.schema.json",
    ".agent_eval/schemas/gate_policy.schema.json": "schemas/gate_policy.schema.json",
}
"""Path of each file below the target directory, with that of the bundled file in the package."""

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
"""The same for each CI platform: a job that runs the image, or (`-pip`) that installs agent-eval itself."""

ALL = tuple(name for name in PLATFORMS if not name.endswith("-pip"))
"""One file a platform: what `init` writes unless it is asked for some."""

SUITE_FOR_AN_AGENT = "demo/starter/agent_suite.json"
"""The suite in place of the one with recorded traces, where there is an agent to run."""

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
_COMMAND_IN_SETTINGS = re.compile(r"^#agent: [^\n]*\n", re.MULTILINE)
_VARIABLES = re.compile(r"^(env:| +variables:| +environment:| +environment \{)\n( +)", re.MULTILINE)
"""Where a platform's file lists the variables of its job, up to the indent of the first."""
_BEFORE_THE_STEPS = re.compile(r"^(?=# Buildkite replaces variables )", re.MULTILINE)
"""Where Buildkite's file lists them, if it has none yet."""
_CHECKOUT_OF_THE_WORKFLOW = re.compile(r"with: \{ (?=persist-credentials: )([^\n]*)")
_ID_OF_THE_STEP = re.compile(r"^( +)id: evaluation\n", re.MULTILINE)


@dataclass(frozen=True)
class StarterAgent:
    """The agent that the starter files run.

    Attributes:
        option: The input of the CI job that names it.
        key: The environment variable of its credentials; empty if it is not known to need one.
        in_settings: Whether `agent-eval.yml` names it; otherwise the file of the CI platform does.
    """

    option: str
    value: str
    key: str = ""
    in_settings: bool = False

    @property
    def variable(self) -> str:
        """The environment variable of the input."""
        return f"AGENT_EVAL_{self.option.upper().replace('-', '_')}"


def scaffold(
    out: Path,
    *,
    platforms: Sequence[str] = ("github",),
    agent: StarterAgent | None = None,
    action: str | None = None,
    image: str | None = None,
    force: bool = False,
) -> list[Path]:
    """Write the starter files below a directory; nothing if one is refused.

    Args:
        platforms: CI platforms whose files are written too; keys of `PLATFORMS`.
        agent: The agent that CI runs; None to judge the recorded traces of the suite.
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
    _refuse_two_for_one_file(platforms)
    contents = {out / place: data for place, data in _contents(platforms, agent, action).items()}
    if image is not None:
        contents = {path: _with_image(data, image) for path, data in contents.items()}
    existing = [str(path) for path in contents if path.exists() or path.is_symlink()]
    if existing and not force:
        raise UsageError(
            f"already there: {', '.join(existing)}",
            remedy="Choose another directory with --out, or overwrite them with --force.",
            file=existing[0],
            files=existing,
        )
    for path, data in contents.items():
        write_file(path, data.encode())
    return list(contents)


def to_fill_in(written: Sequence[Path]) -> list[str]:
    """List what is still to be put into the files, each with the place: nothing where all was given."""
    texts = {str(path): path.read_text(encoding="utf-8") for path in written}
    missing = []
    for what, placeholder in _TO_BE_FILLED_IN.items():
        places = [name for name, text in texts.items() if placeholder.search(text)]
        if places:
            missing.append(f"{what} ({', '.join(places)})")
    return missing


def _refuse_two_for_one_file(platforms: Sequence[str]) -> None:
    by_place: dict[str, str] = {}
    for name in platforms:
        place, _ = PLATFORMS[name]
        other = by_place.setdefault(place, name)
        if other != name:
            raise UsageError(
                f"{other} and {name} are the same file, {place}",
                remedy="Choose one of them.",
                field="ci",
            )


def _with_image(text: str, image: str) -> str:
    """Name the image, and leave out what says that it is still to be named."""
    return _TO_FILL_IN.sub("", text).replace(_PLACEHOLDER_IMAGE, image)


def _contents(platforms: Sequence[str], agent: StarterAgent | None, action: str | None) -> Mapping[str, str]:
    """Make the text of every file, by its path below the target directory."""
    places = dict(SCAFFOLD)
    if agent is not None:
        places["suites/starter_suite.json"] = SUITE_FOR_AN_AGENT
    contents = {place: _bundled(name) for place, name in places.items()}
    if agent is not None and agent.in_settings:
        named = f"agent: {_quoted(agent.value)}\n"
        contents["agent-eval.yml"] = _COMMAND_IN_SETTINGS.sub(lambda _: named, contents["agent-eval.yml"])
    for platform in platforms:
        place, name = PLATFORMS[platform]
        text = _bundled(name)
        if action is not None:
            text = _PLACEHOLDER.sub(rf"\g<1>{action}\n", text)
        contents[place] = text if agent is None else _running(text, agent)
    return contents


def _bundled(name: str) -> str:
    return (files("agent_eval") / name).read_text(encoding="utf-8")


def _running(text: str, agent: StarterAgent) -> str:
    """Make a platform's file run the agent, where it judged recorded traces."""
    if agent.option == "agent-command":
        # On the other platforms the whole history is in the checkout anyway.
        text = _CHECKOUT_OF_THE_WORKFLOW.sub(
            r"with: { fetch-depth: 0, \1 # with the merge base, whose agent runs again what newly fails", text
        )
    if agent.key:
        secret = f"env:\n  {agent.key}: ${{{{ secrets.{agent.key} }}}} # empty for a change from a fork\n"
        text = _ID_OF_THE_STEP.sub(lambda match: match[0] + _indented(secret, match[1]), text)
    if not agent.in_settings:
        text = _naming(text, agent)
    text = text.replace(
        "Judges the agent's recorded traces on every", "Runs the agent and judges it on every"
    )
    return text.replace(
        ": judges the recorded traces of a suite on every change, compares them",
        ": runs the agent over a suite on every change, compares the results",
    )


def _naming(text: str, agent: StarterAgent) -> str:
    """Name the agent in a platform's file: as an input of the action, or a variable of the job."""
    inputs = f"with:\n  {agent.option}: {_quoted(agent.value)}\n"
    text = _ID_OF_THE_STEP.sub(lambda match: match[0] + _indented(inputs, match[1]), text)

    def variable(match: re.Match[str]) -> str:
        if match[1].endswith("{"):
            return f"{match[1]}\n{match[2]}{agent.variable} = {_groovy(agent.value)}\n{match[2]}"
        return f"{match[1]}\n{match[2]}{agent.variable}: {_quoted(agent.value)}\n{match[2]}"

    if _VARIABLES.search(text):
        return _VARIABLES.sub(variable, text)
    return _BEFORE_THE_STEPS.sub(lambda _: f"env:\n  {agent.variable}: {_quoted(agent.value)}\n\n", text)


def _quoted(value: str) -> str:
    """Write a value of YAML in double quotes."""
    return json.dumps(value, ensure_ascii=False)


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


def _groovy(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
