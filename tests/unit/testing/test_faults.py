"""A journal that fails where a test wants it to."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.journal import Committed
from pilotage.testing.conformance.kit import RUN, commit_of, commit_one, numbers_of, row
from pilotage.testing.faults import (
    FailWrite,
    Fault,
    FaultyJournal,
    LoseReply,
    ProcessStopped,
    StopAfter,
    StopBefore,
)
from pilotage.testing.memory import MemoryStore

FIRST, SECOND, THIRD = commit_of(row(1)), commit_of(row(2)), commit_of(row(3))


@pytest.mark.parametrize(
    ("fault", "error", "message", "written"),
    [
        (StopBefore(2), ProcessStopped, "the process stopped before commit 2", [1]),
        (StopAfter(2), ProcessStopped, "the process stopped after commit 2", [1, 2]),
        (LoseReply(2), OSError, "the reply of commit 2 was lost", [1, 2]),
        (FailWrite(2), OSError, "commit 2 could not be written", [1]),
    ],
)
async def test_a_fault_strikes_at_its_commit(
    fault: Fault, error: type[BaseException], message: str, written: list[int]
) -> None:
    store = MemoryStore()
    journal = FaultyJournal(store.journal, fault)
    assert await commit_one(journal, FIRST) == Committed(1)
    with pytest.raises(error) as caught:
        await journal.commit([SECOND])
    assert str(caught.value) == message
    assert await numbers_of(store.journal) == written


@pytest.mark.parametrize("fault", [StopBefore(1), StopAfter(1)])
async def test_a_dead_process_stays_dead(fault: Fault) -> None:
    journal = FaultyJournal(MemoryStore().journal, fault)
    with pytest.raises(ProcessStopped):
        await journal.commit([FIRST])
    with pytest.raises(ProcessStopped):
        await journal.commit([FIRST])
    with pytest.raises(ProcessStopped):
        await journal.head(RUN)
    with pytest.raises(ProcessStopped):
        await numbers_of(journal)


@pytest.mark.parametrize("fault", [LoseReply(1), FailWrite(1)])
async def test_after_an_io_error_the_commit_can_be_sent_again(fault: Fault) -> None:
    journal = FaultyJournal(MemoryStore().journal, fault)
    with pytest.raises(OSError, match="commit 1"):
        await journal.commit([FIRST])
    assert await commit_one(journal, FIRST) == Committed(1)
    assert await numbers_of(journal) == [1]


async def test_calls_are_counted_whatever_they_carry() -> None:
    journal = FaultyJournal(MemoryStore().journal)
    await journal.commit([FIRST, SECOND])
    await journal.commit([THIRD])
    assert journal.commits == 2


def test_nothing_hides_the_end_of_a_process() -> None:
    assert not issubclass(ProcessStopped, Exception)
