"""The assistant over HTTP: `pilotage serve examples.code_assistant.application:app`.

| where | what |
|---|---|
| `/assistant` | a task in, the items of `execute()` out, as server-sent events; over a WebSocket: `/assistant/ws` |
| `/agui` | the declared assistant for AG-UI clients, also below `/agui/stream` and `/agui/ws` |
| `/runs` | everything about runs: questions, answers, signals, events that a client comes back to |

A client that goes away leaves the run alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import FastAPI, WebSocket, status

from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.task import CodeResult, CodeTask
from pilotage import AgentYield, AgentYieldJsonEncoder, Application
from pilotage.adapters.agui import agui_extension
from pilotage.adapters.fastapi import ApiController, asgi_application, sse, websocket


@ApiController(prefix="/assistant")
class AssistantController:
    """One task, one stream: the agent is called like any other component."""

    def __init__(self, assistant: CodeAssistant) -> None:
        self.assistant = assistant

    @sse("", method="POST")
    async def stream(self, task: CodeTask) -> AsyncIterator[AgentYield[CodeResult]]:
        """What the assistant says and does, as server-sent events."""
        async for item in self.assistant.execute(task):
            yield item

    @websocket("/ws")
    async def talk(self, socket: WebSocket) -> None:
        """The same over a WebSocket; the first message is the task."""
        await socket.accept()
        try:
            task = CodeTask.model_validate(await socket.receive_json())
        except ValueError:
            await socket.close(status.WS_1008_POLICY_VIOLATION, "that is no task")
            return
        async for item in self.assistant.execute(task):
            await socket.send_json(AgentYieldJsonEncoder.encode(item))
        await socket.close()


def served(app: Application) -> FastAPI:
    """Everything in one FastAPI application, for a server of your own or for a test."""
    return asgi_application(app, extensions=[agui_extension(app)])
