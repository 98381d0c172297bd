"""The OpenAPI description of our routes: operation ids, security, examples, streams, and routes of other adapters."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, get_args

from fastapi import Body, FastAPI, Security
from fastapi.params import Depends
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.base import SecurityBase
from pydantic import Field, create_model
from starlette.responses import Response

from pilotage.adapters.asgi.operations import Described, operation_of
from pilotage.adapters.asgi.problems import PROBLEM_JSON
from pilotage.adapters.asgi.streaming import EVENT_STREAM
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent, AgentEventAttribution, AgentEventKind
from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.state import AgentStateReason
from pilotage.container.application import Application
from pilotage.inbound.agents import example_input
from pilotage.inbound.authentication import BearerTokens, TrustedHeaders
from pilotage.inbound.bodies import Name, StartBody
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
        "attribution": "Agent, run and branch. Left out where it equals that of the event before it.",
        "metadata": "Left out where it is empty.",
    }
)
"""What is not in every event as it is sent."""


def event_schema(kind: type[Any]) -> Described:
    """Return the schema of an event as it is sent."""
    members: Described = {}
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
def frame_schema() -> Described:
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


_RECONNECT_DATA: Described = {
    "title": "Reconnect",
    "description": "The stream ends before the run does: read on with the last id.",
    "type": "object",
    "properties": {"detail": _TEXT},
    "required": ["detail"],
}


def problem_schema() -> Described:
    """Return the schema of a problem, without references: they would point into the whole description."""
    schema = ProblemView.model_json_schema()
    schema["properties"]["problems"]["items"] = schema.pop("$defs")["FieldProblem"]
    return schema


TAGS: Sequence[Mapping[str, Any]] = (
    {"name": "agents", "description": "What can be run."},
    {"name": "runs", "description": "Start runs, follow them, read their results, end them."},
    {"name": "questions", "description": "What runs ask people, and the answers."},
    {"name": "costs", "description": "What runs were charged for."},
    {"name": "ag-ui", "description": "Agents for pages that speak AG-UI, such as CopilotKit."},
    {"name": "health", "description": "For load balancers and orchestrators."},
)
FOLLOW_A_RUN = "curl -N http://127.0.0.1:8000/runs/RUN_ID/events"
RUN_ID_EXAMPLE = "0192f0c1d2e34f5a8b7c6d5e4f3a2b1c"


def problem_responses(*statuses: int) -> dict[int | str, Described]:
    """Return the description of the problems of a route."""
    content = {PROBLEM_JSON: {"schema": problem_schema()}}
    return {status: {"description": "The request failed.", "content": content} for status in statuses}


def stream_responses(*statuses: int) -> dict[int | str, Described]:
    """Return the description of a stream of values, and of the problems of its route."""
    frame: Described = {
        "title": "Frame",
        "type": "object",
        "required": ["data"],
        "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    }
    return _streamed(frame) | problem_responses(*statuses)


def event_responses(*statuses: int) -> dict[int | str, Described]:
    """Return the description of the events of a run, and of the problems of the route."""
    return _streamed(frame_schema()) | problem_responses(*statuses)


def _streamed(frame: Described) -> dict[int | str, Described]:
    return {200: {"description": "Frames as they come.", "content": {EVENT_STREAM: {"schema": frame}}}}


def security_of(app: Application, principal: IPrincipalResolver | None) -> list[Depends]:
    """Return the dependencies that describe the credentials of requests; they check nothing.

    A resolver of your own may have one of FastAPI's schemes as its attribute `security_scheme`.
    """
    resolver: object = principal or app.graph.given(IPrincipalResolver)
    scheme: object = getattr(resolver, "security_scheme", None)
    match resolver:
        case BearerTokens():
            scheme = HTTPBearer(auto_error=False, description="A token that the server was given.")
        case TrustedHeaders():
            scheme = APIKeyHeader(name=resolver.id_header, auto_error=False)
        case _:
            pass
    return [Security(scheme)] if isinstance(scheme, SecurityBase) and callable(scheme) else []


def start_body(agents: Sequence[AgentDefinition]) -> Any:
    """Return the type of the body of a start: its description names the agents, with an example for each."""
    ids = [each.agent_id for each in agents]
    if not ids:
        return StartBody
    agent: Any = (Annotated[Name, Field(json_schema_extra={"enum": [*ids]})], ...)
    model = create_model(
        "StartBody",
        __base__=StartBody,
        __doc__=StartBody.__doc__,
        agent=agent,
    )
    examples: Described = {
        each.agent_id: {"summary": f"Start {each.agent_id}", "value": _example_start(each)} for each in agents
    }
    return Annotated[model, Body(openapi_examples=examples)]


def _example_start(definition: AgentDefinition) -> Described:
    example = example_input(definition)
    return {"agent": definition.agent_id} | ({} if example is None else {"input": example})


def with_annotation(
    endpoint: Callable[..., Awaitable[Response]], parameter: str, annotation: Any
) -> Callable[..., Awaitable[Response]]:
    """Return an endpoint whose parameter has another annotation in the description."""
    shape = inspect.signature(endpoint, eval_str=True)
    changed = [
        each.replace(annotation=annotation) if each.name == parameter else each
        for each in shape.parameters.values()
    ]

    async def call(**given: Any) -> Response:
        return await endpoint(**given)

    call.__name__, call.__doc__ = getattr(endpoint, "__name__", "call"), endpoint.__doc__
    setattr(call, "__signature__", shape.replace(parameters=changed))  # noqa: B010 - functions have no such field
    return call


def _name_problems(schema: Described) -> None:
    """Replace the schemas of problems by references: generators make one class of them then."""
    place = "#/components/schemas/"
    problem = ProblemView.model_json_schema(ref_template=f"{place}{{model}}")
    parts = {**problem.pop("$defs"), ProblemView.__name__: problem}
    schema.setdefault("components", {}).setdefault("schemas", {}).update(parts)
    for operations in schema["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                if PROBLEM_JSON in response.get("content", {}):
                    reference = {"$ref": f"{place}{ProblemView.__name__}"}
                    response["content"][PROBLEM_JSON] = {"schema": reference}


def describe_other_routes(api: FastAPI, security: Sequence[Depends]) -> None:
    """Add the routes of other adapters to the description of an application; they take the same credentials."""
    described = api.openapi
    names = [str(getattr(each.dependency, "scheme_name", "")) for each in security]
    needed: Described = {"security": [{each: []} for each in names]} if names else {}

    def openapi() -> Described:
        if api.openapi_schema is not None:
            return api.openapi_schema
        schema = described()
        _name_problems(schema)
        for route in api.routes:
            operation = operation_of(route)
            if operation is not None:
                schema["paths"].setdefault(operation.path, {})[operation.method] = {
                    **operation.description,
                    **needed,
                }
                schema.setdefault("components", {}).setdefault("schemas", {}).update(operation.schemas())
        return schema

    setattr(api, "openapi", openapi)  # noqa: B010 - FastAPI documents this as the way to extend a description
