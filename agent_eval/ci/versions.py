"""The files that judge and decide: as a change has them, as the tip has them, and how these differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.place import JobPlace
from agent_eval.ci.seal import as_code
from agent_eval.config.spec import Judging
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.judges.code import words_of_command
from agent_eval.storage import json
from agent_eval.storage.files import read_bytes
from agent_eval.storage.yaml import parse_yaml
from agent_eval.text.escape import one_line

MAX_BYTES = 64 << 20
MOST_DIFF_LINES = 200
NAME_LIMIT = 200


class RuleChange(NamedTuple):
    """A file of the rules that the change alters, as the settings name it, and how.

    `path` is in the repository, for people to read; `diff` the lines of a unified diff, cut to a bound;
    `judge` the one that the file belongs to, empty for none.
    """

    file: Path
    path: str
    diff: tuple[str, ...]
    judge: str

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        return f"judge {as_code(self.judge)} ({self.path})" if self.judge else as_code(self.path)


@dataclass(frozen=True)
class Versions:
    """Reads a file as the change has it, and as the tip of the trusted branch has it.

    Without a place the job is outside of a repository, where the files of the disk count. `is_reported` says
    that it reports on what another run left, with nothing of the change checked out.
    """

    place: JobPlace | None
    clone: PrivateClone | None
    is_reported: bool = False
    from_fork: bool = False

    @property
    def is_change(self) -> bool:
        """Whether what is checked out is judged by the tip's rules, not by its own."""
        if self.place is None or self.clone is None:
            return False
        return self.from_fork or not self.place.is_reviewed

    def tips(self, path: Path, *, default_branch: bool = False) -> bytes | None:
        """Read a file as of the tip; one outside of the repository is the file itself. None without one."""
        where = self.where(path)
        if self.place is None or self.clone is None or where is None:
            return self.own(path)
        return self.clone.file(where, self.place.default_tip if default_branch else self.place.tip)

    def own(self, path: Path) -> bytes | None:
        """Read a file as it is checked out; None without one. It must be regular, and not too large."""
        if self.is_reported and self.where(path) is not None:
            return None
        if self.is_change and self.where(path) is not None and path.is_symlink():
            raise InvalidInput(
                f"{path} is a link, which a change may lead anywhere.",
                remedy="Commit the file itself.",
                file=str(path),
            )
        return read_bytes(path, max_bytes=MAX_BYTES) if path.exists() else None

    def where(self, path: Path) -> str | None:
        """The path relative to the repository, with `/`; None for a file outside of it."""
        if self.clone is None:
            return None
        top = Path.cwd() if self.is_reported else self.clone.top
        place = os.path.relpath(os.path.abspath(path), top)
        return None if place.startswith("..") else Path(place).as_posix()

    def is_altered(self, path: Path) -> bool:
        """Whether the change has another version than tip and base; what main alone altered is not meant."""
        own = self.own(path)
        if own == self.tips(path):
            return False
        where = self.where(path)
        if self.place is None or self.clone is None or where is None:
            return True
        return own != self.clone.file(where, self.place.base)


def rule_changes(versions: Versions, files: Mapping[Path, str]) -> list[RuleChange]:
    """Show how the change alters files that judge or decide, each with the judge that it belongs to."""
    changes = []
    for path, judge in files.items():
        where = versions.where(path)
        if where is None or not versions.is_altered(path):
            continue
        texts = (versions.tips(path), versions.own(path))
        before, after = ((data or b"").decode("utf-8", "replace").splitlines() for data in texts)
        lines = [*unified_diff(before, after, f"main/{where}", f"change/{where}", lineterm="")]
        cut = lines[:MOST_DIFF_LINES]
        more = [f"… {len(lines) - len(cut)} more lines"] if len(lines) > len(cut) else []
        changes.append(RuleChange(path, one_line(where, limit=NAME_LIMIT), (*cut, *more), judge))
    return changes


def files_of_judges(judging: Judging, versions: Versions) -> dict[Path, str]:
    """Find the files of the tip that are its judges, or that their commands name; each with its judge.

    What these import is not seen.
    """
    words: list[tuple[str, str]] = []
    files = {}
    for name in judging.judges:
        module = name.partition(":")[0].replace(".", "/")
        words += [(name, f"{module}.py"), (name, f"{module}/__init__.py")] if ":" in name else []
    for key, config in _judge_configs(judging.judge_config, versions).items():
        command = config.get("command") if isinstance(config, dict) else None
        words += [(str(key), word) for word in sorted(words_of_command(command))]
    for name, word in words:
        with suppress(AgentEvalError, OSError, ValueError):  # the word can be no path
            if versions.where(Path(word)) is not None and versions.tips(Path(word)) is not None:
                files[Path(word)] = name
    return files


def _judge_configs(path: Path | None, versions: Versions) -> dict[object, object]:
    """Read the tip's configuration of judges; one that cannot be read is refused where judges are loaded."""
    try:
        data = versions.tips(path) if path is not None else None
        parse = parse_yaml if path is not None and path.suffix in (".yaml", ".yml") else json.parse
        configs = parse(data, source=str(path)) if data is not None else {}
    except AgentEvalError:
        return {}
    return configs if isinstance(configs, dict) else {}
