"""Routes for the bytes of media: uploads before a run, downloads of what a run has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from pilotage.adapters.asgi.problems import SECURITY_HEADERS
from pilotage.adapters.fastapi.description import RUN_ID_EXAMPLE, problem_responses
from pilotage.adapters.fastapi.routing import Caller, json_response
from pilotage.inbound import bodies
from pilotage.inbound.views import MediaView
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.stored_media import UNKNOWN_TYPE

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {"requestBody": {"required": True, "content": {"*/*": _BYTES}}}
_Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 of the bytes.")]
_Name = Annotated[str | None, Query(min_length=1, max_length=200, description="The name of the file.")]
_RunId = Annotated[bodies.RunId, Path(description="The id of a run.", examples=[RUN_ID_EXAMPLE])]


class MediaRoutes:
    """Stores and returns media for the caller's tenant."""

    def __init__(self, runs: Callable[[], AgentRuns]) -> None:
        self._runs = runs

    def add_uploads(self, add: Callable[..., None]) -> None:
        """Add the route that takes bytes; its bodies are longer than those of others."""
        problems = problem_responses(400, 401, 403, 404, 413, 415, 422, 503)
        add(
            "POST",
            "/media",
            self.upload_media,
            status_code=201,
            response_model=MediaView,
            responses=problems,
            openapi_extra=_UPLOAD,
        )

    def add_downloads(self, add: Callable[..., None]) -> None:
        """Add the route that returns bytes."""
        problems = problem_responses(401, 404, 409, 410, 415, 422, 503)
        described = {200: {"content": {"*/*": _BYTES}, "description": "The bytes, to be saved as a file."}}
        partial(add, "GET", response_class=Response, responses=problems | described)(
            "/runs/{run_id}/media/{digest}", self.download_media
        )

    async def upload_media(self, request: Request, caller: Caller, name: _Name = None) -> Response:
        """Store a picture, a sound or a file for a run that begins later: the body is its bytes.

        The answer is a part for the `attachments` of the run. Its type is that of the bytes, whatever the request says.
        """
        declared = request.headers.get("content-type", UNKNOWN_TYPE).partition(";")[0].strip() or UNKNOWN_TYPE
        content = await request.body()
        part = await self._runs().upload(
            content, media_type=declared, name=_not_blank(name), principal=caller
        )
        return json_response(MediaView.of(part), 201)

    async def download_media(
        self, caller: Caller, run_id: _RunId, digest: _Digest, name: _Name = None
    ) -> Response:
        """Return media of a run: of its input, of the results of its tools, of its answer. Browsers save them."""
        found = await self._runs().media(run_id, digest, principal=caller)
        saved_as = quote(_not_blank(name) or digest[:16], safe="")
        headers = {
            **SECURITY_HEADERS,
            "content-disposition": f"attachment; filename*=UTF-8''{saved_as}",
            "content-security-policy": "sandbox; default-src 'none'",
            "cache-control": "private, no-store",
        }
        return Response(found.content, media_type=found.media_type, headers=headers)


def _not_blank(name: str | None) -> str | None:
    """Return the name of a file, None where it has no character that people see."""
    return name if name is not None and name.strip() else None
