"""What is special to the store in memory; its promises are in the conformance kits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import (
    CommitRefusal,
    CommitRefused,
    IAgentJournal,
    JournalCommit,
    OutboxEvent,
)
from pilotage.agent.ports.leases import IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.persistence import RunKey, UnreadableRecord
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, RunNotFoundError
from pilotage.testing.conformance.kit import (
    OTHER_RUN,
    RUN,
    UNSTORABLE,
    claim,
    commit_of,
    commit_one,
    row,
    rows_of,
)
from pilotage.testing.ids import VirtualClock
from pilotage.testing.memory import MemorySignalRepository, MemoryStateRepository, MemoryStore

STATE = AgentState("run-1", "shop:Refunds", AgentStatus.ACTIVE)
SIGNAL = AgentSignal("signal-1", "run-1", AgentSignalKind.USER_MESSAGE, {"text": "wait"})
EVIDENCE = AgentEvidence("evidence-1", "run-1", AgentEvidenceKind.TOOL)
FULL = JournalCommit(RUN, "full", 0, (claim(1, epoch=1),), STATE)


async def test_times_come_from_the_clock_of_the_store() -> None:
    clock = VirtualClock()
    store, start = MemoryStore(clock), clock.now()
    await store.journal.commit([FULL])
    clock.advance(60)
    await store.journal.commit([replace(commit_of(row(2)), state=STATE)])
    state, rows = await store.states.get("run-1"), await rows_of(store.journal)
    assert [each.created_at for each in rows] == [start, start + timedelta(minutes=1)]
    assert (state.created_at, state.updated_at) == (start, start + timedelta(minutes=1))
    assert (await store.signals.append(SIGNAL)).created_at == clock.now()


@pytest.mark.parametrize(
    ("commit", "reason"),
    [
        (
            commit_of(row(1, "root/pay#1", record=UNSTORABLE)),
            "the record of row 1 ('root/pay#1') cannot be stored as JSON: object has no JSON form",
        ),
        (
            commit_of(row(1, "root/pay#1", view=float("nan"))),
            "the view of row 1 ('root/pay#1') cannot be stored as JSON: Out of range float values are not JSON compliant",
        ),
        (commit_of(row(1, "pay"), row(2, "pay")), "row 2 repeats 'after' of 'pay', attempt 1"),
        (
            replace(FULL, state=replace(STATE, metadata={"x": UNSTORABLE})),
            "the metadata of state 'run-1' cannot be stored as JSON: object has no JSON form",
        ),
        (
            replace(FULL, state=replace(STATE, tenant_id="acme")),
            "state 'run-1' of tenant 'acme' is not the state of run 'run-1'",
        ),
        (
            replace(FULL, consumed_signals=("signal-1",)),
            "signal 'signal-1' is unknown to run 'run-1' or was consumed already",
        ),
        (
            replace(FULL, evidence=(replace(EVIDENCE, agent_state_id="run-2"),)),
            "evidence 'evidence-1' belongs to run 'run-2', not to 'run-1'",
        ),
        (replace(FULL, evidence=(EVIDENCE, EVIDENCE)), "evidence 'evidence-1' is recorded already"),
        (
            replace(FULL, turns=ConversationTurns("chat", (ConversationTurn("user", "Hello"),))),
            "run 'run-1' adds turns to conversation 'chat', which it does not hold",
        ),
        (
            replace(FULL, parent=OTHER_RUN),
            "run 'run-1' cannot start: its parent 'run-2' does not exist",
        ),
    ],
)
async def test_a_refusal_says_what_is_wrong(commit: JournalCommit, reason: str) -> None:
    outcome = await commit_one(MemoryStore().journal, commit)
    assert isinstance(outcome, CommitRefused)
    assert outcome.reason.startswith(reason)  # newer Pythons add the value that is out of range


async def test_a_refusal_says_whom_a_run_stands_in_the_way_of() -> None:
    store = MemoryStore()
    await store.journal.commit(
        [replace(FULL, state=replace(STATE, status=AgentStatus.CANCELLING), conversation="chat")]
    )
    child = commit_of(row(1), run=OTHER_RUN)
    assert await store.journal.commit([replace(child, parent=RUN), replace(child, conversation="chat")]) == [
        CommitRefused(
            "run 'run-2' cannot start: its parent 'run-1' is cancelling", CommitRefusal.PARENT_CLOSED
        ),
        CommitRefused(
            "conversation 'chat' is held by run 'run-1', which has not ended",
            CommitRefusal.CONVERSATION_HELD,
            "run-1",
        ),
    ]


async def test_a_holder_without_a_state_has_not_ended() -> None:
    store = MemoryStore()
    await store.journal.commit([replace(commit_of(row(1)), conversation="chat")])
    second = await commit_one(store.journal, replace(commit_of(row(1), run=OTHER_RUN), conversation="chat"))
    assert isinstance(second, CommitRefused)


async def test_reading_from_behind_a_row_does_not_touch_those_before() -> None:
    store = MemoryStore()
    await store.journal.commit([commit_of(row(1), row(2), row(3))])
    journal = store.tables.journals.find("default", "run-1")
    assert journal is not None
    journal.rows[0] = journal.rows[1] = replace(journal.rows[0], record_text="no JSON")
    assert [each.seq for each in await rows_of(store.journal, after=2)] == [3]
    unreadable = (await rows_of(store.journal, after=1))[0].record
    assert isinstance(unreadable, UnreadableRecord)


async def test_what_is_no_cursor_is_an_error_in_words() -> None:
    with pytest.raises(CallerError) as caught:
        await MemoryStore().states.list_runs("default", after="yesterday")
    assert str(caught.value) == ("there is no page after 'yesterday'. Give the cursor of a page as `after`.")


async def test_the_store_lists_the_runs_of_any_tenant_and_a_repository_of_one_only_its_own() -> None:
    store = MemoryStore()
    for tenant in ("acme", "rival"):
        await store.states.save(replace(STATE, tenant_id=tenant))
    assert [each.tenant_id for each in (await store.states.list_runs("rival")).runs] == ["rival"]
    assert (await MemoryStateRepository(store, "acme").list_runs("rival")).runs == ()


async def _journaled() -> MemoryStore:
    store = MemoryStore()
    await store.signals.append(SIGNAL)
    await store.journal.commit([FULL])
    return store


JOURNALED = "run 'run-1' has a journal, and then only the journal writes about it. Put the change into a JournalCommit."


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda store: store.states.save(STATE), f"MemoryStateRepository.save: {JOURNALED}"),
        (
            lambda store: store.signals.mark_consumed("signal-1"),
            f"MemorySignalRepository.mark_consumed: {JOURNALED}",
        ),
        (lambda store: store.evidence.append(EVIDENCE), f"MemoryEvidenceRepository.append: {JOURNALED}"),
        (
            lambda store: store.states.save(replace(STATE, id="run-2", metadata={"x": UNSTORABLE})),
            "MemoryStateRepository.save: the metadata of state 'run-2' cannot be stored as JSON: object has no JSON form.",
        ),
        (
            lambda store: store.signals.append(
                replace(SIGNAL, id="signal-2", payload={"text": "wait", "x": UNSTORABLE})
            ),
            "MemorySignalRepository.append: the payload of signal 'signal-2' cannot be stored as JSON: object has no JSON form.",
        ),
        (
            lambda store: store.evidence.append(
                replace(EVIDENCE, agent_state_id="run-2", payload={"x": UNSTORABLE})
            ),
            "MemoryEvidenceRepository.append: the payload of evidence 'evidence-1' cannot be stored as JSON: object has no JSON form.",
        ),
    ],
)
async def test_a_direct_write_that_cannot_be_is_an_error_in_words(
    act: Callable[[MemoryStore], Awaitable[object]], message: str
) -> None:
    store = await _journaled()
    with pytest.raises(AgentDefinitionError) as caught:
        await act(store)
    assert str(caught.value) == message


async def test_recorded_evidence_does_not_change() -> None:
    store = MemoryStore()
    await store.evidence.append(EVIDENCE)
    with pytest.raises(AgentDefinitionError) as caught:
        await store.evidence.append(EVIDENCE)
    assert str(caught.value) == (
        "MemoryEvidenceRepository.append: evidence 'evidence-1' is recorded already, and what is recorded does not "
        "change. Give the new record an id of its own."
    )


async def test_the_ports_of_the_store_see_all_tenants_and_those_of_a_tenant_only_its_own() -> None:
    store = MemoryStore()
    await store.states.save(replace(STATE, tenant_id="acme"))
    assert (await store.states.get("run-1")).tenant_id == "acme"
    assert await MemoryStateRepository(store, "acme").get("run-1") == await store.states.get("run-1")
    with pytest.raises(RunNotFoundError) as caught:
        await MemoryStateRepository(store, "rival").get("run-1")
    assert str(caught.value) == "there is no run 'run-1'."


async def test_a_signal_belongs_to_the_tenant_of_its_run() -> None:
    store = MemoryStore()
    acme = RunKey("acme", "run-1")
    await store.journal.commit([commit_of(row(1), run=acme)])
    await store.signals.append(SIGNAL)
    assert [each.id for each in await MemorySignalRepository(store, "acme").list_pending("run-1")] == [
        "signal-1"
    ]
    consumed = replace(commit_of(row(2), run=acme), consumed_signals=("signal-1",))
    assert not isinstance(await commit_one(store.journal, consumed), CommitRefused)


async def test_an_id_of_several_tenants_needs_a_repository_of_one() -> None:
    store = MemoryStore()
    for tenant in ("acme", "rival"):
        await store.states.save(replace(STATE, tenant_id=tenant))
    assert [each.tenant_id for each in await store.states.list_by_status(AgentStatus.ACTIVE)] == [
        "acme",
        "rival",
    ]
    assert (await MemoryStateRepository(store, "rival").get("run-1")).tenant_id == "rival"
    with pytest.raises(AgentDefinitionError) as caught:
        await store.states.get("run-1")
    assert str(caught.value) == (
        "the id 'run-1' exists for several tenants ('acme', 'rival'). "
        "Use a repository of one tenant: MemoryStateRepository(store, tenant=...)."
    )


async def test_the_outbox_names_the_runs() -> None:
    store, event = MemoryStore(), OutboxEvent("RunStarted", 1, {"a": 1})
    commits = [replace(commit_of(row(1), run=run), outbox=(event,)) for run in (OTHER_RUN, RUN)]
    await store.journal.commit(commits)
    assert store.outbox == ((OTHER_RUN, event), (RUN, event))


async def test_the_ports_are_pods() -> None:
    store = MemoryStore()
    async with Application("test").add(*store.ports) as app:
        assert app.get(IAgentJournal) is store.journal
        assert app.get(ITaskStore) is store.conversations
        assert app.get(IAgentLeases) is store.leases
        assert app.get(IAgentWakeUps) is store.wake_ups
