"""The turns of the conversations that runs belong to, whichever store has them.

A store that is part of the journal gets the turns of a run in the commit that completes it. To any other store they are
appended after that commit; if the process dies in between, they are appended when the next run of the conversation
starts. Turns of a store that is not known to keep trust labels count as untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType

from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns, ITaskStore
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentStateRepository
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError, PilotageError, RunConflictError
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import LiveRun, Run
from pilotage.runtime.exposure.redactor import Redactor, log_failure
from pilotage.runtime.exposure.trust import label_to_keep
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal.run_input import decode_instruction
from pilotage.runtime.journal.start_record import RunStart, decode_start
from pilotage.runtime.people.signals import user_texts_in_rows
from pilotage.runtime.results import label_at_end, result_in
from pilotage.runtime.services import Services
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

_UNLABELLED = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"conversation"}))


class Conversations:
    """Reads the histories of runs, and completes those of stores outside the journal.

    `live` has the runs of this process that are under way, a run that appends its turns included.
    """

    def __init__(self, services: Services, records: RunReader, live: Mapping[str, LiveRun]) -> None:
        self._services = services
        self._records = records
        self._live = live

    async def history(self, start: RunStart) -> Sequence[ConversationTurn]:
        """Return the turns of the run's conversation before the run began."""
        # Checked first: accessing `services.conversations` may open a database.
        if not start.history or start.conversation is None:
            return ()
        store, tenant = self._services.conversations, start.principal.tenant
        if store is None:
            return ()
        turns = await store.tenant_history(tenant, start.conversation, up_to=start.history)
        if store.keeps_trust:
            return turns
        return [replace(turn, trust=turn.trust.join(_UNLABELLED)) for turn in turns]

    async def count(self, tenant: str, conversation: str) -> int | None:
        """Return the number of turns of a conversation, None in an application that stores none.

        Raises:
            RunConflictError: the turns of the run before are being appended.
        """
        store = self._services.conversations
        if store is None:
            return None
        turns = await store.tenant_history(tenant, conversation)
        if store.is_journaled:
            return len(turns)
        missing = await self._missing(tenant, conversation, turns)
        if missing:
            await store.append_tenant_turns(tenant, conversation, missing)
        return len(turns) + len(missing)

    async def _missing(
        self, tenant: str, conversation: str, known: Sequence[ConversationTurn]
    ) -> Sequence[ConversationTurn]:
        """Return the turns of the last completed run of a conversation, if the store does not have them."""
        last = await self._last_completed(tenant, conversation)
        if last is None:
            return ()
        run = RunKey(tenant, last.id)
        try:
            before, turns = await self._turns_in(last, run, conversation)
        except PilotageError:
            # Its turns were erased, or cannot be read here.
            return ()
        if turns is None or _are_in(turns.turns, known[before:]):
            return ()
        if _are_in((turns.turns[0], turns.turns[-1]), known[before:]):
            # Runs of 0.1.0 added no turns for the messages that they were given.
            return ()
        leases = self._services.leases
        # The commit that ends a run takes its lease away, before its turns are appended.
        if last.id in self._live or (leases is not None and await leases.holder(run) is not None):
            raise RunConflictError(
                f"conversation {conversation!r} is held by run {last.id!r}, whose turns are being appended",
                holder=last.id,
            )
        return turns.turns

    async def _turns_in(
        self, state: AgentState, run: RunKey, conversation: str
    ) -> tuple[int, ConversationTurns | None]:
        """Return the number of turns before a run, and its own; None for a run that adds none."""
        rows = await self._records.rows(run)
        start = decode_start(rows[0])
        if start.history is None:
            return 0, None
        redactor = self._services.redactor(self._services.definition_of(state.agent_type), run.tenant_id)
        texts = [decode_instruction(start.input).prompt, *user_texts_in_rows(rows)]
        output = result_in(state, rows).output
        return start.history, turns_of(conversation, texts, output, label_at_end(rows), redactor)

    async def _last_completed(self, tenant: str, conversation: str) -> AgentState | None:
        states = self._services.app.get_or_none(IAgentStateRepository)
        if states is None:
            return None
        try:
            page = await states.list_runs(
                tenant, conversation_id=conversation, statuses=(AgentStatus.COMPLETED,), limit=1
            )
        except CallerError:
            # This store does not know the conversations of its runs.
            return None
        found = next(iter(page.runs), None)
        return found if found is not None and found.agent_type in self._services.agent_ids else None


async def append_turns_after(store: ITaskStore, run: Run, turns: ConversationTurns) -> None:
    """Append the turns of a completed run to a store that is not part of the journal.

    A failure is logged and changes nothing for the run, which has ended.
    """
    key = run.ledger.run
    append, caller = store.append_tenant_turns, run.ports.caller
    try:
        await caller.ask((NoneType,), append, key.tenant_id, turns.conversation_id, turns.turns)
    except NoAnswerError as error:
        log_failure(error, run.redactor, run_id=run.id, place="turns of the conversation")


def turns_of(
    conversation: str, texts: Sequence[str], output: JsonValue, label: TrustLabel, redactor: Redactor
) -> ConversationTurns | None:
    """Return the turns that a completed run adds to its conversation; None where its answer is empty.

    `texts` are those of its user: the question, and the messages that it was given while it was under way.
    """
    if not redactor.is_idle:
        texts, output = [redactor.text(each) for each in texts], redactor.json(output)
    answer = output if isinstance(output, str) else canonical_json(output)
    if output is None or not answer.strip():
        return None
    asked = [ConversationTurn("user", each) for each in texts]
    return ConversationTurns(
        conversation, (*asked, ConversationTurn("assistant", answer, label_to_keep(label)))
    )


def _are_in(turns: Sequence[ConversationTurn], later: Sequence[ConversationTurn]) -> bool:
    """Return whether turns stand together among later ones; a store may have lost their labels."""
    wanted = [(turn.role, turn.content) for turn in turns]
    found = [(turn.role, turn.content) for turn in later]
    return any(found[place : place + len(wanted)] == wanted for place in range(len(found)))
