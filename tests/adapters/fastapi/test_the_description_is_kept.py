"""Requests made up from the description: no failure of ours, nothing of another tenant, no tool without a decision."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.adapters.fastapi.harbour import ADA, EVE, PEOPLE
from tests.random_tests import examples

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    Application,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.fastapi import HttpSettings, asgi_application
from pilotage.adapters.fastapi.server import GracefulServer
from pilotage.agent.messages import ModelToolCall
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SECRET = "the-launch-code-of-another-tenant"
EXAMPLES = 15


class Vault:
    """What may only be opened when somebody says so."""

    def __init__(self) -> None:
        self.opened: list[str] = []


@Pod
class Doors:
    """Opens the vault."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    @agent_tool(effects=ToolEffects.destructive_action())
    async def open_vault(self, why: str) -> str:
        """Open the vault."""
        self.vault.opened.append(why)
        return "open"


class Adversary(IAgentModel):
    """Calls the gated tool, whatever it is asked."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("nobody asks for the whole reply")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        call = ModelToolCall(name="open_vault", arguments={"why": "I was told to"})
        yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("", tool_calls=[call]))


@Agent(
    spec=AgentExecutionSpec(
        name="guard",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
    )
)
class VaultGuard:
    """Guard the vault."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors


def application(vault: Vault) -> Application:
    app = Application("vault").add(VaultGuard, Doors, Adversary(), vault, *MemoryStore().ports)
    initialize(app)
    return app


DESCRIPTION = asgi_application(application(Vault()), principal=PEOPLE).openapi()
SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)
OPERATIONS = [
    (method.upper(), path) for path, operations in DESCRIPTION["paths"].items() for method in operations
]
# Nothing that these take could be wrong.
PLAIN = ("/healthz", "/readyz")
CASES = [
    (method, path, mode)
    for method, path in OPERATIONS
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or path not in PLAIN
]


@dataclass
class World:
    """A server, what it guards, and runs that clients may try to reach."""

    client: httpx.Client
    vault: Vault
    own: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    questions: list[str] = field(default_factory=list[str])

    def start(self, headers: dict[str, str], words: str) -> str:
        """A run that waits for a decision."""
        body = {"agent": "guard", "input": words, "metadata": {"note": words}}
        run_id: str = self.client.post("/runs", json=body, headers=headers).json()["id"]
        assert "run_paused" in self.client.get(f"/runs/{run_id}/events", headers=headers).text
        (question,) = self.client.get(f"/runs/{run_id}/questions", headers=headers).json()["questions"]
        self.questions.append(question["id"])
        return run_id


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    vault = Vault()
    app = application(vault)
    limits = HttpSettings(shutdown_seconds=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = GracefulServer.over(
            app, asgi_application(app, principal=PEOPLE, settings=limits), "127.0.0.1", 0, limits
        )
        server.config.log_config = None
        thread = threading.Thread(target=asyncio.run, args=(server.serve([listening]),))
        thread.start()
        try:
            with httpx.Client(base_url=address, timeout=240) as client:
                world = World(client, vault)
                world.own = [world.start(ADA, f"own {number}") for number in range(3)]
                client.post(f"/runs/{world.own[0]}/cancel", headers=ADA)
                world.foreign = [world.start(EVE, SECRET)]
                yield world
        finally:
            server.should_exit = True
            thread.join()


def aimed(case: Case, draw: st.DataObject, world: World) -> None:
    """Let a request that was made up mean something that is there, now and then."""
    ids = [*world.own, *world.foreign]
    if case.path_parameters and "run_id" in case.path_parameters and draw.draw(st.booleans()):
        case.path_parameters["run_id"] = draw.draw(st.sampled_from(ids))
    if not isinstance(case.body, dict):
        return
    if "agent" in case.body and draw.draw(st.booleans()):
        case.body["agent"] = "guard"
    if "request_id" in case.body and draw.draw(st.booleans()):
        case.body["request_id"] = draw.draw(_forged(world.questions))


def _forged(questions: list[str]) -> st.SearchStrategy[str]:
    """Ids of questions that are almost right. The right ones are for people."""
    return st.sampled_from(questions).map(lambda each: each[:-1] + ("0" if each[-1] != "0" else "1"))


@pytest.mark.parametrize(
    ("method", "path", "mode"), CASES, ids=[f"{mode.value}-{method}-{path}" for method, path, mode in CASES]
)
def test_what_is_made_up_from_the_description_is_answered_as_it_says(
    world: World, method: str, path: str, mode: GenerationMode
) -> None:
    operation = SCHEMA[path][method]

    @settings(
        examples(EXAMPLES),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode), draw=st.data())
    def ask(case: Case, draw: st.DataObject) -> None:
        aimed(case, draw, world)
        response = case.call(base_url=str(world.client.base_url), headers=ADA)
        case.validate_response(response, checks=CHECKS)
        assert SECRET not in response.content.decode()

    ask()
    assert world.vault.opened == []
    for run_id in world.foreign:
        mine: dict[str, Any] = world.client.get(f"/runs/{run_id}", headers=EVE).json()
        assert (mine["status"], mine["reason"]) == ("interrupted", "approval_required")


@pytest.mark.parametrize("question", [0, 1, 2, 3])
def test_an_answer_that_somebody_makes_up_opens_nothing(world: World, question: int) -> None:
    """The right ids in the wrong hands, the wrong ids in the right hands."""
    right = world.questions[question]
    owner, other = (EVE, ADA) if question == 3 else (ADA, EVE)
    run_id = [*world.own, *world.foreign][question]
    for headers, asked in (
        (other, right),
        (owner, right[:-4] + "0000"),
        (owner, world.questions[question - 1]),
    ):
        body = {"request_id": asked, "decision": "approve"}
        answer = world.client.post(f"/runs/{run_id}/answers", json=body, headers=headers)
        assert answer.status_code in (404, 409)
        world.client.post(f"/runs/{run_id}/resume", headers=headers)
    assert world.vault.opened == []
