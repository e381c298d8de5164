"""Check the requests and answers of a fake platform against the OpenAPI description of the real one."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

from openapi_core import OpenAPI
from openapi_core.testing import MockRequest, MockResponse

DESCRIPTIONS = Path(__file__).parents[1] / "fixtures" / "contracts"
HOST = "https://platform.example"
Query = list[tuple[str, str]]


def description(platform: str) -> dict[str, Any]:
    """Read the OpenAPI description of a platform's API: `description("github")`."""
    packed = DESCRIPTIONS / f"{platform}.json.gz"
    if packed.is_file():
        return json.loads(gzip.decompress(packed.read_bytes()))  # type: ignore[no-any-return]
    return json.loads((DESCRIPTIONS / f"{platform}.json").read_bytes())  # type: ignore[no-any-return]


class Contract:
    """What a platform documents of its REST API, to check requests and answers against.

    Example:
        contract = Contract("github")
        assert contract.request_problems("GET", "/repos/acme/shop/issues/7/comments", [], b"") == []
    """

    def __init__(self, platform: str) -> None:
        self._documented = _with_nullable(description(platform))
        self._spec = {**_without_security(self._documented), "servers": [{"url": HOST}]}
        self._api = OpenAPI.from_dict(self._spec)

    def request_problems(self, method: str, path: str, query: Query, body: bytes) -> list[str]:
        """Everything in which a request differs from what the platform documents."""
        place = f"{method} {path}"
        operation = self._operation(method, path)
        if operation is None:
            return [f"{place}: no such operation"]
        values: dict[str, list[str]] = {}
        for name, value in query:
            values.setdefault(name, []).append(value)
        request = MockRequest(HOST, method, path, args=values, data=body or None)
        found = _caught(lambda: self._api.validate_request(request), place)
        return found + self._query_problems(operation, query, place)

    def answer_problems(
        self, method: str, path: str, status: int, answer: bytes, headers: dict[str, str]
    ) -> list[str]:
        """Everything in which the answer to a documented request differs from what the platform documents."""
        place = f"{method} {path} -> {status}"
        documented = (self._operation(method, path) or {})["responses"].get(str(status))
        if documented is None:
            # Any call may fail with a status that is not listed for it, 429 for instance.
            explained = status >= 400 and isinstance(json.loads(answer).get("message"), str)
            return [] if explained else [f"{place}: the platform does not document this"]
        if not self._documents_content(documented):
            return []
        request = MockRequest(HOST, method, path)
        response = MockResponse(answer, status, headers)
        return _caught(lambda: self._api.validate_response(request, response), f"{place} answer")

    def accepts(self, method: str, path: str, credential: str) -> bool:
        """Whether a call takes a kind of credential, by the name of its security scheme."""
        operation = self._operation(method, path, self._documented)
        return operation is None or any(credential in row for row in operation.get("security", []))

    def _operation(self, method: str, path: str, spec: dict[str, Any] | None = None) -> dict[str, Any] | None:
        parts = path.strip("/").split("/")
        best: tuple[int, dict[str, Any]] | None = None
        for template, operations in (spec or self._spec)["paths"].items():
            wanted = template.strip("/").split("/")
            fits = len(wanted) == len(parts) and all(
                want.startswith("{") or want == part for want, part in zip(wanted, parts, strict=True)
            )
            literal = sum(not want.startswith("{") for want in wanted)
            if fits and method.lower() in operations and (best is None or literal > best[0]):
                best = (literal, operations[method.lower()])
        return best[1] if best else None

    def _query_problems(self, operation: dict[str, Any], query: Query, place: str) -> list[str]:
        """openapi-core lets unknown query parameters pass, which a platform silently ignores."""
        known = {
            parameter["name"]
            for parameter in map(self._resolved, operation.get("parameters", []))
            if parameter["in"] == "query"
        }
        return [f"{place}: unknown query parameter {name!r}" for name, _ in query if name not in known]

    def _documents_content(self, response: dict[str, Any]) -> bool:
        return bool(self._resolved(response).get("content"))

    def _resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in value:
            return value
        found: Any = self._spec
        for key in value["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        return found  # type: ignore[no-any-return]


def _without_security(spec: dict[str, Any]) -> dict[str, Any]:
    """Drop what each operation demands of credentials: requests are compared without their headers."""
    paths = {
        path: {
            method: {key: value for key, value in operation.items() if key != "security"}
            if isinstance(operation, dict)
            else operation
            for method, operation in operations.items()
        }
        for path, operations in spec["paths"].items()
    }
    return {key: value for key, value in spec.items() if key != "security"} | {"paths": paths}


def _with_nullable(value: Any) -> Any:
    """Write what a description in an older format calls `x-nullable` as OpenAPI 3.0 does."""
    if isinstance(value, list):
        return [_with_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    nullable = {"nullable": True} if value.get("x-nullable") is True else {}
    return {key: _with_nullable(item) for key, item in value.items()} | nullable


def _caught(check: Any, place: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of properties that a description uses
            check()
    except Exception as error:
        details = getattr(error.__cause__, "schema_errors", None) or [error.__cause__]
        causes = [f"{type(error).__name__}: {str(error)[:200]}", *(str(detail)[:300] for detail in details)]
        return [f"{place}: {'; '.join(causes)}"]
    return []
