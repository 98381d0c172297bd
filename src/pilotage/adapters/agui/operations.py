"""The routes of AG-UI in the OpenAPI description: inputs and events with their schemas, an example that runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ag_ui.core import Event, Message, RunAgentInput
from pydantic import TypeAdapter

from pilotage.adapters.asgi.operations import Described, RouteOperation
from pilotage.adapters.asgi.problems import PROBLEM_JSON
from pilotage.inbound.problems import ProblemView

_PREFIX = "AgUi"
_PLACE = f"#/components/schemas/{_PREFIX}{{model}}"
_INPUT, _EVENT, _HISTORY = f"{_PREFIX}RunAgentInput", f"{_PREFIX}Event", f"{_PREFIX}ThreadMessages"
EXAMPLE: Described = {
    "threadId": "thread-1",
    "runId": "run-1",
    "state": {},
    "messages": [{"id": "message-1", "role": "user", "content": "Hello"}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
_REFUSALS = (400, 401, 403, 409, 413, 422, 429, 503)
_REFUSALS_TO_READ = (400, 401, 403, 503)


def post_operation(path: str, media_type: str, agent: str | None) -> RouteOperation:
    """Return the description of a route to which inputs are posted."""
    name = agent or "an agent"
    streamed = {
        "description": "Events of AG-UI as they come; the last one is RUN_FINISHED or RUN_ERROR.",
        "content": {media_type: {"schema": {"$ref": f"#/components/schemas/{_EVENT}"}}},
    }
    description: Described = {
        "tags": ["ag-ui"],
        "summary": f"Run {name} over AG-UI",
        "description": (
            "Each frame is an event of AG-UI. A client that reconnects sends the same input with the same `runId`, and "
            "the last id it has as `Last-Event-ID`.\n\n"
            f"```\ncurl -N -H 'content-type: application/json' http://127.0.0.1:8000{path} -d @input.json\n```"
        ),
        "operationId": f"run_{_words(path)}",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{_INPUT}"},
                    "examples": {"hello": {"summary": f"Say hello to {name}", "value": EXAMPLE}},
                }
            },
        },
        "responses": {"200": streamed, **_problems("The input cannot be served.", _REFUSALS)},
    }
    return RouteOperation(path, "post", description, _schemas, agent)


def history_operation(base: str, agent: str | None) -> RouteOperation:
    """Return the description of the route of the messages of a thread, below the path of the agent."""
    words, path = _words(base), f"{base}/threads/{{thread_id}}"
    messages = {"$ref": f"#/components/schemas/{_HISTORY}"}
    description: Described = {
        "tags": ["ag-ui"],
        "summary": f"Messages of a thread with {agent or 'an agent'}",
        "description": (
            "The messages of the newest runs of a thread, oldest first, for a page that is loaded anew. A thread "
            f"without runs has none.\n\n```\ncurl http://127.0.0.1:8000{base}/threads/thread-1\n```"
        ),
        "operationId": f"list_{words}_messages" if words else "list_messages",
        "parameters": [
            {
                "name": "thread_id",
                "in": "path",
                "required": True,
                "schema": {"type": "string"},
                "example": EXAMPLE["threadId"],
            }
        ],
        "responses": {
            "200": {
                "description": "The messages of the thread.",
                "content": {"application/json": {"schema": messages}},
            },
            **_problems("The messages cannot be read.", _REFUSALS_TO_READ),
        },
    }
    return RouteOperation(path, "get", description, _schemas, agent)


def _words(path: str) -> str:
    return path.strip("/").replace("/", "_").replace("-", "_")


def _problems(words: str, statuses: Sequence[int]) -> Described:
    shown = {PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{ProblemView.__name__}"}}}
    return {str(status): {"description": words, "content": shown} for status in statuses}


@cache
def _schemas() -> Described:
    """Return the schemas of inputs and events, all of them under names of their own."""
    given = RunAgentInput.model_json_schema(by_alias=True, ref_template=_PLACE)
    events = TypeAdapter[Any](Event).json_schema(by_alias=True, ref_template=_PLACE)
    problem = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    messages = TypeAdapter[Any](list[Message]).json_schema(by_alias=True, ref_template=_PLACE)
    found = {_INPUT: given, _EVENT: events, **problem.pop("$defs"), ProblemView.__name__: problem}
    found[_HISTORY] = {
        "type": "object",
        "properties": {"threadId": {"type": "string"}, "messages": messages},
        "required": ["threadId", "messages"],
    }
    for schema in (given, events, messages):
        found |= {f"{_PREFIX}{name}": each for name, each in schema.pop("$defs", {}).items()}
    return found
