"""The descriptions of platforms' APIs are valid, name their source and licence, and refuse wrong requests."""

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


def test_every_description_is_listed_with_its_paths_its_source_and_its_licence():
    kept = {path.name.split(".")[0]: path.name for path in DESCRIPTIONS.glob("*.json*")}
    assert set(kept) == set(PLATFORMS)
    found = {platform: (row[0], int(row[1])) for platform, row in rows().items()}
    assert found == {name: (kept[name], len(description(name)["paths"])) for name in PLATFORMS}
    for platform, (_, _, source, licence) in rows().items():
        validate(description(platform))
        assert source, platform
        assert "this project's" in licence or "`LICENSE." in licence, platform


def test_every_licence_that_is_named_is_kept():
    kept = {path.name for path in DESCRIPTIONS.glob("LICENSE.*")}
    assert kept == {f"LICENSE.{name}" for name in ("octokit-openapi", "circleci-api")}
    assert all(f"`{name}`" in README for name in kept)


PATHS = {
    "github": "/repos/acme/shop/issues/7/comments",
    "gitlab": "/projects/4/merge_requests/7/notes",
    "buildkite": "/organizations/acme/pipelines/shop/builds/12/annotations",
}


@pytest.mark.parametrize(
    ("platform", "method", "path", "query", "body", "problem"),
    [
        *[(name, "POST", path, [], {"body": "hello"}, None) for name, path in PATHS.items()],
        *[(name, "POST", path, [], {"context": "x"}, "") for name, path in PATHS.items()],
        ("circleci", "GET", "/project/gh%2Facme%2Fshop/12/artifacts", [], None, None),
        ("circleci", "GET", "/project/gh%2Facme%2Fshop/12/no-such-thing", [], None, ""),
        *[
            (name, "GET", path, [("no-such", "1")], None, "unknown query parameter 'no-such'")
            for name, path in {
                "github": PATHS["github"],
                "gitlab": "/projects/4/pipelines",
                "buildkite": "/organizations/acme/pipelines/shop/builds",
                "circleci": "/project/gh%2Facme%2Fshop/pipeline",
            }.items()
        ],
    ],
)
def test_a_request_that_the_platform_does_not_know_is_found(platform, method, path, query, body, problem):
    data = json.dumps(body).encode() if body else b""
    problems = Contract(platform).request_problems(method, path, query, data)
    assert bool(problems) == (problem is not None), problems
    assert problem is None or any(problem in each for each in problems)
