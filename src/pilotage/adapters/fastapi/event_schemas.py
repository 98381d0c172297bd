"""The frames of an event stream as JSON schemas, for the OpenAPI description. Pure."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind
from pilotage.agent.state import AgentStateReason
from pilotage.inbound.problems import ProblemView

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"anyOf": [_TEXT, {"type": "null"}]}
# By the text of an annotation, which is how a module with postponed annotations has it.
_SCHEMAS: MappingProxyType[str, Any] = MappingProxyType(
    {
        "str": _TEXT,
        "str | None": _TEXT_OR_NULL,
        "tuple[str, ...]": {"type": "array", "items": _TEXT},
        "AgentStateReason": {"type": "string", "enum": [each.value for each in AgentStateReason]},
        "JsonObject": {"type": "object"},
        "JsonObject | None": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "JsonValue": {},
    }
)
PROBLEM, RECONNECT = "problem", "reconnect"
_LEFT_OUT: MappingProxyType[str, str] = MappingProxyType(
    {
        "attribution": "Whose event it is. Left out where it is that of the event before it in the same stream.",
        "metadata": "Left out where it is empty.",
    }
)
"""What is not in every event as it is sent."""


def event_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the schema of an event as it is sent."""
    members: dict[str, Any] = {}
    for each in fields(kind):
        if each.type == "AgentEventKind":
            members[each.name] = {"type": "string", "const": each.default.value}
        elif each.type == "AgentEventAttribution":
            members[each.name] = event_schema(AgentEventAttribution)
        else:
            members[each.name] = _SCHEMAS[str(each.type)]
        if each.name in _LEFT_OUT:
            members[each.name] = {**members[each.name], "description": _LEFT_OUT[each.name]}
    summary = (kind.__doc__ or "").strip().partition("\n")[0]
    return {
        "title": kind.__name__,
        "description": summary,
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in _LEFT_OUT],
    }


@cache
def frame_schema() -> dict[str, Any]:
    """Return the schema of a frame; `data` is the text of an event, a problem, or a request to reconnect."""
    events = [event_schema(each) for each in get_args(AgentEvent)]
    return {
        "title": "EventFrame",
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The cursor after the event."},
            "event": {
                "type": "string",
                "enum": [*(each.value for each in AgentEventKind), PROBLEM, RECONNECT],
            },
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"oneOf": [*events, problem_schema(), _RECONNECT_DATA]},
            },
            "retry": {"type": "integer", "description": "After how many milliseconds to come back."},
        },
    }


_RECONNECT_DATA: dict[str, Any] = {
    "title": "Reconnect",
    "description": "The stream ends before the run does: read on with the last id.",
    "type": "object",
    "properties": {"detail": _TEXT},
    "required": ["detail"],
}


def problem_schema() -> dict[str, Any]:
    """Return the schema of a problem, without references: they would point into the whole description."""
    schema = ProblemView.model_json_schema()
    schema["properties"]["problems"]["items"] = schema.pop("$defs")["FieldProblem"]
    return schema
