"""The routes of AG-UI in the OpenAPI description: inputs and events with their schemas, an example that runs."""

from __future__ import annotations

from functools import cache
from typing import Any

from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

from pilotage.adapters.asgi.operations import RouteOperation
from pilotage.adapters.asgi.problems import PROBLEM_JSON
from pilotage.inbound.problems import ProblemView

_PREFIX = "AgUi"
_PLACE = f"#/components/schemas/{_PREFIX}{{model}}"
_INPUT, _EVENT = f"{_PREFIX}RunAgentInput", f"{_PREFIX}Event"
EXAMPLE: dict[str, Any] = {
    "threadId": "thread-1",
    "runId": "run-1",
    "state": {},
    "messages": [{"id": "message-1", "role": "user", "content": "Hello"}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
_REFUSALS = (400, 401, 403, 409, 413, 422, 429, 503)


def post_operation(path: str, media_type: str, agent: str | None) -> RouteOperation:
    """Return the description of a route to which inputs are posted."""
    name = agent or "an agent"
    words = path.strip("/").replace("/", "_").replace("-", "_")
    problems: dict[str, Any] = {
        str(status): {
            "description": "The input cannot be served.",
            "content": {PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{ProblemView.__name__}"}}},
        }
        for status in _REFUSALS
    }
    streamed = {
        "description": "Events of AG-UI as they come; the last one is RUN_FINISHED or RUN_ERROR.",
        "content": {media_type: {"schema": {"$ref": f"#/components/schemas/{_EVENT}"}}},
    }
    description: dict[str, Any] = {
        "tags": ["ag-ui"],
        "summary": f"Run {name} over AG-UI",
        "description": (
            "Each frame is an event of AG-UI. A client that reconnects sends the same input with the same `runId`, and "
            "the last id it has as `Last-Event-ID`.\n\n"
            f"```\ncurl -N -H 'content-type: application/json' http://127.0.0.1:8000{path} -d @input.json\n```"
        ),
        "operationId": f"run_{words}",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{_INPUT}"},
                    "examples": {"hello": {"summary": f"Say hello to {name}", "value": EXAMPLE}},
                }
            },
        },
        "responses": {"200": streamed, **problems},
    }
    return RouteOperation(path, "post", description, _schemas, agent)


@cache
def _schemas() -> dict[str, Any]:
    """Return the schemas of inputs and events, all of them under names of their own."""
    given = RunAgentInput.model_json_schema(by_alias=True, ref_template=_PLACE)
    events = TypeAdapter[Any](Event).json_schema(by_alias=True, ref_template=_PLACE)
    problem = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    found = {_INPUT: given, _EVENT: events, **problem.pop("$defs"), ProblemView.__name__: problem}
    for schema in (given, events):
        found |= {f"{_PREFIX}{name}": each for name, each in schema.pop("$defs", {}).items()}
    return found
