"""A diverged run over HTTP: what it shows, and the decisions about it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.adapters.fastapi.harbour import ADA, EVE, PEOPLE
from tests.behaviour.newsdesk import let_run
from tests.behaviour.office import Office, Worker

from pilotage.adapters.fastapi import agent_routes

Program = Callable[[Worker], Awaitable[object]]


async def earlier(worker: Worker) -> object:
    await worker.desk.pay(Decimal(1))
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def later(worker: Worker) -> object:
    await worker.desk.note("paid")
    return (await worker.desk.refund(Decimal(1))).number


async def other_amount(worker: Worker) -> object:
    paid = await worker.desk.pay(Decimal(2))
    await worker.desk.note("paid")
    await worker.desk.refund(Decimal(1))
    return paid.number


@asynccontextmanager
async def serving(office: Office, program: Program) -> AsyncGenerator[httpx.AsyncClient]:
    async with office.process(program) as runs:
        api = FastAPI()
        api.include_router(agent_routes(runs.services.app, principal=PEOPLE))
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=ADA) as client:
            yield client


@asynccontextmanager
async def diverged(office: Office, program: Program) -> AsyncGenerator[tuple[httpx.AsyncClient, str]]:
    """A client, and the path of a run that has diverged."""
    async with serving(office, earlier) as client:
        run_id = (await client.post("/runs", json={"agent": "clerk", "input": "A-17"})).json()["id"]
        assert "run_paused" in (await client.get(f"/runs/{run_id}/events")).text
    async with serving(office, program) as client:
        assert (await client.post(f"/runs/{run_id}/resume")).status_code == 202
        await let_run(300)
        yield client, f"/runs/{run_id}"


async def test_a_diverged_run_shows_both_sides_and_no_question() -> None:
    async with diverged(Office(), later) as (client, run):
        shown = (await client.get(run)).json()
        assert (shown["status"], shown["reason"]) == ("interrupted", "diverged")
        found = shown["divergence"]
        assert (found["recorded"]["label"], found["asked"]["label"]) == ("tool:pay", "tool:note")
        assert (found["recorded"]["arguments"], found["asked"]["arguments"]) == (
            {"amount": "1"},
            {"what": "paid"},
        )
        assert found["line"].startswith("tests/adapters/fastapi/test_resolutions_over_http.py:")
        assert (await client.get(f"{run}/questions")).json() == {"questions": []}
        assert '"divergence"' in (await client.get(f"{run}/events")).text


async def test_a_call_is_skipped_and_the_run_goes_on() -> None:
    office = Office()
    async with diverged(office, later) as (client, run):
        decided = await client.post(
            f"{run}/resolutions", json={"skip": "run/tool:pay#1", "reason": "not needed"}
        )
        assert (decided.status_code, decided.json()["status"]) == (202, "active"), decided.text
        await let_run(300)
        shown = (await client.get(run)).json()
        assert (shown["reason"], shown["divergence"]) == ("approval_required", None)
        (question,) = (await client.get(f"{run}/questions")).json()["questions"]
        answer = {"request_id": question["id"], "decision": "approve"}
        assert (await client.post(f"{run}/answers", json=answer)).status_code == 202
        await let_run(300)
        assert (await client.get(run)).json()["status"] == "completed"
        assert (await client.get(f"{run}/verification")).status_code == 200
        evidence = (await client.get(f"{run}/evidence")).json()["evidence"]
        assert [each["payload"]["comment"] for each in evidence if each["payload"].get("decision") == "skip"]
    assert office.world.done == ["pay 1", "note paid", "refund 1"]


async def test_a_call_gets_a_result_and_another_one_is_refused_with_the_schema() -> None:
    office = Office()
    async with diverged(office, other_amount) as (client, run):
        body = {"done": "run/tool:pay#1", "reason": "paid by hand"}
        refused = await client.post(f"{run}/resolutions", json={**body, "result": 7})
        assert refused.status_code == 409
        assert '"number"' in refused.json()["detail"]
        given = {**body, "result": {"number": 7, "amount": "2"}}
        assert (await client.post(f"{run}/resolutions", json=given)).status_code == 202
        await let_run(300)
        assert (await client.get(run)).json()["reason"] == "approval_required"
    assert office.world.done == ["pay 1", "note paid"]


async def test_a_fork_is_another_run() -> None:
    async with diverged(Office(), other_amount) as (client, run):
        forked = await client.post(f"{run}/resolutions", json={"fork_at": 2, "reason": "again"})
        assert forked.status_code == 202
        assert f"/runs/{forked.json()['id']}" != run
        assert (await client.get(run)).json()["reason"] == "diverged"


BODIES: list[dict[str, Any]] = [
    {"skip": "run/tool:pay#1"},
    {"reason": "why"},
    {"skip": "a", "fork_at": 2, "reason": "why"},
    {"done": "run/tool:pay#1", "reason": "why"},
    {"skip": "a", "result": 1, "reason": "why"},
    {"fork_at": 0, "reason": "why"},
]


@pytest.mark.parametrize("body", BODIES)
async def test_a_body_that_is_no_decision_is_refused(body: dict[str, Any]) -> None:
    async with diverged(Office(), later) as (client, run):
        assert (await client.post(f"{run}/resolutions", json=body)).status_code == 422


async def test_a_run_of_another_tenant_is_not_found() -> None:
    async with diverged(Office(), later) as (client, run):
        body = {"skip": "run/tool:pay#1", "reason": "why"}
        assert (await client.post(f"{run}/resolutions", json=body, headers=EVE)).status_code == 404


async def test_a_question_about_an_unknown_outcome_says_what_is_known_of_the_attempt() -> None:
    office = Office()
    office.world.failures["pay 1"] = ConnectionError("gone")
    async with serving(office, earlier) as client:
        run_id = (await client.post("/runs", json={"agent": "clerk", "input": "A-17"})).json()["id"]
        await client.get(f"/runs/{run_id}/events")
        (question,) = (await client.get(f"/runs/{run_id}/questions")).json()["questions"]
    begun = question["begun"]
    assert begun["idempotency_key"] == office.world.knocks[0][1]
    assert (begun["epoch"], begun["process"], begun["may_be_alive"]) == (1, None, None)
    assert set(begun["result_schema"]["properties"]) == {"number", "amount"}
