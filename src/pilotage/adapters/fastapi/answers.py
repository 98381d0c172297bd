"""What goes back to a client, as JSON that survives every text a run may hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from pilotage.adapters.asgi.problems import PROBLEM_JSON
from pilotage.adapters.fastapi.problems import ProblemView
from pilotage.jsonvalue import to_json_value

EVENT_STREAM = "text/event-stream"
_PASSING = (429, 503)
_RETRY_SECONDS = "1"
# What a run holds belongs to one tenant: no cache in between may keep it.
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def json_answer(view: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A view as the body of an answer."""
    return Response(
        json_text(view), status, headers={**_HEADERS, **(headers or {})}, media_type="application/json"
    )


def problem_answer(problem: ProblemView) -> Response:
    """A problem as an answer."""
    headers = dict(_HEADERS)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in _PASSING:
        headers["retry-after"] = _RETRY_SECONDS
    return Response(json_text(problem), problem.status, headers=headers, media_type=PROBLEM_JSON)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How the problems of a route look, for its description."""
    schema = ProblemView.model_json_schema()
    # References would point into the whole description, where nobody puts their targets.
    schema["properties"]["problems"]["items"] = schema.pop("$defs")["FieldProblem"]
    content = {PROBLEM_JSON: {"schema": schema}}
    return {status: {"description": "The request failed.", "content": content} for status in statuses}


def stream_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How the frames of a stream look, and the problems of its route, for its description."""
    frame: dict[str, Any] = {
        "title": "Frame",
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": {"type": "string", "description": "The cursor behind the event."},
            "event": {"type": "string", "description": "The kind of the event; or problem, or reconnect."},
            "data": {"type": "string", "contentMediaType": "application/json"},
            "retry": {"type": "integer", "description": "After how many milliseconds to come back."},
        },
    }
    told = {"description": "Frames as they come.", "content": {EVENT_STREAM: {"schema": frame}}}
    return {200: told, **problem_responses(*statuses)}


def json_text(view: BaseModel) -> bytes:
    """The JSON text of a view; all of it ASCII, because lone surrogates have no other form on the wire."""
    return json.dumps(to_json_value(view.model_dump()), separators=(",", ":"), allow_nan=False).encode()
