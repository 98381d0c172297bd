"""A message without words is refused over HTTP, and nothing of it is stored."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from pilotage import Agent, AgentExecutionSpec, AgentSignalKind, Application, Principal, RecoveryStrategy
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.runtime import AgentRuns, next_signal
from pilotage.testing import MemoryStore

MESSAGE = AgentSignalKind.USER_MESSAGE


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, accepted_signals=[MESSAGE]))
class Listener:
    async def execute(self) -> str:
        return str((await next_signal(MESSAGE)).payload["text"])


@pytest.mark.parametrize("payload", [{}, {"text": ""}, {"words": "hello"}])
async def test_a_message_without_words_is_refused(payload: dict[str, str]) -> None:
    store, ada = MemoryStore(), Principal("ada")
    async with Application("ears").add(Listener, *store.ports).load_plugins() as app:
        run = await app.get(AgentRuns).start(Listener, principal=ada)
        await run.result()
        api = FastAPI()
        api.include_router(agent_routes(app, principal=BearerTokens({"secret-token": ada})))
        transport, sender = httpx.ASGITransport(app=api), {"Authorization": "Bearer secret-token"}
        async with httpx.AsyncClient(transport=transport, base_url="http://ears", headers=sender) as client:
            asked = {"kind": "user_message", "payload": payload}
            answer = await client.post(f"/runs/{run.id}/signals", json=asked)
        assert 400 <= answer.status_code < 500
        assert "has no text" in answer.json()["detail"]
        assert await store.signals.list_pending(run.id) == []
