"""The issues of a repository on GitHub."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.ci.issues import Issue
from agent_eval.ci.platforms.github.api import GitHubApi, RepositoryIssue
from agent_eval.ci.platforms.github.spec import GITHUB, USUAL_AUTHOR


class RepositoryIssues:
    """The issues of one repository.

    Example:
        `RepositoryIssues(api, author="").listed("github-actions[bot]", is_open=True)` yields that account's.

    Args:
        api: Of the repository.
        author: The login of the token, where the user says it; else empty.
    """

    refused = GITHUB.remedies.write_issue

    def __init__(self, api: GitHubApi, author: str) -> None:
        self._api, self._author = api, author

    def author(self) -> str:
        """The login of the token: as the user says, as GitHub says, else the usual bot."""
        self._author = self._author or self._api.viewer() or USUAL_AUTHOR
        return self._author

    def listed(self, author: str, *, is_open: bool) -> Iterable[Issue]:
        """Yield the issues that an account opened."""
        return (_issue(row) for row in self._api.issues(author, state="open" if is_open else "closed"))

    def create(self, title: str, body: str) -> Issue:
        """Open a new one."""
        return _issue(self._api.create_issue(title, body))

    def update(self, number: int, body: str) -> Issue:
        """Replace the body of one. Its title stays as it is: a person may have changed it."""
        return _issue(self._api.update_issue(number, body=body))

    def close(self, number: int, body: str, *, is_duplicate: bool = False) -> Issue:
        """Replace the body of one and close it."""
        reason = "not_planned" if is_duplicate else "completed"
        return _issue(self._api.update_issue(number, body=body, state="closed", state_reason=reason))


def _issue(row: RepositoryIssue) -> Issue:
    author = row.user.login if row.user else ""
    return Issue(row.number, author, row.body or "", row.state == "open", row.html_url)
