"""The note on a merge request, no line of which GitLab obeys.

GitLab executes a line that begins with `/merge`, `/close` and the like with the rights of the token that
writes the note, and its own idea of what is code differs from CommonMark's. So no line of a note begins with
a slash: in text it is written as an entity, and in a code block, where entities are shown as they are, an
invisible character comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_eval.ci.comment import Comment
from agent_eval.ci.platforms.gitlab.api import GitLabApi, Note

_SLASH = re.compile(r"(?m)^(\s*)/")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ZERO_WIDTH_SPACE = "\u200b"


def without_quick_actions(markdown: str) -> str:
    r"""Rewrite every line that begins with a slash.

    Example:
        >>> without_quick_actions("All well.\n/merge")
        'All well.\n&#47;merge'
    """
    lines: list[str] = []
    fence = ""
    for line in re.split(r"\r\n?|\n", markdown):
        in_code = bool(fence)
        fence = _fence_after(line, fence)
        replacement = rf"\1{_ZERO_WIDTH_SPACE}/" if in_code else r"\1&#47;"
        lines.append(_SLASH.sub(replacement, line))
    return "\n".join(lines)


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after a line; empty for none."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    ticks = match.group(1)
    if not fence:
        return ticks
    closes = ticks[0] == fence[0] and len(ticks) >= len(fence) and not line[match.end() :].strip()
    return "" if closes else fence


class MergeRequestNotes:
    """The notes of one merge request.

    Example:
        `MergeRequestNotes(api, 7, "https://gitlab.com/acme/shop/-/merge_requests/7").listed()` yields them.

    Args:
        api: Of the project.
        iid: The merge request.
        url: Its page; empty when unknown.
    """

    def __init__(self, api: GitLabApi, iid: int, url: str) -> None:
        self._api, self._iid, self._url = api, iid, url

    def listed(self) -> Iterable[Comment]:
        """Yield all notes, over all pages, but those that GitLab wrote itself."""
        return (self._comment(row) for row in self._api.notes(self._iid) if not row.system)

    def create(self, body: str) -> Comment:
        """Write a new one."""
        return self._comment(self._api.create_note(self._iid, without_quick_actions(body)))

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the body of one."""
        return self._comment(self._api.update_note(self._iid, comment_id, without_quick_actions(body)))

    def delete(self, comment_id: int) -> None:
        """Remove one."""
        self._api.delete_note(self._iid, comment_id)

    def author(self) -> str:
        """The number of the token's account, which never changes; names may."""
        return str(self._api.user().id)

    def current_head(self) -> str | None:
        """The newest commit of the merge request."""
        return self._api.merge_request(self._iid).sha

    def _comment(self, row: Note) -> Comment:
        url = f"{self._url}#note_{row.id}" if self._url else ""
        return Comment(row.id, str(row.author.id), row.body, url)
