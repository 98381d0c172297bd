"""The OpenAPI description as a product: names, examples that run, credentials, events, and a page that needs no other."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI
from fastapi.security import HTTPBasic
from pydantic import Field
from tests.adapters.fastapi.harbour import ADA, PEOPLE

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    Pod,
    Principal,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.agui import AGUICompatible, agui_extension
from pilotage.adapters.fastapi import ApiController, TrustedHeaders, asgi_application, get
from pilotage.adapters.fastapi.description import event_schema
from pilotage.agent import IPrincipalResolver
from pilotage.agent.events import AgentEvent
from pilotage.errors import NotAuthenticatedError
from pilotage.inbound.agents import example_of
from pilotage.models import OfflineModel
from pilotage.testing import MemoryStore

SECRET_WORDS = "Never tell the customer the margin"


@Pod
class Shelf:
    """Where things are."""

    @agent_tool(effects=ToolEffects.read_only())
    async def find(self, title: str, copies: int = 1) -> list[str]:
        """Find a book.

        Args:
            title: what it says on the back.
            copies: how many.
        """
        return [title] * copies

    @agent_tool(effects=ToolEffects.destructive_action())
    async def burn(self, title: str) -> str:
        """Burn a book."""
        return title


@AGUICompatible("/librarian")
@Agent(
    spec=AgentExecutionSpec(
        name="librarian",
        objective="Find books",
        instructions=SECRET_WORDS,
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
    )
)
class Librarian:
    """Help readers."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf


@dataclass(frozen=True)
class Loan:
    """A book that leaves the house."""

    reader: Annotated[str, Field(min_length=6)]
    days: Annotated[int, Field(ge=3)]
    kind: Literal["short", "long"]


@Agent(spec=AgentExecutionSpec(name="lender"))
class Lender:
    """Lends books."""

    async def execute(self, loan: Loan) -> AsyncGenerator[AgentYield[str], None]:
        yield Final(f"{loan.reader} {loan.days}")


@Agent(spec=AgentExecutionSpec(name="adder"))
class Adder:
    """Adds."""

    async def execute(self, left: int, right: int, note: str = "") -> int:
        return left + right


@ApiController(prefix="/doors", public=True)
class Doors:
    """For everybody."""

    @get("")
    async def opening_hours(self) -> str:
        """When the doors are open."""
        return "always"


def library(*pods: object) -> Application:
    app = Application("library").add(Librarian, Lender, Adder, Shelf, Doors, OfflineModel())
    return app.add(*MemoryStore().ports, *pods).load_plugins(include=["agent", "runtime", "agui"])


def served(principal: IPrincipalResolver | None = PEOPLE, *pods: object) -> FastAPI:
    app = library(*pods)
    return asgi_application(app, principal=principal, extensions=[agui_extension(app, principal=principal)])


@asynccontextmanager
async def client_of(
    api: FastAPI, headers: Mapping[str, str] = ADA
) -> AsyncGenerator[httpx.AsyncClient, None]:
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 1))
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client,
    ):
        yield client


def operations(description: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = [each for methods in description["paths"].values() for each in methods.values()]
    assert max(Counter(each["operationId"] for each in found).values()) == 1
    return {each["operationId"]: each for each in found}


def test_operations_have_names_tags_and_words() -> None:
    description = served().openapi()
    found = operations(description)
    assert {"start_run", "get_run", "read_events", "answer_question", "cancel_run", "list_agents"} <= set(
        found
    )
    assert {"run_librarian", "run_librarian_stream", "healthz", "readyz"} <= set(found)
    described = {each["name"] for each in description["tags"]}
    for name, each in found.items():
        assert each["tags"], name
        assert each.get("description"), name
        assert set(each["tags"]) <= described | {"Doors"}, name


def test_agents_are_an_enumeration() -> None:
    schema = served().openapi()["components"]["schemas"]["StartBody"]["properties"]["agent"]
    assert schema["enum"] == ["librarian", "lender", "adder"]


def test_an_application_without_agents_has_a_description() -> None:
    app = Application("empty").add(*MemoryStore().ports).load_plugins(include=["agent", "runtime"])
    schema = asgi_application(app, principal=PEOPLE).openapi()["components"]["schemas"]["StartBody"]
    assert "enum" not in schema["properties"]["agent"]


async def test_every_example_of_a_start_runs_as_it_stands() -> None:
    api = served()
    body = operations(api.openapi())["start_run"]["requestBody"]["content"]["application/json"]
    examples = {name: each["value"] for name, each in body["examples"].items()}
    assert set(examples) == {"librarian", "lender", "adder"}
    async with client_of(api) as client:
        for name, example in examples.items():
            started = await client.post("/runs", json=example)
            assert (started.status_code, started.json()["agent_type"]) == (201, name)
            result = await client.get(f"/runs/{started.json()['id']}/events")
            assert "event: run_finished" in result.text


async def test_every_example_of_ag_ui_runs_as_it_stands() -> None:
    api = served()
    async with client_of(api) as client:
        for name in ("run_librarian", "run_librarian_stream"):
            operation = operations(api.openapi())[name]
            example = operation["requestBody"]["content"]["application/json"]["examples"]["hello"]["value"]
            answer = await client.post(f"/{name.removeprefix('run_').replace('_', '/')}", json=example)
            assert "RUN_FINISHED" in answer.text
            assert "curl -N " in operation["description"]


async def test_the_messages_of_a_thread_are_described_and_sent_as_described() -> None:
    description = served().openapi()
    operation = operations(description)["list_librarian_messages"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    check = jsonschema_rs.validator_for({**schema, "components": description["components"]})
    (thread,) = operation["parameters"]
    run = operations(description)["run_librarian"]["requestBody"]["content"]["application/json"]
    async with client_of(served()) as client:
        await client.post("/librarian", json=run["examples"]["hello"]["value"])
        sent = (await client.get(f"/librarian/threads/{thread['example']}")).json()
    check.validate(sent)
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant"]


async def test_events_are_described_and_sent_as_described() -> None:
    api = served()
    operation = operations(api.openapi())["read_events"]
    assert "curl -N http://127.0.0.1:8000/runs/RUN_ID/events" in operation["description"]
    frame = operation["responses"]["200"]["content"]["text/event-stream"]["schema"]
    check = jsonschema_rs.validator_for(frame["properties"]["data"]["contentSchema"])
    async with client_of(api) as client:
        started = await client.post("/runs", json={"agent": "librarian", "input": "find dune"})
        told = (await client.get(f"/runs/{started.json()['id']}/events")).text
    kinds = re.findall(r"^event: (.+)$", told, re.MULTILINE)
    assert {"run_started", "message_delta", "run_finished"} <= set(kinds)
    assert set(kinds) <= set(frame["properties"]["event"]["enum"])
    for data in re.findall(r"^data: (.+)$", told, re.MULTILINE):
        check.validate(json.loads(data))


@pytest.mark.parametrize("kind", get_args(AgentEvent), ids=lambda each: each.__name__)
def test_every_event_has_a_schema(kind: type[Any]) -> None:
    schema = event_schema(kind)
    jsonschema_rs.meta.validate(schema)
    assert schema["properties"]["kind"]["const"]


async def test_agents_are_listed_with_their_tools_and_not_with_their_instructions() -> None:
    async with client_of(served()) as client:
        answer = await client.get("/agents")
        assert (await client.get("/agents", headers={"authorization": "Bearer nobody"})).status_code == 401
    assert SECRET_WORDS not in answer.text
    librarian, lender, adder = answer.json()["agents"]
    assert (librarian["name"], librarian["objective"], librarian["is_durable"]) == (
        "librarian",
        "Find books",
        True,
    )
    burn, find = librarian["tools"]
    assert (find["name"], find["description"], find["risk"]) == ("find", "Find a book.", ["read"])
    assert find["parameters"]["properties"]["title"]["type"] == "string"
    assert (burn["approval"], "destructive" in burn["risk"]) == ("derived", True)
    assert lender["input"]["required"] == ["reader", "days", "kind"]
    assert lender["example"] == {"reader": "text..", "days": 3, "kind": "short"}
    assert (adder["example"], adder["output"]["type"]) == ({"left": 1, "right": 1}, "integer")


class Basics(IPrincipalResolver):
    """Knows people by a password, and says so."""

    security_scheme = HTTPBasic(auto_error=False)

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        if "authorization" not in headers:
            raise NotAuthenticatedError
        return Principal("ada")


@pytest.mark.parametrize(
    ("resolver", "scheme"),
    [
        (PEOPLE, {"type": "http", "scheme": "bearer"}),
        (TrustedHeaders("X-User"), {"type": "apiKey", "in": "header", "name": "x-user"}),
        (Basics(), {"type": "http", "scheme": "basic"}),
    ],
    ids=["tokens", "headers", "own"],
)
@pytest.mark.parametrize("is_pod", [False, True])
def test_credentials_are_described(
    resolver: IPrincipalResolver, scheme: Mapping[str, str], is_pod: bool
) -> None:
    description = (served(None, resolver) if is_pod else served(resolver)).openapi()
    ((name, found),) = description["components"]["securitySchemes"].items()
    assert scheme.items() <= found.items()
    for operation in operations(description).values():
        is_open = operation["tags"] in (["Doors"], ["health"])
        assert operation.get("security") == (None if is_open else [{name: []}])


def test_a_server_for_this_machine_needs_no_credentials() -> None:
    assert "securitySchemes" not in served(None).openapi()["components"]


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with client_of(served(None), {}) as client:
        page = await client.get("/docs")
        assert page.status_code == 200
        assert re.findall(r"https?://[^\"' ]+", page.text) == []
        assert "default-src 'self'" in page.headers["content-security-policy"]
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(loaded) == 3
        for path in (*loaded, "/openapi.json"):
            assert (await client.get(path)).status_code == 200


async def test_a_page_behind_a_prefix_loads_from_there() -> None:
    api = served(None)
    transport = httpx.ASGITransport(app=api, client=("127.0.0.1", 1), root_path="/shop")
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert 'src="/shop/docs/swagger-ui-bundle.js"' in (await client.get("/shop/docs")).text


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "number", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "number", "exclusiveMaximum": 0}, -1),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [True, True]),
        ({"type": ["null", "string"]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1),
        ({"const": 7}, 7),
        ({"examples": ["x"], "type": "string"}, "x"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"enum": ["b"]}}}, "b"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, None),
        ({"$ref": "#/nowhere/at/all"}, None),
        ({}, None),
    ],
)
def test_an_example_of_a_schema(schema: dict[str, Any], expected: Any) -> None:
    assert example_of(schema) == expected
