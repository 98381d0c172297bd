"""What is in a database when its tables are brought up to date: runs in every state that an upgrade must not harm.

These are told to the database of a version when it is released, and never again: `dump` writes the tables down.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    Application,
    ApprovalDecision,
    IAgentModel,
    Idempotency,
    Pod,
    RecoveryStrategy,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import Switch, ToolApprovalRequirement
from pilotage.agent.ports.observability import AuditEntry
from pilotage.agent.principal import LOCAL
from pilotage.runtime import AgentRuns, next_signal
from pilotage.runtime.plugin import initialize
from pilotage.runtime.run.start import run_id_of
from pilotage.testing import ProcessStopped, ScriptedModel, says
from pilotage.testing.sealer import MemorySealer
from tests.crash.shop import Clerk, Shop, World

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
KEY = b"the key of the stories, 32 bytes"
DONE, ASKING, TORN, WAITING, TALKING = "done", "asking", "torn", "waiting", "talking"
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONG = "a long letter, " * 1_000


@dataclass(frozen=True)
class Envelope:
    """A letter, and the account of who wrote it, which is for the caller alone."""

    letter: str
    account: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]


@Pod
class Office:
    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def fetch(self, name: str) -> Envelope:
        """Fetch a letter: it is too long for a row, and says something that must be sealed."""
        return Envelope(LONG, f"DE-{name}")


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=DURABLE,
        accepted_signals=(AgentSignalKind.EXTERNAL_EVENT,),
    )
)
class Reader:
    """Fetches a letter, waits for an event, and gives both."""

    def __init__(self, office: Office) -> None:
        self.office = office

    async def execute(self, name: str) -> str:
        envelope = await self.office.fetch(name)
        event = await next_signal(AgentSignalKind.EXTERNAL_EVENT)
        return f"{len(envelope.letter)} {envelope.account} {event.payload['stamp']}"


@Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE))
class Talker:
    """Talks in a conversation, in which this is a turn."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model


def office(store: SqlAlchemyStore, world: World) -> Application:
    """The application of the stories over a store."""
    app = Application("stories").add(Clerk, Shop, Reader, Office, Talker, world, MemorySealer(KEY))
    app.add(ScriptedModel([says("Yes.")] * 5), *store.ports)
    initialize(app)
    return app


def id_of(story: str) -> str:
    """The run of a story."""
    return run_id_of("default", story)


async def tell(store: SqlAlchemyStore) -> None:
    """Let all stories happen."""
    for story in (DONE, ASKING):
        async with office(store, World()) as app:
            await (await app.get(AgentRuns).start(Clerk, "A-17", id=story)).result()
            if story is DONE:
                await _finish(app.get(AgentRuns))
    await _tear(store)
    async with office(store, World()) as app:
        runs = app.get(AgentRuns)
        await (await runs.start(Reader, "ada", id=WAITING)).result()
        await runs.signal(id_of(WAITING), AgentSignalKind.EXTERNAL_EVENT, {"stamp": "blue \x00 ~"})
        await (await runs.start(Talker, "Shall we?", id=TALKING, conversation_id="talk")).result()
    await store.switches.turn_off(Switch.tool("dangerous"), reason="it is")
    await store.audit_log.record(AuditEntry(id_of(DONE), LOCAL, "looked at it", "done", _NOON))


async def _finish(runs: AgentRuns) -> None:
    (question,) = await runs.questions(id_of(DONE))
    await runs.answer(id_of(DONE), question.id, ApprovalDecision.APPROVE)
    await (await runs.resume(id_of(DONE))).result()


async def _tear(store: SqlAlchemyStore) -> None:
    """A process that dies when it has paid, before it could say so."""
    world = World()
    world.dies_after = 2
    async with office(store, world) as app:
        try:
            await (await app.get(AgentRuns).start(Clerk, "A-18", id=TORN)).result()
        except ProcessStopped:
            return
    raise AssertionError("the process outlived the story")
