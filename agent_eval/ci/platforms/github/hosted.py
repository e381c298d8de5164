"""Comment on a pull request of GitHub from a job that runs elsewhere."""

from __future__ import annotations

import re
import time

from agent_eval.ci.comment import Comments
from agent_eval.ci.platforms.github.api import GitHubApi, graphql_url
from agent_eval.ci.platforms.github.job import PUBLIC_API, PullRequestComments, open_session
from agent_eval.ci.platforms.hosted import HostedChange

_PAGE = re.compile(r"https://[^/]+/(?P<repository>[\w.-]+/[\w.-]+)/pull/(?P<number>[1-9][0-9]{0,9})")


def comments_on(change: HostedChange) -> Comments | None:
    """Open the comments of a pull request; None where it is none of GitHub's, or there is no token.

    Raises:
        UsageError: The API address is not https.
    """
    page = _PAGE.fullmatch(change.url)
    token = str(change.settings.own["github_token"])
    api_url = str(change.settings.own["github_api_url"])
    base = change.api_address(api_url, public="github.com", of_public=PUBLIC_API)
    if page is None or not token or not base:
        return None
    session = open_session(base, token, change.sleep or time.sleep, change.patience)
    api = GitHubApi(session, graphql_url=graphql_url(base), repository=page["repository"])
    return PullRequestComments(api, int(page["number"]), str(change.settings.own["comment_author"]))
