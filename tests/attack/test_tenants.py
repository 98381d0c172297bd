"""Every method of `AgentRuns`, every route and every AG-UI input, for another tenant: a foreign id is not found.

The methods and routes are read from the class and the router: a new one fails here until it has a probe. What is said
about a foreign run is what is said about none, and nothing changes.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from pilotage import Agent, AgentStatus, Application, Principal
from pilotage.adapters.agui import add_agui_endpoint, driver_for, frames_for, line_of
from pilotage.adapters.fastapi import agent_routes
from pilotage.agent.evidence import AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.signals import AgentSignalKind, AgentSteeringUpdate, ApprovalDecision
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.inbound.authentication import BearerTokens
from pilotage.runtime import AgentRuns, GivenAnswer
from pilotage.runtime.journal.resolution import SkipAction
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, says
from tests.attack.test_approvals import Bank, Payer, World

pytestmark = pytest.mark.attack("tenants")

ADA, EVE = Principal("ada", tenant="acme"), Principal("eve", tenant="globex")
ADAS, EVES = "the-token-of-ada", "the-token-of-eve"
_ID = re.compile(r"[0-9a-f]{32}")
NONE = "0" * 32
"""The id of no run."""
CANARY = "canary-7f3a"
DIGEST = "0" * 64


class Victim:
    """A run of one tenant that waits, and everything that the other tenant can try."""

    def __init__(self, app: Application, world: World) -> None:
        self.app, self.world = app, world
        self.runs = app.get(AgentRuns)
        self.run_id = self.request_id = ""

    async def begin(self) -> None:
        handle = await self.runs.start(Payer, CANARY, principal=ADA, id="mine", conversation_id="talk")
        await handle.result()
        (question,) = await self.runs.questions(handle.id)
        self.run_id, self.request_id = handle.id, question.id

    async def content(self) -> list[object]:
        """All that is stored of the run."""
        store, state = self.world.store, await self.runs.get(self.run_id, principal=ADA)
        return [
            state,
            await self.runs.evidence(self.run_id, principal=ADA),
            await self.runs.questions(self.run_id, principal=ADA),
            await store.signals.list_pending(self.run_id),
            await store.signals.list_answers(self.run_id),
            await self.runs.list(principal=ADA),
        ]


@asynccontextmanager
async def victim() -> AsyncGenerator[Victim, None]:
    world = World()
    app = Application("tenants").add(Payer, Bank, world, world.clock, ScriptedModel([]))
    initialize(app.add(*world.store.ports))
    async with app:
        found = Victim(app, world)
        await found.begin()
        before = await found.content()
        yield found
        assert await found.content() == before
        assert world.paid == []
        await found.runs.approve(found.request_id, principal=ADA)
        result = await (await found.runs.resume(found.run_id, principal=ADA)).result()
        assert (result.status, world.paid) == (AgentStatus.COMPLETED, [5])


def of(run_id: str, request_id: str) -> str:
    """The id of the request as one of the run."""
    return f"{run_id}:{request_id.partition(':')[2]}"


Method = Callable[[Victim, str, str], Any]
APPROVE = ApprovalDecision.APPROVE
JUDGED = AgentEvidenceCandidate(AgentEvidenceKind.EVALUATION, {"score": 0})

METHODS: dict[str, Method] = {
    "add_evidence": lambda v, run, q: v.runs.add_evidence(run, JUDGED, principal=EVE),
    "answer": lambda v, run, q: v.runs.answer(run, q, APPROVE, principal=EVE),
    "answer_all": lambda v, run, q: v.runs.answer_all(run, [GivenAnswer(q, APPROVE)], principal=EVE),
    "answered_questions": lambda v, run, q: v.runs.answered_questions(run, principal=EVE),
    "approvals": lambda v, run, q: v.runs.approvals(run, principal=EVE),
    "approve": lambda v, run, q: v.runs.approve(q, principal=EVE),
    "cancel": lambda v, run, q: v.runs.cancel(run, principal=EVE),
    "claims": lambda v, run, q: v.runs.claims(run, principal=EVE),
    "decide": lambda v, run, q: v.runs.decide(run, q, APPROVE, principal=EVE),
    "defer": lambda v, run, q: v.runs.defer(q, principal=EVE),
    "events": lambda v, run, q: anext(v.runs.events(run, principal=EVE)),
    "evidence": lambda v, run, q: v.runs.evidence(run, principal=EVE),
    "fork": lambda v, run, q: v.runs.fork(run, principal=EVE),
    "get": lambda v, run, q: v.runs.get(run, principal=EVE),
    "media": lambda v, run, q: v.runs.media(run, DIGEST, principal=EVE),
    "modify": lambda v, run, q: v.runs.modify(q, {"amount": 9}, principal=EVE),
    "outline": lambda v, run, q: v.runs.outline(run, principal=EVE),
    "prompts": lambda v, run, q: v.runs.prompts(run, principal=EVE),
    "questions": lambda v, run, q: v.runs.questions(run, principal=EVE),
    "reject": lambda v, run, q: v.runs.reject(q, principal=EVE),
    "resolve": lambda v, run, q: v.runs.resolve(run, SkipAction("run/tool:pay#1"), reason="x", principal=EVE),
    "result": lambda v, run, q: v.runs.result(run, principal=EVE),
    "resume": lambda v, run, q: v.runs.resume(run, principal=EVE),
    "signal": lambda v, run, q: v.runs.signal(run, AgentSignalKind.CANCEL, principal=EVE),
    "steer": lambda v, run, q: v.runs.steer(run, AgentSteeringUpdate("a", "left"), principal=EVE),
    "take_up": lambda v, run, q: v.runs.take_up(run, principal=EVE),
    "verify": lambda v, run, q: v.runs.verify(run, principal=EVE),
    "waiting_answers": lambda v, run, q: v.runs.waiting_answers(run, principal=EVE),
}
WITHOUT_A_FOREIGN_ID = {
    "list": "the runs of the principal's tenant, tested below",
    "open_questions": "the questions of the principal's tenant, tested below",
    "costs": "what the principal's tenant paid, tested below",
    "upload": "new media of the principal's tenant, tested in tests/media",
    "start": "a new run of the principal's tenant, tested below",
    "is_driven": "for the process itself, after a call that checks the principal",
    "hand_over": "for the process itself",
    "stop": "for the process itself",
}


def test_every_method_of_the_service_is_probed() -> None:
    public = [
        name for name, _ in inspect.getmembers(AgentRuns, inspect.isfunction) if not name.startswith("_")
    ]
    assert METHODS.keys() | WITHOUT_A_FOREIGN_ID.keys() == set(public)


async def told(attempt: Awaitable[object]) -> str:
    with pytest.raises(RunNotFoundError) as refused:
        await attempt
    return str(refused.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", METHODS)
async def test_a_run_of_another_tenant_is_not_found_by_the_service(name: str) -> None:
    async with victim() as found:
        method = METHODS[name]
        there = await told(method(found, found.run_id, found.request_id))
        nowhere = await told(method(found, NONE, of(NONE, found.request_id)))
        assert there.replace(found.run_id, NONE) == nowhere


async def test_lists_and_names_of_another_tenant_are_its_own() -> None:
    async with victim() as found:
        assert (await found.runs.list(principal=EVE)).runs == ()
        assert (await found.runs.list(conversation_id="talk", principal=EVE)).runs == ()
        handle = await found.runs.start(Payer, "x", principal=EVE, id="mine", conversation_id="talk")
        assert handle.id != found.run_id
        await handle.result()
        assert [each.id for each in (await found.runs.list(principal=EVE)).runs] == [handle.id]


def api_of(app: Application) -> FastAPI:
    api = FastAPI()
    api.include_router(agent_routes(app, principal=BearerTokens({ADAS: ADA, EVES: EVE})))
    return api


BODIES: dict[tuple[str, str], Callable[[str], object]] = {
    ("GET", "/runs/{run_id}"): lambda q: None,
    ("GET", "/runs/{run_id}/events"): lambda q: None,
    ("GET", "/runs/{run_id}/result"): lambda q: None,
    ("GET", "/runs/{run_id}/questions"): lambda q: None,
    ("GET", "/runs/{run_id}/evidence"): lambda q: None,
    ("GET", "/runs/{run_id}/verification"): lambda q: None,
    ("GET", "/runs/{run_id}/media/{digest}"): lambda q: None,
    ("POST", "/runs/{run_id}/signals"): lambda q: {"kind": "pause"},
    ("POST", "/runs/{run_id}/answers"): lambda q: {"request_id": q, "decision": "approve"},
    ("POST", "/runs/{run_id}/decisions"): lambda q: {"request_id": q, "decision": "approve"},
    ("POST", "/runs/{run_id}/cancel"): lambda q: {"reason": "x"},
    ("POST", "/runs/{run_id}/resume"): lambda q: None,
    ("POST", "/runs/{run_id}/fork"): lambda q: {"at": 1},
    ("POST", "/runs/{run_id}/resolutions"): lambda q: {"reason": "x", "skip": "run/tool:pay#1"},
}
WITHOUT_A_RUN = {
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", "/questions"),
    ("GET", "/agents"),
    ("GET", "/costs"),
}
SOCKETS = {"/runs/{run_id}/events"}


async def test_every_route_is_probed() -> None:
    async with victim() as found:
        routes = agent_routes(found.app, principal=BearerTokens({ADAS: ADA})).routes
        ours = [route for route in routes if isinstance(route, APIRoute)]
        assert {(method, route.path) for route in ours for method in route.methods} == {
            *BODIES,
            *WITHOUT_A_RUN,
        }
        sockets = [route for route in routes if isinstance(route, WebSocketRoute)]
        assert {route.path for route in sockets} == SOCKETS


@pytest.mark.parametrize(("method", "path"), BODIES, ids=" ".join)
async def test_a_run_of_another_tenant_is_not_found_over_http(method: str, path: str) -> None:
    async with victim() as found:
        transport = httpx.ASGITransport(app=api_of(found.app))
        headers = {"authorization": f"Bearer {EVES}"}
        said: list[str] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:
            for run_id in (found.run_id, NONE):
                body = BODIES[method, path](of(run_id, found.request_id))
                response = await client.request(method, path.format(run_id=run_id, digest=DIGEST), json=body)
                assert response.status_code == 404
                said.append(response.text.replace(run_id, NONE))
        assert said[0] == said[1]
        assert CANARY not in said[0]


async def test_the_list_over_http_is_that_of_the_tenant() -> None:
    async with victim() as found:
        transport = httpx.ASGITransport(app=api_of(found.app))
        headers = {"authorization": f"Bearer {EVES}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:
            for query in ("", "?agent=payer", "?conversation_id=talk", "?status=interrupted"):
                listed = (await client.get(f"/runs{query}")).json()
                assert listed == {"runs": [], "cursor": None, "damaged": []}
            assert (await client.get("/questions")).json() == {"questions": [], "cursor": None}
            for query in ("", "?by=run", "?by=conversation&by=tree"):
                assert (await client.get(f"/costs{query}")).json() == {"sums": []}
        assert (await found.runs.open_questions(principal=EVE)).questions == ()
        (question,) = (await found.runs.open_questions(principal=ADA)).questions
        assert question.id == found.request_id


async def test_the_agents_over_http_say_nothing_of_what_runs() -> None:
    async with victim() as found:
        transport = httpx.ASGITransport(app=api_of(found.app))
        said: list[str] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            for token in (ADAS, EVES):
                response = await client.get("/agents", headers={"authorization": f"Bearer {token}"})
                assert response.status_code == 200
                said.append(response.text)
            assert (await client.get("/agents")).status_code == 401
        assert said[0] == said[1]
        assert CANARY not in said[0]
        assert found.run_id not in said[0]


@pytest.mark.parametrize("path", sorted(SOCKETS))
async def test_a_run_of_another_tenant_is_not_found_over_a_socket(path: str) -> None:
    async with victim() as found:
        client = TestClient(api_of(found.app), headers={"authorization": f"Bearer {EVES}"})
        said: list[str] = []
        for run_id in (found.run_id, NONE):
            with (
                pytest.raises(WebSocketDenialResponse) as refused,
                client.websocket_connect(path.format(run_id=run_id)),
            ):
                pass
            assert refused.value.status_code == 404
            said.append(refused.value.text.replace(run_id, NONE))
        assert said[0] == said[1]


def _input(**fields: object) -> dict[str, object]:
    given = {"threadId": "talk", "runId": "mine", "messages": [], "state": {}, "tools": [], "context": []}
    return {**given, "forwardedProps": {}, **fields}


def _decided(decision: str, q: str) -> dict[str, object]:
    return {"interruptId": q, "status": "resolved", "payload": {"decision": decision}}


INPUTS: dict[str, Callable[[str, str], dict[str, object]]] = {
    "approve": lambda run, q: _input(resume=[_decided("approve", q)]),
    "reject": lambda run, q: _input(resume=[_decided("reject", q)]),
    "cancel the question": lambda run, q: _input(resume=[{"interruptId": q, "status": "cancelled"}]),
    "go on": lambda run, q: _input(resume=[{"interruptId": f"pause:{run}", "status": "resolved"}]),
    "cancel the pause": lambda run, q: _input(
        resume=[{"interruptId": f"pause:{run}", "status": "cancelled"}]
    ),
    "an old answer": lambda run, q: _input(
        messages=[
            {
                "id": "1",
                "role": "tool",
                "toolCallId": q,
                "content": json.dumps({"request_id": q, "decision": "approve"}),
            }
        ]
    ),
    "an answer in properties": lambda run, q: _input(
        forwardedProps={"approvalDecision": {"request_id": q, "decision": "approve"}}
    ),
    "reconnect": lambda run, q: _input(
        messages=[{"id": "1", "role": "user", "content": "x"}],
        forwardedProps={"lastEventId": f"{run}/1.1.0/1.1.0/0"},
    ),
    "a result": lambda run, q: _input(
        messages=[{"id": "1", "role": "tool", "toolCallId": "run/tool:pay#1", "content": "paid"}]
    ),
    "cancel by name": lambda run, q: _input(forwardedProps={"cancelRun": "mine"}),
    "cancel by id": lambda run, q: _input(forwardedProps={"cancelRun": run}),
}


@pytest.mark.parametrize("name", INPUTS)
async def test_a_run_of_another_tenant_is_not_found_over_agui(name: str) -> None:
    async with victim() as found:
        factory = driver_for(found.app, Payer, principal=EVE)
        said: list[str] = []
        for run_id in (found.run_id, NONE):
            text = json.dumps(INPUTS[name](run_id, of(run_id, found.request_id)))
            frames = [json.loads(line_of(each)) async for each in frames_for(factory, text)]
            # An answer always ends with RUN_FINISHED; everything else that finds no run is an error.
            assert [each["type"] for each in frames] in (
                ["RUN_ERROR"],
                ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"],
            )
            said.append(_ID.sub(NONE, str(frames)))
        assert said[0] == said[1]
        assert CANARY not in said[0]


@Agent(durable=True)
class Clerk:
    """Answer."""


async def test_a_thread_of_another_tenant_has_no_messages() -> None:
    app = Application("tenants").add(Clerk, ScriptedModel([says(CANARY)]), *MemoryStore().ports)
    async with app.load_plugins():
        run = await app.get(AgentRuns).start(Clerk, CANARY, principal=ADA, conversation_id="talk")
        await run.result()
        api = FastAPI()
        resolver = BearerTokens({ADAS: ADA, EVES: EVE})
        add_agui_endpoint(api, run_driver_factory=driver_for(app, Clerk), principal=resolver)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://t") as client:
            hers, known, unknown = [
                await client.get(f"/agui/threads/{thread}", headers={"authorization": f"Bearer {token}"})
                for token, thread in ((ADAS, "talk"), (EVES, "talk"), (EVES, "none"))
            ]
    assert [each["content"] for each in hers.json()["messages"]] == [CANARY, CANARY]
    assert known.json() == {"threadId": "talk", "messages": []}
    assert unknown.json() == {"threadId": "none", "messages": []}
    assert known.status_code == unknown.status_code == 200


async def test_the_same_input_of_another_tenant_starts_a_run_of_its_own() -> None:
    async with victim() as found:
        factory = driver_for(found.app, Payer, principal=EVE)
        text = json.dumps(_input(messages=[{"id": "1", "role": "user", "content": "x"}]))
        frames = [json.loads(line_of(each)) async for each in frames_for(factory, text)]
        assert CANARY not in str(frames)
        assert found.run_id not in str(frames)


async def test_a_refused_call_says_nothing_but_that_there_is_no_run() -> None:
    async with victim() as found:
        with pytest.raises(CallerError) as refused:
            await found.runs.answer(found.run_id, found.request_id, APPROVE, principal=EVE)
        assert str(refused.value) == f"there is no run {found.run_id!r}."
