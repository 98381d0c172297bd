"""Responses of routes: views as JSON, and the description of problems and streams for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from pilotage.adapters.asgi.problems import PROBLEM_JSON, SECURITY_HEADERS, ProblemView, json_text
from pilotage.adapters.asgi.streaming_response import EVENT_STREAM


def json_response(view: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a view as the body of a response."""
    return Response(
        json_text(view),
        status,
        headers={**SECURITY_HEADERS, **(headers or {})},
        media_type="application/json",
    )


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the problems of a route."""
    schema = ProblemView.model_json_schema()
    # References would point into the whole description, where their targets are missing.
    schema["properties"]["problems"]["items"] = schema.pop("$defs")["FieldProblem"]
    content = {PROBLEM_JSON: {"schema": schema}}
    return {status: {"description": "The request failed.", "content": content} for status in statuses}


def stream_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the frames of a stream, and of the problems of its route."""
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
    streamed = {"description": "Frames as they come.", "content": {EVENT_STREAM: {"schema": frame}}}
    return {200: streamed, **problem_responses(*statuses)}
