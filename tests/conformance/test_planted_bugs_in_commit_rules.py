"""The kits notice a journal that takes what a rule of commits refuses: one journal for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    OutboxEvent,
)
from pilotage.testing import MemoryJournal, MemoryStore, VirtualClock
from pilotage.testing.conformance import (
    ConversationCommitConformance,
    JournalConformance,
    LeaseCommitConformance,
    RetentionConformance,
    TransactionConformance,
)
from tests.conformance.planted import failing_tests


class Lenient(MemoryJournal):
    """Changes a commit that is refused until it is right, and takes that one."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self.take(commit) for commit in commits]

    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = self._tables.commit(commit)
        if not isinstance(outcome, CommitRefused):
            return outcome
        mended = self.mended(commit, outcome)
        return outcome if mended == commit else self._tables.commit(mended)

    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        return commit


class TakesCommitsWithoutARow(Lenient):
    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = super().take(commit)
        is_refused = isinstance(outcome, CommitRefused) and not commit.rows
        return Committed(commit.expected_head) if is_refused else outcome


class RefusesCommitsWithoutARowFirst(Lenient):
    def take(self, commit: JournalCommit) -> CommitOutcome:
        return super().take(commit) if commit.rows else CommitRefused("no row")


class KnowsTokensWithoutRows(Lenient):
    def take(self, commit: JournalCommit) -> CommitOutcome:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        tokens = [token for token, _ in journal.receipts] if journal else []
        return super().take(commit) if commit.rows or commit.token not in tokens else Committed(1)


class KnowsTokensAnywhere(Lenient):
    """Takes a commit for one with the same token and other rows."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        heads = dict(list(journal.receipts)) if journal else {}
        is_new = journal is None or commit.expected_head == journal.head
        return Committed(heads[commit.token]) if is_new and commit.token in heads else super().take(commit)


class TakesCommitsAhead(Lenient):
    """Refuses a late commit, and moves one that leaves a gap."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = super().take(commit)
        if not isinstance(outcome, HeadMoved) or commit.expected_head < outcome.head:
            return outcome
        rows = tuple(replace(row, seq=seq) for seq, row in enumerate(commit.rows, outcome.head + 1))
        return super().take(replace(commit, expected_head=outcome.head, rows=rows))


class RepeatsActionsInACommit(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        named = [row.action_id for row in commit.rows]
        rows = tuple(replace(row, action_id=f"{row.action_id} {row.seq}") for row in commit.rows)
        return replace(commit, rows=rows) if len(set(named)) < len(named) else commit


class RepeatsActionsInACall(Lenient):
    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = [self.take(commit) for commit in commits]
        for index, commit in enumerate(commits[1:], start=1):
            if isinstance(outcomes[index], CommitRefused) and commits[0].run == commit.run:
                rows = tuple(replace(row, action_id=f"{row.action_id} again") for row in commit.rows)
                outcomes[index] = self.take(replace(commit, rows=rows))
        return outcomes


class RepeatsActionsInAnotherCommit(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        if len(commit.rows) > 1:
            return commit
        return replace(commit, rows=tuple(replace(row, attempt=row.attempt + 7) for row in commit.rows))


JOURNAL_BUGS = [
    (TakesCommitsWithoutARow, JournalConformance.test_a_commit_without_a_row_is_refused),
    (RefusesCommitsWithoutARowFirst, JournalConformance.test_a_commit_without_a_row_is_refused),
    (KnowsTokensWithoutRows, JournalConformance.test_a_commit_without_a_row_is_refused),
    (KnowsTokensAnywhere, JournalConformance.test_a_token_is_recognised_only_with_the_rows_it_came_with),
    (TakesCommitsAhead, JournalConformance.test_a_commit_cannot_leave_a_gap),
    (RepeatsActionsInACommit, JournalConformance.test_an_action_has_one_row_of_each_stage_per_attempt),
    (RepeatsActionsInACall, JournalConformance.test_an_action_has_one_row_of_each_stage_per_attempt),
    (RepeatsActionsInAnotherCommit, JournalConformance.test_an_action_has_one_row_of_each_stage_per_attempt),
]


def journal_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    store = MemoryStore()
    return {"journal": journal(store), "second_journal": journal(store)}


async def test_the_journal_kit_finds_nothing_in_a_journal_that_mends_nothing() -> None:
    assert await failing_tests(JournalConformance, lambda: journal_fixtures(Lenient)) == []


@pytest.mark.parametrize(("bug", "test"), JOURNAL_BUGS)
async def test_the_journal_kit_notices_a_rule_that_is_missing(
    bug: type[MemoryJournal], test: Callable[..., object]
) -> None:
    assert test.__name__ in await failing_tests(JournalConformance, lambda: journal_fixtures(bug))


class TakesTheStateOfAnotherRun(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        return replace(commit, state=commit.state and replace(commit.state, id=commit.run.run_id))


class TakesTheStateOfAnotherTenant(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        return replace(commit, state=commit.state and replace(commit.state, tenant_id=commit.run.tenant_id))


class TakesEvidenceOfAnotherRun(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        own = tuple(replace(each, agent_state_id=commit.run.run_id) for each in commit.evidence)
        return replace(commit, evidence=own)


class TakesEvidenceTwice(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        return replace(commit, evidence=tuple({each.id: each for each in commit.evidence}.values()))


class TakesEvidenceAgain(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        tenant = commit.run.tenant_id
        new = tuple(each for each in commit.evidence if not self._tables.has_evidence(tenant, each.id))
        return replace(commit, evidence=new)


class TakesEvidenceOfItsRunAgain(TakesEvidenceAgain):
    """Takes evidence of the run again, and refuses that of another run."""

    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        is_journaled = self._tables.is_journaled(commit.run)
        return super().mended(commit, refused) if is_journaled else commit


class TakesEvidenceOfOtherRunsAgain(TakesEvidenceAgain):
    """Takes evidence of another run, and refuses that of the run."""

    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        is_journaled = self._tables.is_journaled(commit.run)
        return commit if is_journaled else super().mended(commit, refused)


class HasEvidenceForAllTenants(Lenient):
    def take(self, commit: JournalCommit) -> CommitOutcome:
        is_foreign = commit.run.tenant_id != "default"
        if is_foreign and any(self._tables.has_evidence("default", each.id) for each in commit.evidence):
            return CommitRefused(f"evidence {commit.evidence[0].id!r} is recorded already")
        return super().take(commit)


class TakesSignalsTwice(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        return replace(commit, consumed_signals=tuple(dict.fromkeys(commit.consumed_signals)))


class TakesUnknownSignals(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        known = (each for each in commit.consumed_signals if self._tables.signals.find(None, each))
        return replace(commit, consumed_signals=tuple(known))


class TakesConsumedSignals(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        if not self._tables.is_journaled(commit.run):
            return commit
        pending = (each for each in commit.consumed_signals if self._tables.is_pending(commit.run, each))
        return replace(commit, consumed_signals=tuple(pending))


class TakesSignalsOfOthers(Lenient):
    def mended(self, commit: JournalCommit, refused: CommitRefused) -> JournalCommit:
        def is_foreign(signal_id: str) -> bool:
            found = self._tables.signals.find(None, signal_id)
            owner = (self._tables.signals.home(signal_id), found.bare.agent_state_id) if found else None
            return owner not in (None, (commit.run.tenant_id, commit.run.run_id))

        own = tuple(each for each in commit.consumed_signals if not is_foreign(each))
        return replace(commit, consumed_signals=own)


class ForgetsTheCall(Lenient):
    """Decides each commit of a call by what was there before the call."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        consumed = {each for commit in commits[:1] for each in commit.consumed_signals}
        kept = [
            replace(
                commit,
                consumed_signals=tuple(each for each in commit.consumed_signals if each not in consumed),
            )
            for commit in commits[1:]
        ]
        return [self.take(commit) for commit in (*commits[:1], *kept)]


class LooksAtPayloadsFirst(Lenient):
    """Encodes a commit before it looks at the rules."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        trial = MemoryStore().tables.commit(replace(commit, parent=None, conversation=None))
        is_unstorable = isinstance(trial, CommitRefused) and "cannot be stored" in trial.reason
        return trial if is_unstorable else super().take(commit)


TRANSACTION_BUGS = [
    (TakesCommitsWithoutARow, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesTheStateOfAnotherRun, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesTheStateOfAnotherTenant, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesEvidenceOfAnotherRun, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesEvidenceTwice, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesSignalsTwice, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesUnknownSignals, TransactionConformance.test_a_refused_commit_changes_nothing_anywhere),
    (TakesEvidenceOfItsRunAgain, TransactionConformance.test_evidence_is_recorded_once_for_a_tenant),
    (TakesEvidenceOfOtherRunsAgain, TransactionConformance.test_evidence_is_recorded_once_for_a_tenant),
    (HasEvidenceForAllTenants, TransactionConformance.test_evidence_is_recorded_once_for_a_tenant),
    (TakesConsumedSignals, TransactionConformance.test_a_signal_is_consumed_once),
    (TakesSignalsOfOthers, TransactionConformance.test_a_run_cannot_consume_the_signal_of_another),
    (ForgetsTheCall, TransactionConformance.test_each_commit_of_a_call_sees_what_those_before_it_have_done),
    (LooksAtPayloadsFirst, TransactionConformance.test_a_rule_is_applied_before_a_payload_is_looked_at),
]


def store_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    store = MemoryStore()

    async def read_outbox() -> Sequence[OutboxEvent]:
        return [event for _, event in store.outbox]

    return {
        "journal": journal(store),
        "second_journal": journal(store),
        "states": store.states,
        "signals": store.signals,
        "evidence": store.evidence,
        "conversations": store.conversations,
        "retention": store.retention,
        "read_outbox": read_outbox,
    }


@pytest.mark.parametrize(("bug", "test"), TRANSACTION_BUGS)
async def test_the_transaction_kit_notices_a_rule_that_is_missing(
    bug: type[MemoryJournal], test: Callable[..., object]
) -> None:
    assert test.__name__ in await failing_tests(TransactionConformance, lambda: store_fixtures(bug))


class TakesTurnsOfAnEndedRun(Lenient):
    """Takes the turns of a run that held the conversation once."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        held = self._tables.conversations.held_by(commit.run)
        status = self._tables.status_of(commit.run)
        if status is None or not status.is_terminal or commit.turns is None or held is None:
            return super().take(commit)
        outcome = self._tables.commit(replace(commit, turns=None))
        self._tables.conversations.append(commit.run.tenant_id, held, commit.turns.turns, commit.run)
        return outcome


class TakesTurnsWhileNoOtherRunHolds(TakesTurnsOfAnEndedRun):
    """Takes the turns of an ended run as long as no other run has taken hold of the conversation."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        holder = self._tables.conversations.find(commit.run.tenant_id, "chat").holder
        return super().take(commit) if holder == commit.run else Lenient.take(self, commit)


class GoesOnInAHeldConversation(Lenient):
    """Does not look at the conversation of a run that goes on after its end."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = super().take(commit)
        if not isinstance(outcome, CommitRefused) or commit.conversation is not None:
            return outcome
        if outcome.code is not CommitRefusal.CONVERSATION_HELD:
            return outcome
        holder = self._tables.conversations.find(commit.run.tenant_id, "chat")
        holder.holder = None
        return self._tables.commit(commit)


class GoesOnWithoutItsConversation(Lenient):
    """Lets a run go on after its end without holding its conversation again."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        conversation = self._tables.conversations.find(commit.run.tenant_id, "chat")
        before = conversation.holder
        outcome = super().take(commit)
        if commit.conversation is None:
            conversation.holder = before
        return outcome


class BeginsWithAnOldHistory(Lenient):
    """Does not look whether a run knows the last turns of its conversation."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        return super().take(replace(commit, known_turns=None))


class ForgetsTurnsOfApplications(Lenient):
    """Counts the turns that runs have added."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        conversation = self._tables.conversations.find(commit.run.tenant_id, "chat")
        if commit.known_turns is None or any(conversation.added_by):
            return super().take(commit)
        return super().take(replace(commit, known_turns=None))


CONVERSATION_BUGS = [
    (
        BeginsWithAnOldHistory,
        ConversationCommitConformance.test_a_run_that_does_not_know_the_last_turns_does_not_begin,
    ),
    (
        ForgetsTurnsOfApplications,
        ConversationCommitConformance.test_turns_of_an_application_count_among_those_that_a_run_knows,
    ),
    (
        LooksAtPayloadsFirst,
        ConversationCommitConformance.test_a_held_conversation_is_found_before_a_payload_is_looked_at,
    ),
    (TakesTurnsOfAnEndedRun, ConversationCommitConformance.test_a_run_that_has_ended_adds_no_turns),
    (TakesTurnsWhileNoOtherRunHolds, ConversationCommitConformance.test_a_run_that_has_ended_adds_no_turns),
    (
        GoesOnInAHeldConversation,
        ConversationCommitConformance.test_a_run_that_goes_on_after_its_end_takes_hold_of_its_conversation_again,
    ),
    (
        GoesOnWithoutItsConversation,
        ConversationCommitConformance.test_a_run_that_goes_on_after_its_end_takes_hold_of_its_conversation_again,
    ),
]


@pytest.mark.parametrize(("bug", "test"), CONVERSATION_BUGS)
async def test_the_conversation_kit_notices_a_rule_that_is_missing(
    bug: type[MemoryJournal], test: Callable[..., object]
) -> None:
    assert test.__name__ in await failing_tests(ConversationCommitConformance, lambda: store_fixtures(bug))


class TakesLeasesBehindTheEnd(Lenient):
    """Takes the lease away with every commit of a run that has ended."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = super().take(commit)
        status = self._tables.status_of(commit.run)
        if commit.state is None and status is not None and status.is_terminal:
            self._tables.leases.pop(commit.run, None)
        return outcome


async def test_the_lease_kit_notices_a_lease_that_is_taken_behind_the_end() -> None:
    def fixtures() -> Mapping[str, object]:
        clock = VirtualClock()
        store = MemoryStore(clock)

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)

        return {"journal": TakesLeasesBehindTheEnd(store), "leases": store.leases, "pass_time": pass_time}

    failing = await failing_tests(LeaseCommitConformance, fixtures)
    assert failing == ["test_a_commit_without_a_state_changes_no_lease_after_the_end"]


class KnowsParentsOfCommitsOnly(Lenient):
    """Does not know the parent that only the state names."""

    def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = super().take(commit)
        if commit.parent is None:
            self._tables.parents.pop(commit.run, None)
        return outcome


async def test_the_retention_kit_notices_a_parent_that_is_not_known() -> None:
    failing = await failing_tests(RetentionConformance, lambda: store_fixtures(KnowsParentsOfCommitsOnly))
    assert failing == ["test_a_child_stays_whole_until_its_parent_has_ended"]
