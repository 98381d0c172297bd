"""An architecture with the members of section 28: a draft, then its revision."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage.agent import AgentEvent, AgentSession, Dependencies, ModelMessage, ModelRequest


class DraftAndRevise:
    """Asks the model twice; the second reply is the answer."""

    name = "draft_and_revise"

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        session.messages.append(ModelMessage.user(prompt))
        for _ in range(2):
            reply = await deps.model.complete(ModelRequest(tuple(session.messages)))
            session.messages += [reply.message, ModelMessage.user(f"Better, please: {prompt}")]
            session.turns += 1
            session.output = reply.content
        return
        yield  # an async generator that has nothing to say in between

    def declared_workers(self) -> dict[str, type[object]]:
        return {}
