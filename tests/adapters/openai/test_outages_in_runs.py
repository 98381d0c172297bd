"""A server that breaks off, is overloaded or sends broken calls, and durable runs that come to their end all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.openai.byte_server import ByteServer, model_of
from tests.behaviour.bureau import COMPLETED, Bureau, asked, hired, triple
from tests.behaviour.newsdesk import pass_time
from tests.behaviour.office import Worker

from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.state import AgentSituation
from pilotage.runtime import WorkerSettings

WAITING = AgentSituation.MODEL_UNAVAILABLE.value


def frame(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "r", "choices": [choice]}).encode() + b"\n\n"


WHOLE = [frame({"content": "one two"}), frame({}, "stop"), b"data: [DONE]\n\n"]
Answer = list[bytes | ModelServerError]
KILLED: Answer = [frame({"content": "one tw"}), failed(ModelFailure.BROKEN_STREAM, "connection reset")]
LOST: Answer = [frame({"content": "one tw"})]


async def asks(worker: Worker) -> object:
    return (await asked(worker)).content


@pytest.mark.parametrize(
    "outage",
    [
        KILLED,
        LOST,
        failed(ModelFailure.OVERLOADED, status=503),
        failed(ModelFailure.RATE_LIMITED, status=429),
    ],
    ids=["killed", "lost", "503", "429"],
)
async def test_an_outage_of_a_server_ends_no_durable_run(outage: Answer | ModelServerError) -> None:
    bureau, agent = Bureau(), hired()
    model = model_of(ByteServer(outage, outage, outage, outage, list(WHOLE)))
    worker = (WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), bureau.store.backlog)
    async with bureau.process(agent, asks, *worker, model=model) as runs:
        handle = await runs.start(agent, "A-17")
        await pass_time(bureau.clock, 6)
        assert triple(await runs.get(handle.id)) in (WAITING, AgentSituation.RUNNING.value)
        await pass_time(bureau.clock, 200, step=2)
        assert triple(await runs.get(handle.id)) == COMPLETED
        assert (await runs.result(handle.id)).output == "one two"


async def test_a_server_that_refuses_ends_the_run() -> None:
    bureau, agent = Bureau(), hired()
    model = model_of(ByteServer(failed(ModelFailure.REFUSED_REQUEST, status=400)))
    async with bureau.process(agent, asks, model=model) as runs:
        result = await (await runs.start(agent, "A-17")).result()
    assert triple(result.state) == AgentSituation.FAILED.value
