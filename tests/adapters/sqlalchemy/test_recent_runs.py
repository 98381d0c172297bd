"""What this process has just written it need not look at; what others have written meanwhile it does not miss."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import event

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.journal import CommitRefused, Committed, HeadMoved, OutboxEvent
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing.conformance.kit import RUN, claim, commit_of, commit_one, row, rows_of


def looks_of(store: SqlAlchemyStore) -> list[str]:
    """Every query of a transaction that writes, from now on."""
    seen: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.lstrip().startswith("SELECT"):
            seen.append(statement)

    event.listen(store.database.engines.writing, "before_cursor_execute", note)
    return seen


async def test_a_run_that_goes_on_is_not_looked_at(store: SqlAlchemyStore) -> None:
    seen = looks_of(store)
    for number in range(1, 5):
        commit = commit_of(claim(1, epoch=1) if number == 1 else row(number))
        assert await commit_one(store.journal, commit) == Committed(number)
    assert seen == []
    assert len(await rows_of(store.journal)) == 4


async def test_whoever_has_lost_the_run_is_told(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    await commit_one(store.journal, commit_of(claim(1, epoch=1)))
    await commit_one(second_store.journal, commit_of(claim(2, epoch=2)))
    late = replace(commit_of(row(2)), token="late")
    assert await commit_one(store.journal, late) == HeadMoved(2, 2)
    assert await commit_one(second_store.journal, commit_of(row(3))) == Committed(3)
    assert await commit_one(store.journal, replace(commit_of(row(3)), token="later")) == HeadMoved(3, 2)


async def test_a_commit_that_comes_again_is_recognised(store: SqlAlchemyStore) -> None:
    first = commit_of(claim(1, epoch=1))
    second = commit_of(row(2))
    assert await commit_one(store.journal, first) == Committed(1)
    for _ in range(3):
        assert await commit_one(store.journal, second) == Committed(2)
    assert len(await rows_of(store.journal)) == 2


async def test_a_new_run_that_somebody_else_has_begun_is_lost(
    store: SqlAlchemyStore, second_store: SqlAlchemyStore
) -> None:
    await commit_one(second_store.journal, commit_of(claim(1, epoch=1)))
    other = replace(commit_of(claim(1, epoch=1)), token="another")
    assert await commit_one(store.journal, other) == HeadMoved(1, 1)


async def test_facts_are_numbered_on_and_the_state_stays(store: SqlAlchemyStore) -> None:
    state = AgentState(RUN.run_id, "agent", AgentStatus.ACTIVE, tenant_id=RUN.tenant_id)
    fact = OutboxEvent("happened", 1, {"run_id": RUN.run_id, "tenant_id": RUN.tenant_id, "more": 1})
    await commit_one(store.journal, replace(commit_of(claim(1, epoch=1)), state=state, outbox=(fact,)))
    await commit_one(store.journal, replace(commit_of(row(2)), outbox=(fact, fact)))
    await commit_one(store.journal, commit_of(row(3)))
    entries = [entry async for entry in store.deliveries.read(RUN)]
    assert [(entry.number, entry.event) for entry in entries] == [(1, fact), (2, fact), (3, fact)]
    assert (await store.states.get(RUN.run_id)).status is AgentStatus.ACTIVE


async def test_a_refused_commit_leaves_the_run_where_it_was(store: SqlAlchemyStore) -> None:
    await commit_one(store.journal, commit_of(claim(1, epoch=1)))
    refused = await commit_one(store.journal, commit_of(row(2, record=object())))  # type: ignore[arg-type]
    assert isinstance(refused, CommitRefused)
    assert await commit_one(store.journal, commit_of(row(2))) == Committed(2)
