"""The messages of a thread, for pages that are loaded anew: those of its runs, with the ids of their streams."""

from __future__ import annotations

from ag_ui import core as agui

from pilotage.adapters.agui.frames import TranscriptOfFrames
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.events.feed import Transcript
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.runs import AgentRuns

_MOST_RUNS = 50
"""The runs of a thread that are read, the newest ones."""


class ThreadHistory:
    """Reads the messages of the threads of one agent, for one principal. A run that cannot be read is left out."""

    def __init__(self, runs: AgentRuns, agent_id: str, principal: Principal) -> None:
        self._runs = runs
        self._agent_id = agent_id
        self._principal = principal

    async def runs_of(self, thread: str) -> list[AgentState]:
        """Return the newest runs of a thread, the oldest of them first.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        page = await self._runs.list(
            agent=self._agent_id, conversation_id=thread, limit=_MOST_RUNS, principal=self._principal
        )
        return [state for state in reversed(page.runs) if state.metadata.get(words.PARENT) is None]

    async def messages(self, thread: str, *, without: str | None = None) -> list[agui.Message]:
        """Return the messages of a thread in order; those of one run can be left out.

        Raises:
            CallerError: the store does not know the threads of its runs.
        """
        found: list[agui.Message] = []
        for state in await self.runs_of(thread):
            if state.id != without:
                found += await self.messages_of(state)
        return found

    async def messages_of(self, state: AgentState) -> list[agui.Message]:
        """Return the messages of one run: that of the user, and those of its stream so far."""
        try:
            return [*await self.asked_by(state), *await self._answers_of(state)]
        except PilotageError:
            # It was erased, or its record is damaged.
            return []

    async def asked_by(self, state: AgentState) -> list[agui.Message]:
        """Return the message of the user that started a run, as readers may see it."""
        async for row in self._runs.services.journal.read(RunKey(state.tenant_id, state.id)):
            given = object_or_empty(object_or_empty(row.view).get(words.INPUT))
            text = given.get(words.INSTRUCTION) or _only_text(given)
            return [agui.UserMessage(id=f"{state.id}:user", content=text)] if isinstance(text, str) else []
        return []

    async def _answers_of(self, state: AgentState) -> list[agui.Message]:
        events = self._runs.events(state.id, follow=False, principal=self._principal)
        transcript, shown = Transcript(), TranscriptOfFrames()
        async for event in events:
            transcript.add(event, events.cursor)
        projector = AgUiProjector(marks_calls=True)
        for event in transcript.events:
            shown.take(projector.project(event))
        return shown.messages


def _only_text(given: JsonObject) -> JsonValue:
    """Return the text that an `execute()` of one parameter was given."""
    values = list(given.values())
    return values[0] if len(values) == 1 else None
