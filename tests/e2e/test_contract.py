"""The fake GitHub is only worth something if it notices what GitHub would not accept, or would not answer."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.fakes.contract import Contract
from tests.fakes.github import REPOSITORY, TOKEN, FakeGitHub

RUN, COMMENTS = "/actions/runs/5", "/issues/7/comments"


def ask(github: FakeGitHub, method: str, path: str, body: Any = None) -> requests.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{github.url}/repos/{REPOSITORY}{path}"
    return requests.request(method, url, json=body, headers=headers, allow_redirects=False, timeout=10)


@pytest.fixture
def asked(contract: Contract) -> FakeGitHub:
    return FakeGitHub(contract)


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", f"{COMMENTS}?sort=created", None, "unknown query parameter 'sort'"),
        ("GET", f"{COMMENTS}?per_page=many", None, "per_page"),
        ("POST", COMMENTS, {"text": "hi"}, "body"),
        ("POST", COMMENTS, {"body": 7}, "7"),
        ("POST", "/issues/seven/comments", {"body": "hi"}, "issue_number"),
        ("GET", "/no/such/thing", None, "no such operation"),
        ("GET", "/actions/workflows/77/runs?status=finished", None, "status"),
    ],
)
def test_request__not_documented(asked: FakeGitHub, method: str, path: str, body: Any, said: str) -> None:
    with asked as github:
        assert ask(github, method, path, body).status_code == 422
        assert any(said in violation for violation in github.violations), github.violations


@pytest.mark.parametrize(
    ("field", "value"), [("head_sha", None), ("id", "five"), ("created_at", 5), ("repository", {})]
)
def test_answer__that_github_would_not_give(asked: FakeGitHub, field: str, value: Any) -> None:
    with asked as github:
        github.add_run(5)
        ask(github, "GET", RUN)
        assert github.violations == []
        github.runs[5][field] = value
        ask(github, "GET", RUN)
        assert github.violations != []
