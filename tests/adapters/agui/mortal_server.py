"""A server in a process of its own, which a test kills in the middle of a stream.

`python -m tests.adapters.agui.mortal_server hold|answer`: its model says the first word and then holds the line, or
answers with the number of messages of users that it was shown.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.adapters.agui import AGUICompatible, agui_extension
from pilotage.adapters.fastapi import serve
from pilotage.agent import (
    IAgentModel,
    ModelMessageRole,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)


class Line(IAgentModel):
    """Says a word, and holds the line or goes on."""

    def __init__(self, *, holds: bool) -> None:
        self._holds = holds

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("nobody asks for the whole reply")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, "Hold")
        if self._holds:
            await asyncio.Event().wait()
        users = sum(message.role is ModelMessageRole.USER for message in request.messages)
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, f" on {users}.")
        yield ModelStreamEvent(ModelStreamEventKind.DONE)


@AGUICompatible("/holder")
@Agent(spec=AgentExecutionSpec(name="holder", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Holder:
    """Hold the line."""


def main(*, holds: bool) -> None:
    """Serve on a free port, which the log names."""
    app = Application("line").add(Holder, Line(holds=holds)).load_plugins()
    serve(app, port=0, extensions=[agui_extension(app)], worker=False)


if __name__ == "__main__":
    main(holds=sys.argv[1] == "hold")
