"""The comment of an evaluation as a markdown file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from agent_eval.ci.comment import Comment
from agent_eval.errors import AgentEvalError, RemoteError
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes

AUTHOR = "agent-eval"
MAX_BYTES = 1 << 20
_ONLY = 1


class FileComments:
    """At most one comment, in one file. A file that is not a comment of the evaluation is never replaced.

    Example:
        >>> comments = FileComments(Path("comments/topic/default.md"), lambda: None)
        >>> comments.create("<!-- agent-eval id=default run=1 attempt=1 -->\\n## passed").url
        'comments/topic/default.md'

    Args:
        path: The file.
        current_head: Tells the commit that is checked out now.
    """

    def __init__(self, path: Path, current_head: Callable[[], str | None]) -> None:
        self._path = path
        self._current_head = current_head

    def listed(self) -> Iterable[Comment]:
        """Yield the comment, if the file is there."""
        if self._path.exists():
            try:
                body = read_bytes(self._path, max_bytes=MAX_BYTES).decode("utf-8", "replace")
            except AgentEvalError as error:
                raise _failed(error) from error
            yield self._comment(body)

    def create(self, body: str) -> Comment:
        """Write the file, which must not exist yet."""
        if self._path.exists() or self._path.is_symlink():
            raise RemoteError(
                f"{self._path} is there and is not a comment of this evaluation.",
                remedy="Move it to another place, or give this evaluation a `comment-id` of its own.",
                path=str(self._path),
            )
        return self.update(_ONLY, body)

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the file in one step."""
        del comment_id
        try:
            write_file(self._path, body.encode("utf-8", "replace"))
        except AgentEvalError as error:
            raise _failed(error) from error
        return self._comment(body)

    def delete(self, comment_id: int) -> None:
        """Do nothing: there is no second comment that could be one too many."""

    def author(self) -> str:
        """The author of every comment in the store."""
        return AUTHOR

    def current_head(self) -> str | None:
        """The commit that is checked out now."""
        return self._current_head()

    def _comment(self, body: str) -> Comment:
        return Comment(_ONLY, AUTHOR, body, str(self._path))


def _failed(error: AgentEvalError) -> RemoteError:
    return RemoteError(error.message, remedy=error.remedy)
