"""The promises of the journal port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pilotage.agent.ports.journal import (
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    JournalHead,
)
from pilotage.agent.ports.persistence import JournalStage, SealedRecord
from pilotage.jsonvalue import JsonValue
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    OTHER_RUN,
    PAYLOAD,
    RUN,
    UNSTORABLE,
    Kit,
    claim,
    commit_of,
    commit_one,
    numbers_of,
    row,
    rows_of,
)


class JournalConformance(Kit):
    """Conformance tests of every journal.

    Fixtures to give: `journal`, over an empty store. Where a store can be opened twice, give `second_journal`
    too: another adapter over the same store, as a second process has it.
    """

    @pytest.fixture
    def second_journal(self, journal: IAgentJournal) -> IAgentJournal:
        return journal

    async def test_an_unknown_run_has_no_head_and_no_rows(self, journal: IAgentJournal) -> None:
        assert await journal.head(RUN) is None
        assert await rows_of(journal) == []

    async def test_committed_rows_come_back_in_order_and_unchanged(self, journal: IAgentJournal) -> None:
        rows = (
            claim(1, epoch=1),
            row(2, "root/pay#1", stage=JournalStage.BEFORE, record=PAYLOAD, view={"to": "[REDACTED]"}),
            row(3, "root/pay#1", record=SealedRecord("key-1", "c2VhbGVk"), view=None),
            row(4, "root", stage=JournalStage.FOLDED, record=["text", 1, None], view="text"),
        )
        assert await commit_one(journal, commit_of(*rows)) == Committed(4)
        assert [replace(each, created_at=None) for each in await rows_of(journal)] == list(rows)

    async def test_the_position_of_a_call_and_the_turn_of_its_outcome_come_back(
        self, journal: IAgentJournal
    ) -> None:
        begun = row(1, "root/pay#1", stage=JournalStage.BEFORE, number=3)
        ended = row(2, "root/pay#1", number=3, turn=0)
        await commit_one(journal, commit_of(begun, ended))
        assert [(each.number, each.turn) for each in await rows_of(journal)] == [(3, None), (3, 0)]

    async def test_the_text_about_events_comes_back(self, journal: IAgentJournal) -> None:
        begun = row(1, "root/pay#1", stage=JournalStage.BEFORE)
        texts = ('[1,{"kind":"run_started"}]', "", '[2,"é\u0000 \\ud800"]')
        rows = [
            replace(begun, events=texts[0]),
            row(2, "root/pay#1"),
            replace(row(3, "root/pay#2"), events=texts[2]),
        ]
        await commit_one(journal, commit_of(*rows))
        assert tuple(each.events for each in await rows_of(journal)) == texts

    async def test_the_keys_of_a_payload_are_stored_whatever_their_order(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(row(1, record={"b": 1, "a": 2}), row(2, record={"a": 2, "b": 1}))])
        first, second = await rows_of(journal)
        assert first.record == second.record == {"a": 2, "b": 1}

    async def test_a_row_keeps_the_time_that_its_writer_gives(self, journal: IAgentJournal) -> None:
        given = datetime(1999, 12, 31, 23, microsecond=123_457, tzinfo=UTC)
        await journal.commit([commit_of(replace(row(1), created_at=given))])
        (stored,) = await rows_of(journal)
        # The chain covers it to the microsecond.
        assert stored.created_at == given

    async def test_a_row_without_a_time_gets_the_stores(self, journal: IAgentJournal) -> None:
        await journal.commit([commit_of(row(1), row(2))])
        await journal.commit([commit_of(row(3))])
        times = [each.created_at for each in await rows_of(journal)]
        known = [time for time in times if time is not None and time.utcoffset() is not None]
        assert known == times == sorted(known)

    async def test_rows_are_read_after_a_number(self, journal: IAgentJournal) -> None:
        await journal.commit([commit_of(row(1), row(2), row(3))])
        assert [await numbers_of(journal, after=after) for after in range(5)] == [
            [1, 2, 3],
            [2, 3],
            [3],
            [],
            [],
        ]

    async def test_a_reader_may_stop_early_and_blocks_no_other(
        self, journal: IAgentJournal, second_journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(*map(row, range(1, 301)))])
        reading = journal.read(RUN, after=1)
        assert (await anext(reading)).seq == 2
        assert await commit_one(second_journal, commit_of(row(301))) == Committed(301)
        if isinstance(reading, AsyncGenerator):
            await reading.aclose()
        assert await commit_one(journal, commit_of(row(302))) == Committed(302)
        assert await numbers_of(journal, after=300) == [301, 302]

    async def test_the_head_is_the_last_row_with_the_epoch_of_the_last_claim(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(claim(1, epoch=1), row(2))])
        assert await journal.head(RUN) == JournalHead(2, 1, "digest-2")
        await journal.commit([commit_of(claim(3, epoch=5), row(4, epoch=5), token="next")])
        assert await journal.head(RUN) == JournalHead(4, 5, "digest-4")

    async def test_a_commit_that_expects_an_earlier_head_has_lost_the_run(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(claim(1, epoch=3), row(2, epoch=3))])
        late = commit_of(row(2, "root/other#1"), token="late")
        assert await commit_one(journal, late) == HeadMoved(2, 3)
        assert [each.action_id for each in await rows_of(journal)] == ["claim", "root/pay#2"]

    async def test_a_commit_cannot_leave_a_gap(self, journal: IAgentJournal) -> None:
        await journal.commit([commit_of(claim(1, epoch=1))])
        assert await commit_one(journal, commit_of(row(7), token="ahead")) == HeadMoved(1, 1)
        assert await numbers_of(journal) == [1]

    async def test_of_two_writers_exactly_one_wins(
        self, journal: IAgentJournal, second_journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(claim(1, epoch=1))])
        outcomes = await asyncio.gather(
            commit_one(journal, commit_of(claim(2, epoch=2), token="one")),
            commit_one(second_journal, commit_of(claim(2, epoch=3), token="two")),
        )
        winner = 2 if outcomes[0] == Committed(2) else 3
        assert sorted(outcomes, key=repr) == [Committed(2), HeadMoved(2, winner)]
        assert [each.epoch for each in await rows_of(journal)] == [1, winner]

    async def test_committed_rows_are_visible_to_all_readers(
        self, journal: IAgentJournal, second_journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(claim(1, epoch=1), row(2, record=PAYLOAD))])
        assert await rows_of(second_journal) == await rows_of(journal)
        assert await second_journal.head(RUN) == JournalHead(2, 1, "digest-2")

    async def test_a_commit_sent_again_is_recognised_and_not_written_twice(
        self, journal: IAgentJournal, second_journal: IAgentJournal
    ) -> None:
        commit = commit_of(claim(1, epoch=1), row(2))
        assert await commit_one(journal, commit) == Committed(2)
        assert await commit_one(journal, commit) == Committed(2)
        assert await commit_one(second_journal, commit) == Committed(2)
        assert await numbers_of(journal) == [1, 2]

    async def test_a_commit_sent_again_is_recognised_after_later_ones_of_its_owner(
        self, journal: IAgentJournal
    ) -> None:
        first, later = commit_of(claim(1, epoch=1)), commit_of(row(2))
        await journal.commit([first])
        await journal.commit([later])
        assert await journal.commit([first, later]) == [Committed(1), Committed(2)]
        assert await numbers_of(journal) == [1, 2]

    async def test_a_commit_sent_again_after_a_takeover_has_lost_the_run(
        self, journal: IAgentJournal
    ) -> None:
        lost_reply = commit_of(row(2))
        await journal.commit([commit_of(claim(1, epoch=1))])
        await journal.commit([lost_reply])
        await journal.commit([commit_of(claim(3, epoch=2))])
        assert await commit_one(journal, lost_reply) == HeadMoved(3, 2)
        assert await numbers_of(journal) == [1, 2, 3]

    async def test_a_token_means_something_only_within_its_run(self, journal: IAgentJournal) -> None:
        here, there = commit_of(row(1), token="same"), commit_of(row(1), run=OTHER_RUN, token="same")
        assert await journal.commit([here, there]) == [Committed(1), Committed(1)]
        assert await numbers_of(journal, OTHER_RUN) == [1]

    async def test_a_token_is_recognised_only_with_the_rows_it_came_with(
        self, journal: IAgentJournal
    ) -> None:
        first, second = commit_of(row(1), token="same"), commit_of(row(2), token="same")
        assert await commit_one(journal, first) == Committed(1)
        assert await commit_one(journal, second) == Committed(2)
        assert await journal.commit([first, second]) == [Committed(1), Committed(2)]
        others = [replace(first, run=OTHER_RUN), replace(second, run=OTHER_RUN)]
        assert await journal.commit(others) == [Committed(1), Committed(2)]
        assert await numbers_of(journal) == await numbers_of(journal, OTHER_RUN) == [1, 2]

    async def test_a_commit_without_a_row_is_refused(self, journal: IAgentJournal) -> None:
        empty = JournalCommit(RUN, "empty", 0, ())
        refused, committed = await journal.commit([empty, commit_of(row(1), run=OTHER_RUN)])
        assert isinstance(refused, CommitRefused)
        assert committed == Committed(1)
        assert await journal.head(RUN) is None
        await journal.commit([commit_of(claim(1, epoch=1), token="first")])
        assert await commit_one(journal, empty) == HeadMoved(1, 1)
        for token in ("first", "empty"):
            at_the_head = JournalCommit(RUN, token, 1, ())
            assert isinstance(await commit_one(journal, at_the_head), CommitRefused)
        assert await journal.head(RUN) == JournalHead(1, 1, "digest-1")

    async def test_nothing_to_commit_has_no_outcome(self, journal: IAgentJournal) -> None:
        assert list(await journal.commit([])) == []

    async def test_several_runs_commit_together_with_their_outcomes_in_order(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([commit_of(claim(1, epoch=4))])
        outcomes = await journal.commit(
            [
                commit_of(row(1), token="stale"),
                commit_of(row(1), run=OTHER_RUN),
                commit_of(row(1), row(2), run=FOREIGN_RUN),
            ]
        )
        assert list(outcomes) == [HeadMoved(1, 4), Committed(1), Committed(2)]
        assert await numbers_of(journal, OTHER_RUN) == [1]
        assert await numbers_of(journal, FOREIGN_RUN) == [1, 2]

    async def test_commits_of_one_run_in_one_call_follow_each_other(self, journal: IAgentJournal) -> None:
        outcomes = await journal.commit([commit_of(row(1)), commit_of(row(2), row(3))])
        assert list(outcomes) == [Committed(1), Committed(3)]
        assert await numbers_of(journal) == [1, 2, 3]

    @pytest.mark.parametrize("part", ["record", "view"])
    async def test_a_payload_that_is_no_json_is_refused_and_no_other(
        self, journal: IAgentJournal, part: str
    ) -> None:
        broken = row(
            2,
            "root/broken#1",
            record=UNSTORABLE if part == "record" else None,
            view=UNSTORABLE if part == "view" else None,
        )
        bad = commit_of(row(1), broken)
        refused, committed = await journal.commit([bad, commit_of(row(1), run=OTHER_RUN)])
        assert isinstance(refused, CommitRefused)
        assert "root/broken#1" in refused.reason
        assert committed == Committed(1)
        assert await journal.head(RUN) is None
        assert await rows_of(journal) == []
        assert await numbers_of(journal, OTHER_RUN) == [1]

    async def test_a_refused_commit_writes_nothing(self, journal: IAgentJournal) -> None:
        await journal.commit([commit_of(row(1, record=UNSTORABLE), token="mended")])
        assert await commit_one(journal, commit_of(row(1), token="mended")) == Committed(1)

    async def test_an_action_has_one_row_of_each_stage_per_attempt(self, journal: IAgentJournal) -> None:
        before, again = JournalStage.BEFORE, 2
        await journal.commit(
            [
                commit_of(
                    row(1, "pay", stage=before), row(2, "pay"), row(3, "pay", stage=before, attempt=again)
                )
            ]
        )
        twice = await commit_one(journal, commit_of(row(4, "pay")))
        twice_at_once = await commit_one(
            journal, commit_of(row(4, "pay", attempt=again), row(5, "pay", attempt=again), token="both")
        )
        assert isinstance(twice, CommitRefused)
        assert isinstance(twice_at_once, CommitRefused)
        first, in_one_call = await journal.commit(
            [commit_of(row(1, "pay"), run=OTHER_RUN), commit_of(row(2, "pay"), run=OTHER_RUN)]
        )
        assert first == Committed(1)
        assert isinstance(in_one_call, CommitRefused)
        assert await numbers_of(journal) == [1, 2, 3]
        assert await commit_one(journal, commit_of(row(4, "pay", attempt=again))) == Committed(4)

    async def test_reported_events_are_stored_and_belong_to_no_action(self, journal: IAgentJournal) -> None:
        reported = tuple(
            replace(row(seq, "told#12", stage=JournalStage.TOLD, record=PAYLOAD), kind=None, epoch=9)
            for seq in (2, 3)
        )
        assert await commit_one(journal, commit_of(claim(1, epoch=1), *reported)) == Committed(3)
        assert [replace(each, created_at=None) for each in await rows_of(journal, after=1)] == list(reported)
        assert await journal.head(RUN) == JournalHead(3, 1, "digest-3")

    async def test_a_run_can_be_claimed_again_and_again(self, journal: IAgentJournal) -> None:
        outcomes = [
            await commit_one(journal, commit_of(claim(epoch, epoch=epoch), token=f"owner {epoch}"))
            for epoch in (1, 2, 3)
        ]
        assert outcomes == [Committed(1), Committed(2), Committed(3)]

    async def test_runs_of_two_tenants_are_apart_even_with_the_same_id(self, journal: IAgentJournal) -> None:
        await journal.commit([commit_of(row(1, "ours"), row(2))])
        assert await journal.head(FOREIGN_RUN) is None
        assert await rows_of(journal, FOREIGN_RUN) == []
        assert await commit_one(journal, commit_of(row(1, "theirs"), run=FOREIGN_RUN)) == Committed(1)
        assert [each.action_id for each in await rows_of(journal, FOREIGN_RUN)] == ["theirs"]
        assert await numbers_of(journal) == [1, 2]

    async def test_a_change_of_a_returned_row_does_not_reach_the_store(self, journal: IAgentJournal) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        await journal.commit([commit_of(row(1, record=shared, view=shared))])
        shared["amount"] = 2
        (read,) = await rows_of(journal)
        assert (read.record, read.view) == ({"amount": 1}, {"amount": 1})
        assert isinstance(read.record, dict)
        read.record["amount"] = 3
        (read_again,) = await rows_of(journal)
        assert read_again.record == {"amount": 1}
