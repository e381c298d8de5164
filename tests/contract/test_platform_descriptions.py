"""The descriptions of platforms' APIs are valid, name their source and licence, and refuse wrong requests."""

from __future__ import annotations

import json

import pytest
from openapi_spec_validator import validate

from tests.fakes.contract import DESCRIPTIONS, Contract, description

PLATFORMS = ("github", "gitlab", "circleci", "buildkite")
README = (DESCRIPTIONS / "README.md").read_text(encoding="utf-8")


def rows() -> dict[str, list[str]]:
    """File, number of paths, source and licence, by platform, as the README's table lists them."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in README.splitlines()
        if line.startswith("|")
    ]
    return {row[0].split(".")[0]: row for row in cells[2:]}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_description_is_valid_openapi(platform):
    validate(description(platform))


def test_every_description_is_listed_with_its_paths_its_source_and_its_licence():
    kept = {path.name.split(".")[0]: path.name for path in DESCRIPTIONS.glob("*.json*")}
    assert set(kept) == set(PLATFORMS)
    found = {platform: (row[0], int(row[1])) for platform, row in rows().items()}
    assert found == {
        platform: (kept[platform], len(description(platform)["paths"])) for platform in PLATFORMS
    }
    for platform, (_, _, source, licence) in rows().items():
        assert source, platform
        assert "this project's" in licence or "`LICENSE." in licence, platform


def test_every_licence_that_is_named_is_kept():
    kept = {path.name for path in DESCRIPTIONS.glob("LICENSE.*")}
    assert kept == {f"LICENSE.{name}" for name in ("octokit-openapi", "circleci-api")}
    assert all(f"`{name}`" in README for name in kept)


NOTES = "/projects/4/merge_requests/7/notes"
ANNOTATIONS = "/organizations/acme/pipelines/shop/builds/12/annotations"


@pytest.mark.parametrize(
    ("platform", "method", "path", "body"),
    [
        ("github", "POST", "/repos/acme/shop/issues/7/comments", {"text": "hello"}),
        ("gitlab", "POST", NOTES, {"text": "hello"}),
        ("buildkite", "POST", ANNOTATIONS, {"context": "agent-eval"}),
        ("circleci", "GET", "/project/gh%2Facme%2Fshop/12/no-such-thing", None),
    ],
)
def test_a_request_that_the_platform_does_not_know_is_found(platform, method, path, body):
    assert Contract(platform).request_problems(method, path, [], json.dumps(body).encode() if body else b"")


@pytest.mark.parametrize(
    ("platform", "method", "path", "body"),
    [
        ("github", "POST", "/repos/acme/shop/issues/7/comments", {"body": "hello"}),
        ("gitlab", "POST", NOTES, {"body": "hello"}),
        ("buildkite", "POST", ANNOTATIONS, {"body": "hello"}),
        ("circleci", "GET", "/project/gh%2Facme%2Fshop/12/artifacts", None),
    ],
)
def test_a_request_that_the_platform_documents_has_no_problems(platform, method, path, body):
    data = json.dumps(body).encode() if body else b""
    assert Contract(platform).request_problems(method, path, [], data) == []


@pytest.mark.parametrize(
    ("platform", "path"),
    [
        ("github", "/repos/acme/shop/issues/7/comments"),
        ("gitlab", "/projects/4/pipelines"),
        ("buildkite", "/organizations/acme/pipelines/shop/builds"),
        ("circleci", "/project/gh%2Facme%2Fshop/pipeline"),
    ],
)
def test_a_query_parameter_that_the_platform_does_not_know_is_found(platform, path):
    problems = Contract(platform).request_problems("GET", path, [("no-such-parameter", "1")], b"")
    assert any("unknown query parameter 'no-such-parameter'" in problem for problem in problems)
