"""Upload an artifact to the run that this job belongs to, as `actions/upload-artifact` does.

The runner gives address and token of the service to actions, in containers too, and to no other step. The
service creates an artifact and returns a signed address of the storage; the file goes there without the
token, and the service gets its size and digest. GitHub Enterprise Server has no such service.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.errors import InvalidInput, RemoteError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import parse

SERVICE = "/twirp/github.actions.results.api.v1.ArtifactService"
VERSION = 4
_SCOPE = "Actions.Results"
_ALREADY_THERE = 409
_SECONDS = 600.0
_REMEDY = "Upload it by a later step with `actions/upload-artifact`."


class _Created(BaseModel):
    ok: bool
    signed_upload_url: str


class _Finalized(BaseModel):
    ok: bool


def upload_artifact(
    name: str,
    archive: Path,
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], None],
    patience: Patience | None = None,
) -> None:
    """Upload a zip archive as an artifact of this run.

    Args:
        name: Of the artifact.
        archive: The zip.
        environ: The environment variables that the runner sets.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often the service is asked.

    Raises:
        InvalidInput: The archive is larger than what later runs read, or cannot be read.
        RemoteError: This step has no access to the service, or the service refuses or cannot be reached.
    """
    token, address = environ.get("ACTIONS_RUNTIME_TOKEN", ""), environ.get("ACTIONS_RESULTS_URL", "")
    if not token or not address:
        raise RemoteError(
            "The runner gave this step no access to the artifact service (ACTIONS_RUNTIME_TOKEN and "
            "ACTIONS_RESULTS_URL). It does for actions, not for `run` steps, and not on Enterprise Server.",
            remedy=_REMEDY,
        )
    data = read_bytes(archive, max_bytes=MAX_ARCHIVE_BYTES)
    parts = urlsplit(address)
    session = Session(
        f"{parts.scheme}://{parts.netloc}",
        secret_headers={"Authorization": f"Bearer {token}"},
        patience=patience,
        sleep=sleep,
    )
    api = RestApi(session, name="the artifact service", remedy=_REMEDY)
    named = {**_backend_ids(token), "name": name}
    created = _create(api, named)
    _put(created.signed_upload_url, data, sleep, patience)
    size, digest = str(len(data)), f"sha256:{sha256_bytes(data)}"
    if not api.send(
        _Finalized, "POST", f"{SERVICE}/FinalizeArtifact", {**named, "size": size, "hash": digest}
    ).ok:
        raise RemoteError("The artifact service did not accept the upload.", remedy=_REMEDY)


def _create(api: RestApi, named: Mapping[str, str]) -> _Created:
    try:
        created = api.send(_Created, "POST", f"{SERVICE}/CreateArtifact", {**named, "version": VERSION})
    except HttpError as error:
        if error.status != _ALREADY_THERE:
            raise
        raise RemoteError(
            f"This run has an artifact `{named['name']}` already.",
            remedy="Give each of several evaluations its own `baseline-artifact`, and upload it once.",
        ) from error
    if not created.ok:
        raise RemoteError("The artifact service created no artifact.", remedy=_REMEDY)
    return created


def _put(address: str, data: bytes, sleep: Callable[[float], None], patience: Patience | None) -> None:
    """Send the file to its signed address, which no credential goes to, and which no message shows."""
    parts = urlsplit(address)
    storage = Session(
        f"{parts.scheme}://{parts.netloc}",
        headers={"x-ms-blob-type": "BlockBlob"},
        patience=patience,
        sleep=sleep,
    )
    storage.request("PUT", address, body=data, content_type="application/zip", seconds=_SECONDS)


def _backend_ids(token: str) -> dict[str, str]:
    """Read from the token which run and job it is for, in the service's own numbering.

    Raises:
        RemoteError: The token does not say it.
    """
    try:
        claims = token.split(".")[1]
        value = parse(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), source="ACTIONS_RUNTIME_TOKEN")
        scopes = [scope.split(":") for scope in str(value["scp"]).split()]
    except (IndexError, KeyError, TypeError, ValueError, InvalidInput):
        scopes = []
    for scope in scopes:
        if len(scope) == 3 and scope[0] == _SCOPE:
            return {"workflow_run_backend_id": scope[1], "workflow_job_run_backend_id": scope[2]}
    raise RemoteError("ACTIONS_RUNTIME_TOKEN does not say which run it is for.", remedy=_REMEDY)
