"""The promises of the outbox port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import IAgentJournal, OutboxEvent
from pilotage.agent.ports.outbox import IAgentOutbox, OutboxEntry, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    LONG,
    OTHER_RUN,
    PAYLOAD,
    RUN,
    PassTime,
    TimedKit,
    commit_of,
    row,
    rows_of,
)

MANY = 100


class OutboxConformance(TimedKit):
    """Conformance tests of every outbox.

    Fixtures to give: `journal` and `outbox` over one empty store; `pass_time`, an async function after which the
    store's clock has gone on by that many seconds; and, where a store can be opened twice, `second_outbox`: another
    adapter over the same store, as a second process has it. Where time can only be waited for, set `short` to less.
    """

    @pytest.fixture
    def second_outbox(self, outbox: IAgentOutbox) -> IAgentOutbox:
        return outbox

    async def test_an_empty_outbox_has_nothing_to_deliver(self, outbox: IAgentOutbox) -> None:
        assert await outbox.claim("ada", LONG, MANY) == []
        assert await read(outbox) == []
        assert (await outbox.list_parked("default")).entries == ()

    async def test_what_a_commit_carries_is_there_as_it_went_in(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        event = OutboxEvent("Happened", 3, PAYLOAD)
        await journal.commit([replace(commit_of(row(1)), outbox=(event,))])
        (entry,) = await outbox.claim("ada", LONG, MANY)
        assert (entry.run, entry.number, entry.event) == (RUN, 1, event)
        assert (entry.status, entry.failures, entry.problem) == (OutboxStatus.WAITING, 0, None)
        assert entry.created_at.utcoffset() is not None

    async def test_a_commit_that_is_refused_or_sent_again_adds_nothing(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        commit = replace(commit_of(row(1)), outbox=(_event(1),))
        await journal.commit([commit])
        await journal.commit([commit])
        await journal.commit([replace(commit, token="late")])
        assert numbers(await outbox.claim("ada", LONG, MANY)) == [1]

    async def test_the_facts_of_a_run_come_in_order_and_are_numbered_without_gaps(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 2)
        await happen(journal, 1, run=OTHER_RUN)
        await happen(journal, 3)
        entries = await outbox.claim("ada", LONG, MANY)
        assert numbers(entries) == [1, 2, 3, 4, 5]
        assert [entry.event.payload["number"] for entry in of_run(entries)] == [1, 2, 3, 4, 5]
        assert numbers(entries, OTHER_RUN) == [1]

    async def test_the_run_that_has_waited_longest_comes_first(
        self, journal: IAgentJournal, outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        for run in (OTHER_RUN, RUN, FOREIGN_RUN):
            await happen(journal, 1, run=run)
            await pass_time(self.short / 10)
        claimed = [await outbox.claim("ada", LONG, 1) for _ in range(3)]
        assert [entry.run for (entry,) in claimed] == [OTHER_RUN, RUN, FOREIGN_RUN]

    async def test_a_limit_cuts_off_the_end_and_leaves_nothing_out(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 5)
        first = await outbox.claim("ada", LONG, 3)
        assert numbers(first) == [1, 2, 3]
        await outbox.delivered("ada", first)
        assert numbers(await outbox.claim("ada", LONG, 3)) == [4, 5]

    async def test_a_run_with_a_claimed_entry_is_passed_over(
        self, journal: IAgentJournal, outbox: IAgentOutbox, second_outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 2)
        await outbox.claim("ada", LONG, 1)
        await happen(journal, 1)
        await happen(journal, 1, run=OTHER_RUN)
        assert [entry.run for entry in await second_outbox.claim("bob", LONG, MANY)] == [OTHER_RUN]
        assert await outbox.claim("ada", LONG, MANY) == []

    async def test_of_many_who_claim_at_once_each_entry_goes_to_one(
        self, journal: IAgentJournal, outbox: IAgentOutbox, second_outbox: IAgentOutbox
    ) -> None:
        runs = [RunKey("default", f"run-{number}") for number in range(8)]
        for run in runs:
            await happen(journal, 3, run=run)
        ports = [outbox, second_outbox] * 4
        claims = await asyncio.gather(
            *(port.claim(f"owner-{number}", LONG, 6) for number, port in enumerate(ports))
        )
        entries = [entry for claim in claims for entry in claim]
        assert len({entry.id for entry in entries}) == len(entries)
        for run in runs:
            owners = [number for number, claim in enumerate(claims) if of_run(claim, run)]
            assert len(owners) <= 1

    async def test_what_was_delivered_does_not_come_again_and_stays_readable(
        self, journal: IAgentJournal, outbox: IAgentOutbox, second_outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 3)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.delivered("ada", entries[:2])
        await outbox.release("ada", RUN)
        assert numbers(await second_outbox.claim("bob", LONG, MANY)) == [3]
        done, waiting = OutboxStatus.DELIVERED, OutboxStatus.WAITING
        assert [entry.status for entry in await read(outbox)] == [done, done, waiting]

    async def test_saying_again_that_something_was_delivered_does_no_harm(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 1)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.delivered("ada", entries)
        await outbox.delivered("ada", entries)
        await outbox.delivered("ada", [])
        assert await outbox.claim("ada", LONG, MANY) == []

    async def test_a_claim_runs_out_and_what_was_not_delivered_comes_again(
        self, journal: IAgentJournal, outbox: IAgentOutbox, second_outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        await happen(journal, 3)
        entries = await outbox.claim("ada", self.short, MANY)
        await outbox.delivered("ada", entries[:1])
        assert await second_outbox.claim("bob", LONG, MANY) == []
        await pass_time(self.short)
        assert numbers(await second_outbox.claim("bob", LONG, MANY)) == [2, 3]

    async def test_who_lost_the_claim_can_still_say_what_was_delivered(
        self, journal: IAgentJournal, outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        await happen(journal, 1)
        entries = await outbox.claim("ada", self.short, MANY)
        await pass_time(self.short)
        await outbox.claim("bob", LONG, MANY)
        await outbox.delivered("ada", entries)
        await outbox.release("bob", RUN)
        assert await outbox.claim("bob", LONG, MANY) == []

    async def test_who_lost_the_claim_changes_nothing_else(
        self, journal: IAgentJournal, outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        await happen(journal, 1)
        (entry,) = await outbox.claim("ada", self.short, MANY)
        await pass_time(self.short)
        await outbox.failed("ada", entry, "too late", None)
        taken = await outbox.claim("bob", LONG, MANY)
        assert taken == [entry]
        await outbox.failed("ada", entry, "much too late", None)
        await outbox.release("ada", RUN)
        assert await outbox.claim("cleo", LONG, MANY) == []
        assert await read(outbox) == [entry]

    async def test_what_is_given_back_can_be_claimed_at_once(
        self, journal: IAgentJournal, outbox: IAgentOutbox, second_outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 2)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.release("ada", RUN)
        assert await second_outbox.claim("bob", LONG, MANY) == entries

    async def test_what_failed_waits_and_holds_up_its_run_and_no_other(
        self, journal: IAgentJournal, outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        await happen(journal, 2)
        await happen(journal, 1, run=OTHER_RUN)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.failed("ada", of_run(entries)[0], "no route", self.short)
        await outbox.release("ada", OTHER_RUN)
        assert [entry.run for entry in await outbox.claim("bob", LONG, MANY)] == [OTHER_RUN]
        await pass_time(self.short)
        again = await outbox.claim("bob", LONG, MANY)
        assert numbers(again) == [1, 2]
        assert [(entry.failures, entry.problem) for entry in again] == [(1, "no route"), (0, None)]

    async def test_failures_are_counted_by_the_entry_that_failed(
        self, journal: IAgentJournal, outbox: IAgentOutbox, pass_time: PassTime
    ) -> None:
        await happen(journal, 1)
        for number in range(3):
            (entry,) = await outbox.claim("ada", LONG, MANY)
            assert entry.failures == number
            await outbox.failed("ada", entry, f"try {number}", self.short)
            await pass_time(self.short)
        (entry,) = await read(outbox)
        assert (entry.failures, entry.problem) == (3, "try 2")

    async def test_a_parked_entry_lets_later_ones_pass(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 3)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.delivered("ada", entries[:1])
        await outbox.failed("ada", entries[1], "poison", None)
        assert numbers(await outbox.claim("bob", LONG, MANY)) == [3]
        (parked,) = (await outbox.list_parked("default")).entries
        assert (parked.number, parked.failures, parked.problem) == (2, 1, "poison")
        assert parked.status is OutboxStatus.PARKED

    async def test_parked_entries_are_listed_in_pages_and_per_tenant(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        runs = [RunKey("default", f"run-{number}") for number in range(5)]
        for run in (*runs, FOREIGN_RUN):
            await happen(journal, 1, run=run)
        for entry in await outbox.claim("ada", LONG, MANY):
            await outbox.failed("ada", entry, "poison", None)
        found: list[RunKey] = []
        page = await outbox.list_parked("default", limit=2)
        while page.cursor is not None:
            found += [entry.run for entry in page.entries]
            page = await outbox.list_parked("default", after=page.cursor, limit=2)
        assert [*found, *(entry.run for entry in page.entries)] == runs
        foreign = await outbox.list_parked(FOREIGN_RUN.tenant_id)
        assert [entry.run for entry in foreign.entries] == [FOREIGN_RUN]

    async def test_a_parked_entry_can_be_delivered_after_all(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 2)
        entries = await outbox.claim("ada", LONG, MANY)
        await outbox.failed("ada", entries[0], "poison", None)
        again = await outbox.redeliver(RUN, 1)
        assert (again.status, again.failures) == (OutboxStatus.WAITING, 0)
        assert numbers(await outbox.claim("bob", LONG, MANY)) == [1, 2]
        assert (await outbox.list_parked("default")).entries == ()

    @pytest.mark.parametrize("number", [0, 1, 2])
    async def test_only_what_is_parked_can_be_delivered_after_all(
        self, journal: IAgentJournal, outbox: IAgentOutbox, number: int
    ) -> None:
        await happen(journal, 1)
        with pytest.raises(CallerError, match=RUN.run_id):
            await outbox.redeliver(RUN, number)

    async def test_the_runs_of_each_tenant_have_an_outbox_of_their_own(
        self, journal: IAgentJournal, outbox: IAgentOutbox
    ) -> None:
        await happen(journal, 2)
        await happen(journal, 1, run=FOREIGN_RUN)
        entries = await outbox.claim("ada", LONG, MANY)
        assert (numbers(entries), numbers(entries, FOREIGN_RUN)) == ([1, 2], [1])
        await outbox.release("ada", FOREIGN_RUN)
        assert [entry.run for entry in await outbox.claim("bob", LONG, MANY)] == [FOREIGN_RUN]
        assert len(await read(outbox)) == 2

    async def test_reading_begins_after_a_number(self, journal: IAgentJournal, outbox: IAgentOutbox) -> None:
        await happen(journal, 4)
        assert [entry.number for entry in await read(outbox, after=2)] == [3, 4]

    @pytest.mark.parametrize(
        "asked",
        [(" ", LONG, 1), ("ada", 0.0, 1), ("ada", -1.0, 1), ("ada", float("inf"), 1), ("ada", LONG, 0)],
        ids=repr,
    )
    async def test_a_claim_of_entries_has_an_owner_an_end_and_a_size(
        self, journal: IAgentJournal, outbox: IAgentOutbox, asked: tuple[str, float, int]
    ) -> None:
        await happen(journal, 1)
        with pytest.raises(AgentDefinitionError):
            await outbox.claim(*asked)
        assert numbers(await outbox.claim("bob", LONG, MANY)) == [1]

    async def test_a_page_has_a_size_and_a_cursor_that_was_given_out(self, outbox: IAgentOutbox) -> None:
        with pytest.raises(AgentDefinitionError):
            await outbox.list_parked("default", limit=0)
        with pytest.raises(CallerError):
            await outbox.list_parked("default", after="yesterday")


async def happen(journal: IAgentJournal, count: int, run: RunKey = RUN) -> None:
    """Commit so many facts about a run, in one commit of one row."""
    head = await journal.head(run)
    seq = (head.seq if head else 0) + 1
    begun = sum(each.view for each in await rows_of(journal, run) if isinstance(each.view, int))
    events = tuple(_event(begun + number) for number in range(1, count + 1))
    await journal.commit([replace(commit_of(row(seq, view=count), run=run), outbox=events)])


async def read(outbox: IAgentOutbox, after: int = 0) -> list[OutboxEntry]:
    """Return the entries of the run as a list."""
    return [entry async for entry in outbox.read(RUN, after)]


def of_run(entries: Sequence[OutboxEntry], run: RunKey = RUN) -> list[OutboxEntry]:
    """Return the entries of a run among others."""
    return [entry for entry in entries if entry.run == run]


def numbers(entries: Sequence[OutboxEntry], run: RunKey = RUN) -> list[int]:
    """Return the numbers of a run's entries among others."""
    return [entry.number for entry in of_run(entries, run)]


def _event(number: int) -> OutboxEvent:
    return OutboxEvent("Step", 1, {"number": number})
