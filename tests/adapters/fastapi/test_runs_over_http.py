"""Stories of clients over HTTP: starting, reading, answering, ending; and what is refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.adapters.fastapi.harbour import ADA, EVE, PEOPLE, Served, served
from tests.behaviour.bureau import Bureau, hired
from tests.behaviour.newsdesk import let_run
from tests.behaviour.newsroom import Gate, Newsroom, Slow, parts, turns
from tests.behaviour.office import Clerk, Office, Worker

from pilotage import AgentSignalKind, Principal
from pilotage.adapters.fastapi import HttpSettings, TrustedHeaders, agent_routes
from pilotage.agent import IPrincipalResolver
from pilotage.container import Application
from pilotage.runtime import next_signal

READS = ["", "/events", "/result", "/questions", "/evidence", "/verification"]
ACTS: list[tuple[str, dict[str, Any]]] = [
    ("/signals", {"kind": "pause"}),
    ("/answers", {"request_id": "q", "decision": "approve"}),
    ("/decisions", {"request_id": "q", "decision": "approve"}),
    ("/cancel", {}),
    ("/resume", {}),
    ("/fork", {}),
    ("/resolutions", {"skip": "run/tool:pay#1", "reason": "why"}),
]


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(Newsroom(), parts(1), settings=HttpSettings(max_body_bytes=10_000)) as at:
        yield at


async def started(at: Served) -> str:
    """A run that has come to its end."""
    answer = await at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": 1}})
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["id"]
    await at.client.get(f"/api/runs/{run_id}/events")
    return run_id


async def test_a_run_is_started_and_read() -> None:
    async with served(Newsroom(), parts(1)) as at:
        answer = await at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": 1}})
        run_id = answer.json()["id"]
        assert answer.headers["location"] == f"/api/runs/{run_id}"
        assert answer.headers["cache-control"] == "no-store"
        await at.client.get(f"/api/runs/{run_id}/events")
        assert (await at.client.get(answer.headers["location"])).json()["status"] == "completed"
        assert (await at.client.get(f"/api/runs/{run_id}/result")).json()["output"] == "all parts"
        evidence = (await at.client.get(f"/api/runs/{run_id}/evidence")).json()["evidence"]
        assert {"tool", "model"} <= {each["kind"] for each in evidence}
        assert (await at.client.get(f"/api/runs/{run_id}/verification")).json()["rows"] > 3


async def test_the_same_id_attaches_to_the_run_it_started_and_refuses_another_input(server: Served) -> None:
    body = {"agent": "reporter", "input": {"parts": 1}, "id": "order-1"}
    first = await server.client.post("/api/runs", json=body)
    again = await server.client.post("/api/runs", json=body)
    assert first.json()["id"] == again.json()["id"]
    other = await server.client.post("/api/runs", json={**body, "input": {"parts": 2}})
    assert (other.status_code, other.json()["code"]) == (409, "run_conflict")


async def test_runs_are_listed_page_by_page(server: Served) -> None:
    ids = [await started(server) for _ in range(3)]
    page = (await server.client.get("/api/runs", params={"limit": 2})).json()
    rest = (await server.client.get("/api/runs", params={"limit": 2, "after": page["cursor"]})).json()
    assert [each["id"] for each in (*page["runs"], *rest["runs"])] == ids[::-1]
    assert rest["cursor"] is None
    active = await server.client.get("/api/runs", params={"status": ["active", "created"]})
    assert active.json() == {"runs": [], "cursor": None, "damaged": []}
    other = await server.client.get("/api/runs", params={"agent": "writer"})
    assert other.json() == {"runs": [], "cursor": None, "damaged": []}


async def refund(worker: Worker) -> object:
    """Ask a person, then pay."""
    return (await worker.desk.refund(Decimal(5))).number


@asynccontextmanager
async def asked(office: Office) -> AsyncGenerator[tuple[httpx.AsyncClient, str, dict[str, Any]], None]:
    """A client, the path of a run that waits, and an answer to its question."""
    async with office.process(refund) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE))
        async with client_of(api) as client:
            run_id = (await client.post("/runs", json={"agent": "clerk", "input": "A-17"})).json()["id"]
            assert "run_paused" in (await client.get(f"/runs/{run_id}/events")).text
            (question,) = (await client.get(f"/runs/{run_id}/questions")).json()["questions"]
            assert (question["kind"], question["arguments"]) == ("approval", {"amount": "5"})
            changed = {"decision": "modify", "modified_payload": {"amount": "7"}}
            yield client, f"/runs/{run_id}", {"request_id": question["id"], **changed}


async def test_a_run_that_needs_a_steering_instruction_shows_what_it_awaits_until_one_is_sent() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=["steering_instruction"])

    async def program(worker: Worker) -> object:
        return await worker.desk.note("steered")

    async with bureau.process(agent, program) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE))
        async with client_of(api) as client:
            body = {"agent": "worker", "input": "A-17", "steering_input_required": True}
            run = f"/runs/{(await client.post('/runs', json=body)).json()['id']}"
            assert "run_paused" in (await client.get(f"{run}/events")).text
            assert (await client.get(run)).json()["awaits"] == "steering_instruction"
            signal = {"kind": "steering_instruction", "payload": {"text": "now"}}
            assert (await client.post(f"{run}/signals", json=signal)).status_code == 202
            await client.post(f"{run}/resume")
            await client.get(f"{run}/events")
            assert (await client.get(f"{run}/result")).json()["output"] == "steered"


async def test_a_revision_of_an_instruction_that_was_taken_in_is_a_conflict() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=["steering_instruction"])

    async def program(worker: Worker) -> object:
        said = (await next_signal(AgentSignalKind.STEERING_INSTRUCTION)).payload["text"]
        await worker.desk.note(str(said))
        await next_signal(AgentSignalKind.STEERING_INSTRUCTION)
        return said

    def revision(number: int, **more: object) -> dict[str, object]:
        payload = {"input_id": "note-1", "revision": number, **more}
        return {"kind": "steering_instruction", "payload": payload}

    async with bureau.process(agent, program) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE))
        async with client_of(api) as client:
            started = await client.post("/runs", json={"agent": "worker", "input": "A-17"})
            run = f"/runs/{started.json()['id']}"
            await client.get(f"{run}/events")
            wrong = await client.post(f"{run}/signals", json=revision(0, text="left"))
            assert wrong.status_code == 409
            for sent in (revision(1, text="left"), revision(2, text="right")):
                assert (await client.post(f"{run}/signals", json=sent)).status_code == 202
            await client.post(f"{run}/resume")
            await client.get(f"{run}/events")
            late = await client.post(f"{run}/signals", json=revision(3, withdrawn=True))
            assert (late.status_code, late.json()["code"]) == (409, "steering_conflict")
            again = await client.post(f"{run}/signals", json=revision(2, text="right"))
            assert (again.status_code, again.json()["end"]) == (202, "taken")
    assert bureau.world.done == ["note right"]


@pytest.mark.parametrize("route", ["answers", "decisions"])
async def test_a_question_is_answered_once_and_the_run_goes_on(route: str) -> None:
    office = Office()
    async with asked(office) as (client, run, answer):
        answered = await client.post(f"{run}/{route}", json=answer)
        assert (answered.status_code, answered.json()["is_waiting"]) == (202, False)
        await let_run(300)
        assert (await client.get(run)).json()["status"] == "completed"
        assert office.world.done == ["refund 7"]
        again = await client.post(f"{run}/{route}", json=answer)
        assert (again.status_code, again.json()["is_waiting"]) == (202, False)
        late = await client.post(f"{run}/{route}", json={**answer, "decision": "reject"})
        assert (late.status_code, late.json()["code"]) == (409, "answer_conflict")
        assert (late.json()["decision"], late.json()["decided_by"]) == ("modify", "ada")
        assert late.json()["decided_at"] in late.json()["detail"]


@pytest.mark.parametrize("route", ["answers", "decisions"])
async def test_an_answer_may_be_stored_for_whoever_resumes_the_run(route: str) -> None:
    office = Office()
    async with asked(office) as (client, run, answer):
        stored = await client.post(f"{run}/{route}", json={**answer, "resume": False})
        assert (stored.status_code, stored.json()["status"]) == (202, "interrupted")
        assert stored.json()["is_waiting"]
        assert (await client.get(f"{run}/questions")).json()["questions"] == []
        await let_run(300)
        assert office.world.done == []
        assert (await client.post(f"{run}/resume")).status_code == 202
        assert "run_finished" in (await client.get(f"{run}/events")).text
        assert office.world.done == ["refund 7"]


async def test_the_result_of_a_run_that_has_ended_is_there_for_whoever_resumes_it(server: Served) -> None:
    run_id = await started(server)
    resumed = await server.client.post(f"/api/runs/{run_id}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "completed")


async def test_the_old_route_names_its_successor() -> None:
    async with asked(Office()) as (client, run, answer):
        deferred = {"request_id": answer["request_id"], "decision": "defer"}
        old = await client.post(f"{run}/decisions", json=deferred)
        assert (old.status_code, old.headers["deprecation"]) == (202, "true")
        assert old.headers["link"] == '<answers>; rel="successor-version"'
        assert old.url.join("answers").path == f"{run}/answers"
        new = await client.post(f"{run}/answers", json=deferred)
        assert new.status_code == 202
        assert not {"deprecation", "link"} & set(new.headers)


async def test_the_description_says_which_routes_are_deprecated(server: Served) -> None:
    paths = (await server.client.get("/openapi.json")).json()["paths"]
    assert [
        path
        for path, operations in paths.items()
        for operation in operations.values()
        if operation.get("deprecated")
    ] == ["/api/runs/{run_id}/decisions"]


async def test_a_run_is_cancelled_once() -> None:
    gate = Gate()
    async with served(Newsroom(), parts(1), Slow(gate)) as at:
        run_id = (
            await at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": 1}})
        ).json()["id"]
        await gate.reached.wait()
        ended = await at.client.post(f"/api/runs/{run_id}/cancel", json={"reason": "too slow"})
        assert ended.json() == {"cancelled": True, "is_on_its_way": False}
        again = await at.client.post(f"/api/runs/{run_id}/cancel")
        assert (again.status_code, again.json()) == (200, {"cancelled": False, "is_on_its_way": False})
        assert (await at.client.get(f"/api/runs/{run_id}")).json()["status"] == "cancelled"


async def test_a_run_that_another_process_has_is_told_to_end_there() -> None:
    gate, room = Gate(), Newsroom()
    body = {"agent": "reporter", "input": {"parts": 1}}
    async with (
        served(room, parts(1), Slow(gate), leases=True) as owner,
        served(room, parts(1), leases=True) as other,
    ):
        run_id = (await owner.client.post("/api/runs", json=body)).json()["id"]
        await gate.reached.wait()
        asked = await other.client.post(f"/api/runs/{run_id}/cancel")
        assert (asked.status_code, asked.json()) == (202, {"cancelled": False, "is_on_its_way": True})
        assert (await owner.client.get(f"/api/runs/{run_id}")).json()["status"] != "cancelled"
        room.clock.advance(60)
        told = await owner.client.get(f"/api/runs/{run_id}/events")
        assert '"code":"cancelled"' in told.text
        assert (await owner.client.get(f"/api/runs/{run_id}")).json()["status"] == "cancelled"


async def test_a_run_that_has_ended_takes_no_signals_and_is_forked() -> None:
    async with served(Newsroom(), turns(1)) as at:
        run_id = (await at.client.post("/api/runs", json={"agent": "writer", "input": "write"})).json()["id"]
        await at.client.get(f"/api/runs/{run_id}/events")
        refused = await at.client.post(f"/api/runs/{run_id}/signals", json={"kind": "pause"})
        assert (refused.status_code, refused.json()["code"]) == (409, "caller_error")
        fork = await at.client.post(f"/api/runs/{run_id}/fork")
        assert fork.status_code == 201
        assert fork.headers["location"] == f"/api/runs/{fork.json()['id']}" != f"/api/runs/{run_id}"


@pytest.mark.parametrize("path", READS)
async def test_what_another_tenant_has_is_not_found(server: Served, path: str) -> None:
    run_id = await started(server)
    answer = await server.client.get(f"/api/runs/{run_id}{path}", headers=EVE)
    nothing = await server.client.get(f"/api/runs/nothing{path}", headers=ADA)
    assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")
    assert nothing.json() == {**answer.json(), "detail": "there is no run 'nothing'."}


@pytest.mark.parametrize(("path", "body"), ACTS)
async def test_nobody_acts_on_a_run_of_another_tenant(
    server: Served, path: str, body: dict[str, Any]
) -> None:
    run_id = await started(server)
    before = await server.runs.get(run_id)
    answer = await server.client.post(f"/api/runs/{run_id}{path}", json=body, headers=EVE)
    assert answer.status_code in (404, 409)
    assert answer.json()["code"] == "run_not_found"
    assert await server.runs.get(run_id) == before


async def test_a_run_belongs_to_the_tenant_of_whoever_starts_it(server: Served) -> None:
    body = {"agent": "reporter", "input": {"parts": 1}}
    run_id = (await server.client.post("/api/runs", json=body, headers=EVE)).json()["id"]
    assert (await server.runs.get(run_id)).tenant_id == "elsewhere"
    assert (await server.client.get(f"/api/runs/{run_id}", headers=EVE)).status_code == 200
    assert (await server.client.get(f"/api/runs/{run_id}", headers=ADA)).status_code == 404


async def test_the_list_of_another_tenant_is_empty(server: Served) -> None:
    await started(server)
    assert (await server.client.get("/api/runs", headers=EVE)).json()["runs"] == []


@pytest.mark.parametrize("path", READS)
async def test_nobody_is_let_in_without_a_token(server: Served, path: str) -> None:
    answer = await server.client.get(f"/api/runs/any{path}", headers={"authorization": "Bearer nobody"})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_nothing_is_read_of_the_body_of_somebody_unknown(server: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        pytest.fail("the body was asked for")
        yield b""

    nobody = {"authorization": "Bearer nobody"}
    answer = await server.client.post("/api/runs", content=pieces(), headers=nobody)
    assert answer.status_code == 401


async def test_no_more_of_a_body_is_read_than_is_taken(server: Served) -> None:
    read: list[int] = []

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(1_000):
            read.append(number)
            yield b"x" * 1_000

    answer = await server.client.post("/api/runs", content=pieces())
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert len(read) < 15


async def test_a_resolver_that_names_nobody_lets_nobody_in() -> None:
    class Nobody(IPrincipalResolver):
        async def resolve(self, headers: object) -> Principal:
            return None  # type: ignore[return-value]

    api = FastAPI()
    api.include_router(agent_routes(Application("shop"), principal=Nobody()))
    async with client_of(api) as client:
        assert (await client.get("/runs")).status_code == 401


async def test_headers_that_come_twice_are_both_seen() -> None:
    async with Office().process(_nothing) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=TrustedHeaders("X-User")))
        async with client_of(api) as client:
            once, twice = [("X-User", "ada")], [("X-User", "ada"), ("x-user", "eve")]
            assert (await client.get("/runs", headers=once)).status_code == 200
            assert (await client.get("/runs", headers=twice)).status_code == 401


async def test_an_application_that_is_not_started_is_not_there_yet() -> None:
    api = FastAPI()
    api.include_router(agent_routes(Application("shop"), principal=PEOPLE))
    async with client_of(api) as client:
        answer = await client.get("/runs")
        assert (answer.status_code, answer.json()["code"]) == (503, "application_state_error")


BAD_STARTS: list[tuple[str | bytes, int, str]] = [
    (b"", 422, "body: Field required"),
    (b"{", 422, "JSON decode error"),
    (b"\xff", 400, "error parsing the body"),
    (b"[]", 422, "body"),
    (b"{}", 422, "body.agent: Field required"),
    (b'{"agent": "reporter", "inptu": 1}', 422, "body.inptu: Extra inputs are not permitted"),
    (b'{"agent": "nobody"}', 422, "there is no agent 'nobody' here"),
    (b'{"agent": "reporter", "input": {"parts": "many"}}', 422, "parts"),
    (b'{"agent": "reporter", "input": {"parts": 1}, "id": ""}', 422, "body.id"),
    (b'{"agent": "reporter", "input": {"parts": 1}, "metadata": {"a": NaN}}', 422, "a number is not finite"),
    (b'{"agent": "reporter", "input": ' + b"[" * 200 + b"]" * 200 + b"}", 422, "nested more than 100 levels"),
    (b'{"agent": "reporter", "metadata": {"alias": "another"}}', 422, "the key 'alias' is the run's own"),
    (b'{"agent": "reporter", "conversation_id": "a\\u0000"}', 422, "body.conversation_id"),
    (b'{"agent": "reporter", "conversation_id": " \\n"}', 422, "body.conversation_id"),
    (b'{"agent": "\\ud800"}', 422, "body.agent"),
    (b'{"agent": "' + b"x" * 20_000 + b'"}', 413, "longer than 10,000 bytes"),
]


@pytest.mark.parametrize(("body", "status", "words"), BAD_STARTS)
async def test_a_bad_start_is_refused_with_the_reason_and_starts_nothing(
    server: Served, body: bytes, status: int, words: str
) -> None:
    answer = await server.client.post("/api/runs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json()["detail"]
    assert (await server.runs.list()).runs == ()


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=999",
        "status=lost",
        "after=yesterday",
        "since=2030-01-01T00:00:00",
        "agent=nobody",
        "after=",
        "conversation_id=%00",
    ],
)
async def test_a_bad_query_is_refused(server: Served, query: str) -> None:
    answer = await server.client.get(f"/api/runs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "request_refused")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/signals", {"kind": "approval_decision", "payload": {"decision": "approve"}}),
        ("/signals", {"kind": "cancel"}),
        ("/signals", {"kind": "shout"}),
        ("/answers", {"request_id": "q", "decision": "perhaps"}),
        ("/answers", {"request_id": "q", "decision": "approve", "resume": "perhaps"}),
        ("/decisions", {"request_id": "q", "decision": "perhaps"}),
        ("/fork", {"at": 0}),
        ("/cancel", {"why": "misspelt"}),
    ],
)
async def test_a_bad_act_is_refused(server: Served, path: str, body: dict[str, Any]) -> None:
    run_id = await started(server)
    answer = await server.client.post(f"/api/runs/{run_id}{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_refused")


async def test_an_output_that_plain_utf_8_refuses_is_told_all_the_same() -> None:
    async def odd(worker: Worker) -> object:
        return "half a pair: \ud800"

    async with Office().process(odd) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE))
        async with client_of(api) as client:
            run = await runs.start(Clerk, "A-17", principal=Principal("ada"))
            await run.result()
            assert (await client.get(f"/runs/{run.id}/result")).json()["output"] == "half a pair: \ud800"


async def test_the_description_names_bodies_answers_and_problems(server: Served) -> None:
    described = (await server.client.get("/openapi.json")).json()
    paths = described["paths"]
    assert len([path for path in paths if path.startswith("/api/runs")]) == 15
    start = paths["/api/runs"]["post"]
    assert start["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/StartBody")
    assert start["responses"]["201"]["content"]["application/json"]["schema"]["$ref"].endswith("/RunView")
    assert "code" in start["responses"]["409"]["content"]["application/problem+json"]["schema"]["properties"]
    events = paths["/api/runs/{run_id}/events"]["get"]
    assert list(events["responses"]["200"]["content"]) == ["text/event-stream"]


def client_of(api: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://test", headers=ADA)


async def _nothing(worker: Worker) -> object:
    return None


async def test_the_open_questions_of_a_tenant_are_a_page_with_the_runs_that_ask() -> None:
    async with asked(Office()) as (client, run, answer):
        page = (await client.get("/questions")).json()
        (question,) = page["questions"]
        assert (f"/runs/{question['run_id']}", question["id"]) == (run, answer["request_id"])
        assert question["metadata"]["approval_requirement"]
        assert page["cursor"] is None
        assert (await client.get("/questions", headers=EVE)).json() == {"questions": [], "cursor": None}
        assert (await client.get("/questions", params={"after": "nowhere"})).status_code == 422
        await client.post(f"{run}/answers", json={**answer, "resume": False})
        assert (await client.get("/questions")).json()["questions"] == []
