"""The promises of conversations: those of their store, and those that it keeps together with the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns, ITaskStore
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    OTHER_RUN,
    RUN,
    UNSTORABLE,
    Kit,
    claim,
    commit_one,
    numbers_of,
    row,
)

ASKED = ConversationTurn("user", "Wo ist mein Paket? 📦")
ANSWERED = ConversationTurn("assistant", "On its way:\n\u0000\ud83d 'quoted' \"twice\" \\")
DOUBTED = ConversationTurn(
    "assistant",
    "A page says that it is lost.",
    TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"tool:page", "run input"})),
)
SHOWN = ConversationTurn(
    "user",
    "Is it this one?",
    media=(
        MediaPart("image/png", name="Paket 📦.png", digest="0f" * 32, size=12),
        MediaPart("a/b", digest="1e" * 32),
    ),
)
TURNS = ConversationTurns("chat", (ASKED, ANSWERED))

ENDED = [status for status in AgentStatus if status.is_terminal]
NOT_ENDED = [status for status in AgentStatus if not status.is_terminal]


def starts(run: RunKey, conversation: str = "chat") -> JournalCommit:
    """Return the first commit of a run that holds a conversation."""
    state = AgentState(run.run_id, "shop:Helpdesk", AgentStatus.ACTIVE, tenant_id=run.tenant_id)
    return JournalCommit(run, "starts", 0, (claim(1, epoch=1),), state, conversation=conversation)


def moves(run: RunKey, status: AgentStatus, turns: ConversationTurns | None = None) -> JournalCommit:
    """Return the second commit of a run, which puts it into a status."""
    state = AgentState(run.run_id, "shop:Helpdesk", status, tenant_id=run.tenant_id)
    return JournalCommit(run, "moves", 1, (row(2),), state, turns=turns)


def is_held(outcome: CommitOutcome, by: RunKey = RUN) -> bool:
    """Return whether a commit was refused because another run holds the conversation, and names that one."""
    if not isinstance(outcome, CommitRefused) or outcome.code is not CommitRefusal.CONVERSATION_HELD:
        return False
    return outcome.holder == by.run_id


async def history(conversations: ITaskStore, tenant_id: str = RUN.tenant_id) -> Sequence[ConversationTurn]:
    """Return the turns of the conversation of these tests."""
    return await conversations.tenant_history(tenant_id, "chat")


class TaskStoreConformance(Kit):
    """Conformance tests of every store of conversations.

    Fixtures to give: `conversations`, over an empty store.
    """

    async def test_an_unknown_conversation_has_no_turns(self, conversations: ITaskStore) -> None:
        assert list(await history(conversations)) == []
        assert list(await conversations.tenant_history("default", "chat", up_to=3)) == []

    async def test_turns_come_back_unchanged_oldest_first(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [ASKED, ANSWERED])
        await conversations.append_tenant_turns("default", "chat", [ASKED])
        assert list(await history(conversations)) == [ASKED, ANSWERED, ASKED]

    async def test_a_turn_keeps_the_label_of_its_run_at_that_time(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [ASKED, DOUBTED, ANSWERED])
        assert [turn.trust for turn in await history(conversations)] == [
            TrustLabel(),
            DOUBTED.trust,
            TrustLabel(),
        ]

    async def test_a_turn_keeps_its_media(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [SHOWN, ANSWERED, ASKED])
        assert [turn.media for turn in await history(conversations)] == [SHOWN.media, (), ()]

    async def test_a_history_is_read_up_to_a_turn_and_stays_what_it_was(
        self, conversations: ITaskStore
    ) -> None:
        await conversations.append_tenant_turns("default", "chat", [ASKED, ANSWERED])
        await conversations.append_tenant_turns("default", "chat", [ANSWERED])
        read = [await conversations.tenant_history("default", "chat", up_to=up_to) for up_to in range(5)]
        whole = [ASKED, ANSWERED, ANSWERED]
        assert [list(each) for each in read] == [[], whole[:1], whole[:2], whole, whole]

    async def test_a_history_ends_at_no_turn_below_zero(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [ASKED, ANSWERED])
        with pytest.raises(AgentDefinitionError):
            await conversations.tenant_history("default", "chat", up_to=-1)

    async def test_no_turns_change_nothing(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [])
        assert list(await history(conversations)) == []

    async def test_turns_that_are_appended_at_once_stay_together(self, conversations: ITaskStore) -> None:
        pairs = [
            [ConversationTurn("user", f"{number}?"), ConversationTurn("assistant", f"{number}!")]
            for number in range(8)
        ]
        await asyncio.gather(*(conversations.append_tenant_turns("default", "chat", pair) for pair in pairs))
        turns = list(await history(conversations))
        found = [turns[at : at + 2] for at in range(0, len(turns), 2)]
        assert sorted(found, key=repr) == sorted(pairs, key=repr)

    async def test_conversations_and_tenants_are_apart(self, conversations: ITaskStore) -> None:
        await conversations.append_tenant_turns("default", "chat", [ASKED])
        await conversations.append_tenant_turns("default", "other", [ANSWERED])
        await conversations.append_tenant_turns("elsewhere", "chat", [ANSWERED, ASKED])
        assert list(await history(conversations)) == [ASKED]
        assert list(await conversations.tenant_history("default", "other")) == [ANSWERED]
        assert list(await history(conversations, "elsewhere")) == [ANSWERED, ASKED]

    async def test_the_methods_without_a_tenant_are_about_the_default_one(
        self, conversations: ITaskStore
    ) -> None:
        await conversations.append_turns("chat", [ASKED])
        await conversations.append_tenant_turns("default", "chat", [ANSWERED])
        await conversations.append_tenant_turns("elsewhere", "chat", [DOUBTED])
        assert list(await history(conversations)) == [ASKED, ANSWERED]
        assert list(await conversations.load_history("chat")) == [ASKED, ANSWERED]

    @pytest.mark.parametrize("name", ["tenant:elsewhere:chat", "elsewhere:chat", "elsewhere/chat"])
    async def test_no_name_of_a_conversation_leads_into_another_tenant(
        self, conversations: ITaskStore, name: str
    ) -> None:
        await conversations.append_tenant_turns("elsewhere", "chat", [ANSWERED])
        assert list(await conversations.tenant_history("default", name)) == []
        await conversations.append_tenant_turns("default", name, [ASKED])
        assert list(await history(conversations, "elsewhere")) == [ANSWERED]

    @pytest.mark.parametrize("names", [(" ", "chat"), ("default", "")])
    async def test_turns_belong_to_a_conversation_of_a_tenant(
        self, conversations: ITaskStore, names: tuple[str, str]
    ) -> None:
        with pytest.raises(AgentDefinitionError):
            await conversations.append_tenant_turns(*names, [ASKED])

    async def test_what_is_stored_is_nobodys_list(self, conversations: ITaskStore) -> None:
        given = [ASKED]
        await conversations.append_tenant_turns("default", "chat", given)
        given.append(ANSWERED)
        read = await history(conversations)
        if isinstance(read, list):
            read.clear()
        assert list(await history(conversations)) == [ASKED]


class ConversationCommitConformance(Kit):
    """Conformance tests of a journal and the conversations over its store together.

    Fixtures to give: `journal` and `conversations`, over one empty store. Where a store can be opened twice, give
    `second_journal` too: another adapter over the same store, as a second process has it.
    """

    @pytest.fixture
    def second_journal(self, journal: IAgentJournal) -> IAgentJournal:
        return journal

    async def test_turns_are_there_with_the_end_of_their_run(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        await conversations.append_tenant_turns("default", "chat", [ANSWERED])
        await journal.commit([starts(RUN)])
        assert list(await history(conversations)) == [ANSWERED]
        assert await commit_one(journal, moves(RUN, AgentStatus.COMPLETED, TURNS)) == Committed(2)
        assert list(await history(conversations)) == [ANSWERED, ASKED, ANSWERED]

    async def test_turns_of_a_run_keep_their_labels(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        turns = ConversationTurns("chat", (ASKED, DOUBTED))
        await journal.commit([starts(RUN), moves(RUN, AgentStatus.COMPLETED, turns)])
        assert list(await history(conversations)) == [ASKED, DOUBTED]

    async def test_a_run_may_begin_and_end_in_one_commit(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        done = AgentState(RUN.run_id, "shop:Helpdesk", AgentStatus.COMPLETED, tenant_id=RUN.tenant_id)
        assert await commit_one(journal, replace(starts(RUN), state=done, turns=TURNS)) == Committed(1)
        assert list(await history(conversations)) == [ASKED, ANSWERED]
        assert await commit_one(journal, starts(OTHER_RUN)) == Committed(1)

    async def test_turns_of_a_commit_that_is_sent_again_are_appended_once(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        last = moves(RUN, AgentStatus.COMPLETED, TURNS)
        await journal.commit([starts(RUN), last])
        assert await commit_one(journal, last) == Committed(2)
        assert list(await history(conversations)) == [ASKED, ANSWERED]

    async def test_a_commit_that_is_not_taken_says_nothing(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        await journal.commit([starts(RUN)])
        last = moves(RUN, AgentStatus.COMPLETED, TURNS)
        broken = replace(last, rows=(row(2, record=UNSTORABLE),))
        assert isinstance(await commit_one(journal, broken), CommitRefused)
        await journal.commit([replace(moves(RUN, AgentStatus.ACTIVE), token="another owner")])
        assert await commit_one(journal, last) == HeadMoved(2, 1)
        assert list(await history(conversations)) == []

    @pytest.mark.parametrize("status", NOT_ENDED)
    async def test_a_run_that_has_not_ended_holds_its_conversation(
        self, journal: IAgentJournal, status: AgentStatus
    ) -> None:
        await journal.commit([starts(RUN), moves(RUN, status)])
        refused = await commit_one(journal, starts(OTHER_RUN))
        assert is_held(refused)
        assert isinstance(refused, CommitRefused)
        assert "'chat'" in refused.reason
        assert f"'{RUN.run_id}'" in refused.reason
        assert await journal.head(OTHER_RUN) is None

    @pytest.mark.parametrize("status", ENDED)
    async def test_a_run_that_has_ended_holds_nothing(
        self, journal: IAgentJournal, status: AgentStatus
    ) -> None:
        await journal.commit([starts(RUN), moves(RUN, status)])
        third = RunKey(RUN.tenant_id, "run-3")
        assert await commit_one(journal, starts(OTHER_RUN)) == Committed(1)
        assert is_held(await commit_one(journal, starts(third)), OTHER_RUN)

    async def test_of_two_runs_at_once_exactly_one_holds_the_conversation(
        self, journal: IAgentJournal, second_journal: IAgentJournal
    ) -> None:
        outcomes = await asyncio.gather(
            commit_one(journal, starts(RUN)), commit_one(second_journal, starts(OTHER_RUN))
        )
        assert outcomes.count(Committed(1)) == 1
        holder = RUN if outcomes[0] == Committed(1) else OTHER_RUN
        assert [is_held(outcome, holder) for outcome in outcomes].count(True) == 1

    async def test_of_two_runs_in_one_call_the_first_holds_the_conversation(
        self, journal: IAgentJournal
    ) -> None:
        first, second = await journal.commit([starts(RUN), starts(OTHER_RUN)])
        assert first == Committed(1)
        assert is_held(second)
        assert await numbers_of(journal, OTHER_RUN) == []

    async def test_a_start_that_was_refused_can_be_tried_again(self, journal: IAgentJournal) -> None:
        await journal.commit([starts(RUN), starts(OTHER_RUN)])
        await journal.commit([moves(RUN, AgentStatus.FAILED)])
        assert await commit_one(journal, starts(OTHER_RUN)) == Committed(1)

    async def test_a_start_that_is_refused_for_something_else_holds_nothing(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([replace(starts(RUN), rows=(row(1, record=UNSTORABLE),))])
        assert await commit_one(journal, starts(OTHER_RUN)) == Committed(1)

    async def test_a_start_that_is_sent_again_is_recognised(self, journal: IAgentJournal) -> None:
        await journal.commit([starts(RUN)])
        assert await commit_one(journal, starts(RUN)) == Committed(1)

    async def test_other_conversations_and_other_tenants_are_not_in_the_way(
        self, journal: IAgentJournal
    ) -> None:
        outcomes = await journal.commit([starts(RUN), starts(OTHER_RUN, "other"), starts(FOREIGN_RUN)])
        assert list(outcomes) == [Committed(1)] * 3

    @pytest.mark.parametrize("conversation", ["other", "unknown"])
    async def test_turns_go_only_to_the_conversation_that_the_run_holds(
        self, journal: IAgentJournal, conversations: ITaskStore, conversation: str
    ) -> None:
        await journal.commit([starts(RUN), starts(OTHER_RUN, "other")])
        elsewhere = replace(TURNS, conversation_id=conversation)
        refused = await commit_one(journal, moves(RUN, AgentStatus.COMPLETED, elsewhere))
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.INVALID
        assert list(await conversations.tenant_history(RUN.tenant_id, conversation)) == []
        assert await numbers_of(journal) == [1]

    @pytest.mark.parametrize("is_taken", [True, False])
    async def test_a_run_that_has_ended_adds_no_turns(
        self, journal: IAgentJournal, conversations: ITaskStore, is_taken: bool
    ) -> None:
        await journal.commit([starts(RUN), moves(RUN, AgentStatus.COMPLETED)])
        if is_taken:
            await journal.commit([starts(OTHER_RUN)])
        late = JournalCommit(RUN, "late", 2, (row(3),), turns=TURNS)
        refused = await commit_one(journal, late)
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.INVALID
        assert list(await history(conversations)) == []
        assert await numbers_of(journal) == [1, 2]

    async def test_a_run_that_goes_on_after_its_end_takes_hold_of_its_conversation_again(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([starts(RUN), moves(RUN, AgentStatus.FAILED), starts(OTHER_RUN)])
        active = replace(moves(RUN, AgentStatus.ACTIVE), token="again", expected_head=2, rows=(row(3),))
        assert is_held(await commit_one(journal, active), OTHER_RUN)
        assert await numbers_of(journal) == [1, 2]
        await journal.commit([moves(OTHER_RUN, AgentStatus.COMPLETED)])
        assert await commit_one(journal, active) == Committed(3)
        assert is_held(await commit_one(journal, starts(RunKey(RUN.tenant_id, "run-3"))))

    async def test_a_held_conversation_is_found_before_a_payload_is_looked_at(
        self, journal: IAgentJournal
    ) -> None:
        await journal.commit([starts(RUN)])
        assert is_held(
            await commit_one(journal, replace(starts(OTHER_RUN), rows=(row(1, record=UNSTORABLE),)))
        )

    @pytest.mark.parametrize("is_one_commit", [True, False])
    async def test_a_run_that_does_not_know_the_last_turns_does_not_begin(
        self, journal: IAgentJournal, is_one_commit: bool
    ) -> None:
        ended = [starts(RUN), moves(RUN, AgentStatus.COMPLETED, TURNS)]
        late = replace(starts(OTHER_RUN), known_turns=1)
        if is_one_commit:
            *_, refused = await journal.commit([*ended, late])
        else:
            await journal.commit(ended)
            refused = await commit_one(journal, late)
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.CONVERSATION_MOVED
        assert await numbers_of(journal, OTHER_RUN) == []
        assert await commit_one(journal, replace(late, known_turns=2)) == Committed(1)

    async def test_turns_of_an_application_count_among_those_that_a_run_knows(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        await conversations.append_tenant_turns("other", "chat", [ASKED])
        assert await commit_one(journal, replace(starts(RUN), known_turns=0)) == Committed(1)
        await journal.commit([moves(RUN, AgentStatus.FAILED)])
        await conversations.append_tenant_turns("default", "chat", [ASKED])
        refused = await commit_one(journal, replace(starts(OTHER_RUN), known_turns=0))
        assert isinstance(refused, CommitRefused)
        assert refused.code is CommitRefusal.CONVERSATION_MOVED
        assert await commit_one(journal, starts(OTHER_RUN)) == Committed(1)

    async def test_an_application_may_speak_while_a_run_holds_the_conversation(
        self, journal: IAgentJournal, conversations: ITaskStore
    ) -> None:
        await journal.commit([starts(RUN)])
        await conversations.append_tenant_turns("default", "chat", [ANSWERED])
        await journal.commit([moves(RUN, AgentStatus.COMPLETED, TURNS)])
        assert list(await history(conversations)) == [ANSWERED, ASKED, ANSWERED]
