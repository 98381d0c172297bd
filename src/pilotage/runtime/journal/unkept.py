"""The ledger of a run that nobody keeps: the same questions, and nothing is written.

For agents that declare no durability. Such a run lives as long as its reader; it cannot pause, and nobody can bring
it back.
"""

from __future__ import annotations

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.conversations import ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import JournalStage, OutboxEvent, RunKey
from pilotage.agent.state import AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.actions.action import Action
from pilotage.runtime.journal.ledger import Ledger


class UnkeptLedger(Ledger):
    """Remembers the state of the run, and what killed it."""

    is_kept = False

    def __init__(self, run: RunKey, state: AgentState, conversations: ITaskStore | None = None) -> None:
        self._conversations = conversations
        self._turns: ConversationTurns | None = None
        self.run = run
        self.state = state
        self.epoch = 1
        self._death: BaseException | None = None

    def claim(self, record: JsonValue, view: JsonValue) -> None:
        return

    async def prove(self) -> None:
        self.check_alive()

    def append(
        self,
        action: Action,
        stage: JournalStage,
        attempt: int,
        record: JsonValue,
        view: JsonValue,
        tool: AgentToolDescriptor | None = None,
    ) -> None:
        self.check_alive()

    def say(self, turns: ConversationTurns | None) -> None:
        self._turns = turns

    def prove_by(self, evidence: AgentEvidence) -> None:
        return

    def move(self, state: AgentState) -> None:
        self.check_alive()
        self.state = state

    def report(self, fact: OutboxEvent) -> None:
        return

    def consume(self, signal_id: str) -> None:
        self.check_alive()

    async def barrier(self) -> None:
        self.check_alive()
        said, self._turns = self._turns, None
        if said is not None and self._conversations is not None:
            await self._conversations.append_turns(self.run.tenant_id, said.conversation_id, said.turns)

    @property
    def is_settled(self) -> bool:
        return True

    async def settle(self) -> None:
        return
