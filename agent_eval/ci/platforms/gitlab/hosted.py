"""Comment on a merge request of GitLab from a job that runs elsewhere."""

from __future__ import annotations

import re
import time

from agent_eval.ci.comment import Comments
from agent_eval.ci.platforms.gitlab.api import GitLabApi
from agent_eval.ci.platforms.gitlab.job import open_session
from agent_eval.ci.platforms.gitlab.notes import MergeRequestNotes
from agent_eval.ci.platforms.hosted import HostedChange

PUBLIC_API = "https://gitlab.com/api/v4"
_PAGE = re.compile(
    r"https://[^/]+/(?P<project>[\w.-]+(?:/[\w.-]+)+)/-/merge_requests/(?P<number>[1-9][0-9]{0,9})"
)


def comments_on(change: HostedChange) -> Comments | None:
    """Open the notes of a merge request; None where it is none of GitLab's, or there is no token.

    Raises:
        UsageError: The API address is not https.
    """
    page = _PAGE.fullmatch(change.url)
    token = str(change.settings.own["gitlab_token"])
    api_url = str(change.settings.own["gitlab_api_url"])
    base = change.api_address(api_url, public="gitlab.com", of_public=PUBLIC_API)
    if page is None or not token or not base:
        return None
    session = open_session(base, {"PRIVATE-TOKEN": token}, change.sleep or time.sleep, change.patience)
    api = GitLabApi(session, project=page["project"], by_job_token=False)
    return MergeRequestNotes(api, int(page["number"]), change.url)
