"""A REST API with typed answers, for platforms that are reached over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES, Expired, Withheld
from agent_eval.errors import InvalidInput, RemoteError, UsageError
from agent_eval.http.client import Answer, Session
from agent_eval.http.errors import AnswerTooLarge, HttpError, RateLimited
from agent_eval.http.retry import Patience
from agent_eval.storage.json import parse

Model = TypeVar("Model", bound=BaseModel)
Params = Mapping[str, str | int]
PAGE = 100
TOKEN_REFUSED, NOT_FOUND, EXPIRED = 401, 404, 410


class RestApi:
    """Calls one service and validates what it answers.

    The session goes to the API's base address, with the token. `name` is what errors call the service,
    `remedy` what a user can do where its answers are not what they should be.
    """

    def __init__(self, session: Session, *, name: str, remedy: str) -> None:
        self.session = session
        self._name, self._remedy = name, remedy

    def get(self, model: type[Model], path: str, params: Params | None = None) -> Model:
        """Read one object.

        Raises:
            HttpError: The service refuses or cannot be reached.
            RemoteError: The answer is not JSON, or not what `model` says.
        """
        return self.validate(model, self.decode(self.session.request("GET", path, params=params), path), path)

    def find(self, model: type[Model], path: str, *, none: tuple[int, ...]) -> Model | None:
        """Read one object; None where the service answers with one of the statuses. Raises as `get`."""
        answer = self.session.request("GET", path, accept=none)
        return None if answer.status in none else self.validate(model, self.decode(answer, path), path)

    def send(self, model: type[Model], method: str, path: str, body: Mapping[str, Any]) -> Model:
        """Write one object, and read it as the service has it then. Raises as `get`."""
        return self.validate(model, self.decode(self.session.request(method, path, json=body), path), path)

    def rows(
        self, model: type[Model], path: str, *, max_pages: int = 10, params: Params | None = None
    ) -> Iterator[Model]:
        """Yield the rows of a listing, over all pages by their `Link` headers. Raises as `get`."""
        query = {**(params or {}), "per_page": PAGE}
        for answer in self.session.pages(path, params=query, max_pages=max_pages):
            rows = self.decode(answer, path)
            if not isinstance(rows, list):
                raise self._not_as_documented(path, "it is no list")
            yield from [self.validate(model, row, f"{path} row {number}") for number, row in enumerate(rows)]

    def evidence(self, path: str, *, label: str) -> bytes:
        """Download the evidence archive of a run. A redirect to the storage is followed without the token.

        `label` is what notes call the run.

        Raises:
            Expired: It has expired.
            Withheld: It is listed, and the service or its storage does not hand it out. Another run's may be.
            HttpError: The service itself limits requests, or does not accept the token.
        """
        try:
            return self.session.request("GET", path, max_bytes=MAX_ARCHIVE_BYTES).body
        except AnswerTooLarge as error:
            raise Withheld(f"The evidence of {label} is too large: {error.message}") from error
        except HttpError as error:
            by_service = not error.redirected_to
            if by_service and (isinstance(error, RateLimited) or error.status == TOKEN_REFUSED):
                raise
            if by_service and error.status == EXPIRED:
                raise Expired(f"The evidence of {label} has expired.") from error
            gone = " It was deleted, or its storage lost it." if error.status == NOT_FOUND else ""
            raise Withheld(f"The evidence of {label} could not be read: {error.message}{gone}") from error

    def decode(self, answer: Answer, path: str) -> Any:
        """Parse the body of an answer as JSON; raises `RemoteError` where it is none."""
        try:
            return parse(answer.body, source=path)
        except InvalidInput as error:
            why = f"{answer.host} did not answer {path} with JSON: {error.message}"
            raise RemoteError(why, remedy=self._remedy, path=path) from error

    def validate(self, model: type[Model], value: Any, path: str) -> Model:
        """Read a value as `model`; raises `RemoteError` where it is not what that says."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise self._not_as_documented(path, place or "it is no object") from error

    def _not_as_documented(self, path: str, place: str) -> RemoteError:
        why = f"The answer to {path} is not what {self._name} documents ({place})."
        return RemoteError(why, remedy=self._remedy, path=path)


@dataclass(frozen=True)
class Connector:
    """Opens the APIs of services, all with the same patience: `sleep` waits seconds between attempts."""

    sleep: Callable[[float], None] = time.sleep
    patience: Patience | None = None

    def open(
        self,
        address: str,
        secret: Mapping[str, str],
        *,
        name: str,
        field: str,
        headers: Mapping[str, str] | None = None,
        plain_http: bool = False,
    ) -> RestApi:
        """Open the API at an address that the user gave, with credentials that are sent there alone.

        `name` is what errors call the service, `field` the input or variable with the address, which may be
        without encryption only where `plain_http`.
        """
        try:
            session = Session(
                address,
                secret_headers=secret,
                headers=headers,
                patience=self.patience,
                plain_http=plain_http,
                sleep=self.sleep,
            )
        except HttpError as error:
            raise UsageError(error.message, remedy=error.remedy, field=field) from error
        return RestApi(session, name=name, remedy=f"Check the API address (`{field}`).")
