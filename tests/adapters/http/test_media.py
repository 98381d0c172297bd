"""Media that are refused have a status and a problem of their own over HTTP, and a code in the stream of AG-UI."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.adapters.agui.bank import ask
from tests.adapters.agui.samples import ag_ui_input

from pilotage import Agent, AgentExecutionSpec, Application, Principal, RecoveryStrategy
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.agent import MediaSafetyLimits, ModelCapability
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, says

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, media_limits=MediaSafetyLimits(max_part_bytes=10)))
class Viewer:
    """Say what you see."""


def house() -> Application:
    capability = ModelCapability("eye", media_types=frozenset({"image/*"}))
    model = ScriptedModel([says("A cat.")], capability=capability)
    return Application("house").add(Viewer, model, *MemoryStore().ports).load_plugins()


REFUSED = [
    ({"media_type": "audio/wav", "data": "aGk="}, 415, "media_type_refused", "'eye' does not take"),
    ({"media_type": "image/png", "data": "aGk=" * 9}, 413, "media_too_large", "26 bytes; 10 are allowed"),
    ({"media_type": "image/png", "url": "file:///etc/passwd"}, 415, "media_type_refused", "'file'"),
]


@pytest.mark.parametrize(("part", "status", "code", "words"), REFUSED)
async def test_a_start_is_refused_with_a_problem(
    part: dict[str, str], status: int, code: str, words: str
) -> None:
    ada = Principal("ada")
    async with house() as app:
        api = FastAPI()
        api.include_router(agent_routes(app, principal=BearerTokens({"secret-token": ada})))
        transport, sender = httpx.ASGITransport(app=api), {"Authorization": "Bearer secret-token"}
        async with httpx.AsyncClient(transport=transport, base_url="http://house", headers=sender) as client:
            messages = [{"role": "user", "content": [{"text": "Look."}, part]}]
            given = {"instruction": "What is this?", "messages": messages}
            answer = await client.post("/runs", json={"agent": "Viewer", "input": given})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert words in answer.json()["detail"]
        assert not (await app.get(AgentRuns).list(principal=ada)).runs


def _source(part: dict[str, str]) -> dict[str, Any]:
    if "url" in part:
        return {"type": "url", "value": part["url"], "mimeType": part["media_type"]}
    return {"type": "data", "value": part["data"], "mimeType": part["media_type"]}


@pytest.mark.parametrize(("part", "status", "code", "words"), REFUSED)
async def test_an_input_of_ag_ui_ends_with_the_code(
    part: dict[str, str], status: int, code: str, words: str
) -> None:
    content = [{"type": "text", "text": "Look."}, {"type": "image", "source": _source(part)}]
    async with house() as app:
        frames = await ask(
            app, ag_ui_input(messages=[{"id": "u1", "role": "user", "content": content}]), Viewer
        )
        assert not (await app.get(AgentRuns).list(principal=Principal("ada"))).runs
    assert (frames[-1]["type"], frames[-1]["code"]) == ("RUN_ERROR", code)
    assert words in frames[-1]["message"]
