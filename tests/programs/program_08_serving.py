"""Serving, word for word as users write it; the agent is one that chats can talk to as well."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import FastAPI, WebSocket
from pydantic import BaseModel, model_validator

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    AgentYieldJsonEncoder,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Principal,
    RecoveryStrategy,
    Token,
)
from pilotage.adapters.agui import AgUiConfig, add_agui_endpoint, driver_for
from pilotage.adapters.fastapi import BearerTokens, Inject, agent_routes, pilotage_lifespan


class CodeTask(BaseModel):
    goal: str

    @model_validator(mode="before")
    @classmethod
    def from_words(cls, given: Any) -> Any:
        return {"goal": given} if isinstance(given, str) else given


@Agent(spec=AgentExecutionSpec(name="code_assistant", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class CodeAssistant:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, task: CodeTask) -> AsyncGenerator[AgentYield[str], None]:
        async for event in self.model.stream(ModelRequest(messages=[ModelMessage.user(task.goal)])):
            if event.is_text_delta:
                yield Token(event.text)
            if event.is_final:
                yield Final(event.text)


def main(app: Application) -> FastAPI:
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(agent_routes(app, principal=BearerTokens({"secret-token": Principal("ada", tenant="acme")})))
    add_agui_endpoint(api, run_driver_factory=driver_for(app, CodeAssistant), config=app.get(AgUiConfig))


    @api.websocket("/agents/code")
    async def code_socket(socket: WebSocket, agent: Annotated[CodeAssistant, Inject()]) -> None:      # no framework server needed
        await socket.accept()
        async for item in agent.execute(CodeTask.model_validate(await socket.receive_json())):
            await socket.send_json(AgentYieldJsonEncoder.encode(item))

    return api
