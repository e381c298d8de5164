"""The issues of a project on GitLab, no line of which it obeys."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.ci.issues import Issue
from agent_eval.ci.platforms.gitlab.api import GitLabApi, ProjectIssue
from agent_eval.ci.platforms.gitlab.notes import without_quick_actions
from agent_eval.ci.platforms.gitlab.spec import GITLAB

_LONGEST_TITLE = 255


class ProjectIssues:
    """The issues of one project.

    Example:
        `ProjectIssues(api).listed(ProjectIssues(api).author(), is_open=True)` yields those of the token.

    Args:
        api: Of the project.
    """

    refused = GITLAB.remedies.write_issue

    def __init__(self, api: GitLabApi) -> None:
        self._api = api

    def author(self) -> str:
        """The number of the token's account, which never changes; names may."""
        return str(self._api.user().id)

    def listed(self, author: str, *, is_open: bool) -> Iterable[Issue]:
        """Yield the issues that an account opened."""
        return (_issue(row) for row in self._api.issues(int(author), state="opened" if is_open else "closed"))

    def create(self, title: str, body: str) -> Issue:
        """Open a new one."""
        return _issue(self._api.create_issue(title[:_LONGEST_TITLE], without_quick_actions(body)))

    def update(self, number: int, body: str) -> Issue:
        """Replace the body of one. Its title stays as it is: a person may have changed it."""
        return _issue(self._api.update_issue(number, description=without_quick_actions(body)))

    def close(self, number: int, body: str, *, is_duplicate: bool = False) -> Issue:
        """Replace the body of one and close it. GitLab knows no reason for closing."""
        del is_duplicate
        text = without_quick_actions(body)
        return _issue(self._api.update_issue(number, description=text, state_event="close"))


def _issue(row: ProjectIssue) -> Issue:
    return Issue(row.iid, str(row.author.id), row.description or "", row.state == "opened", row.web_url)
