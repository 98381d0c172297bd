"""Facts: every one survives the outbox, and what cannot be read says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pilotage.agent import (
    AgentActionCompleted,
    AgentActionKind,
    AgentActionOutcome,
    AgentApprovalRequested,
    AgentFact,
    AgentQuestionKind,
    AgentRunDelegated,
    AgentRunFailed,
    AgentRunPaused,
    AgentSignalKind,
    AgentSignalTooLate,
    AgentStateReason,
    OutboxEntry,
    OutboxEvent,
    RunKey,
    UnreadableFactError,
    read_fact,
)
from pilotage.agent.facts import (
    FACTS,
    action_completed,
    approval_requested,
    fact_of,
    run_delegated,
    write_fact,
)
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RUN = RunKey("default", "run-1")
OF_RUN = ("run-1", "default", "clerk")
WITH_DETAILS = [
    AgentRunPaused(*OF_RUN, AgentStateReason.APPROVAL_REQUIRED, parent="run-0"),
    AgentApprovalRequested(*OF_RUN, "run-1:q", AgentQuestionKind.RECOVERY, "pay"),
    AgentRunDelegated(*OF_RUN, "run-2", "helper"),
    AgentActionCompleted(
        *OF_RUN, "run/tool:pay#1", AgentActionKind.TOOL_CALL, "pay", AgentActionOutcome.DONE
    ),
    AgentRunFailed(*OF_RUN, AgentStateReason.TIMEOUT),
    AgentSignalTooLate(*OF_RUN, "signal-1", AgentSignalKind.USER_MESSAGE),
]
PLAIN = [fact(*OF_RUN) for fact in FACTS.values() if fact not in {type(each) for each in WITH_DETAILS}]


def entry(event: OutboxEvent) -> OutboxEntry:
    return OutboxEntry(RUN, 7, event, NOW)


@pytest.mark.parametrize("fact", [*PLAIN, *WITH_DETAILS], ids=lambda fact: type(fact).__name__)
def test_a_fact_comes_out_of_the_outbox_as_it_went_in(fact: AgentFact) -> None:
    event = write_fact(fact)
    assert (event.event_type, event.version) == (type(fact).__name__, 1)
    assert all(value is None or type(value) is str for value in event.payload.values())
    read = read_fact(entry(event))
    assert type(read) is type(fact)
    assert write_fact(read) == event
    assert (read.id, read.occurred_at) == ("default/run-1/7", NOW)


def test_what_a_newer_program_added_is_left_out() -> None:
    event = write_fact(PLAIN[0])
    newer = OutboxEvent(event.event_type, event.version, {**event.payload, "mood": "fine"})
    assert write_fact(read_fact(entry(newer))) == event


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            OutboxEvent("AgentRunStarted", 2, {}),
            r"'AgentRunStarted' version 2 is unknown here.*default/run-1/7",
        ),
        (OutboxEvent("Unheard", 1, {}), "'Unheard' version 1 is unknown here"),
        (OutboxEvent("AgentRunStarted", 1, {}), "is no AgentRunStarted: KeyError"),
        (
            OutboxEvent(
                "AgentRunFailed",
                1,
                {"run_id": "r", "tenant_id": "t", "agent": "a", "parent": None, "reason": "bad luck"},
            ),
            "is no AgentRunFailed: ValueError.*bad luck",
        ),
    ],
)
def test_what_cannot_be_read_says_so(event: OutboxEvent, words: str) -> None:
    with pytest.raises(UnreadableFactError, match=words):
        read_fact(entry(event))


CREATED = AgentState("run-1", "clerk", AgentStatus.CREATED, metadata={"parent": "run-0"})
RUNNING = CREATED.moved_to(AgentSituation.RUNNING)
WAITING = RUNNING.moved_to(AgentSituation.WAITING_FOR_APPROVAL)
DEFERRED = RUNNING.moved_to(AgentSituation.APPROVAL_DEFERRED)
CANCELLING = RUNNING.moved_to(AgentSituation.CANCELLING)


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (CREATED, RUNNING, "AgentRunStarted"),
        (RUNNING, RUNNING.moved_to(AgentSituation.RUNNING, activity="busy"), None),
        (RUNNING, WAITING, "AgentRunPaused"),
        (WAITING, WAITING, None),
        (WAITING, DEFERRED, "AgentRunPaused"),
        (WAITING, RUNNING, "AgentRunResumed"),
        (RUNNING, CANCELLING, "AgentRunCancelling"),
        (CANCELLING, CANCELLING.moved_to(AgentSituation.CANCELLED), "AgentRunCancelled"),
        (CANCELLING, CANCELLING.moved_to(AgentSituation.CANCELLATION_CLEANUP_FAILED), "AgentRunFailed"),
        (RUNNING, RUNNING.moved_to(AgentSituation.TIMED_OUT), "AgentRunFailed"),
        (RUNNING, RUNNING.moved_to(AgentSituation.COMPLETED), "AgentRunCompleted"),
    ],
)
def test_a_step_between_states_makes_one_fact_true(
    before: AgentState, after: AgentState, name: str | None
) -> None:
    event = fact_of(before, after)
    assert (event and event.event_type) == name
    if event is not None:
        assert (event.payload["run_id"], event.payload["parent"]) == ("run-1", "run-0")
        assert event.payload.get("reason") == (after.reason if "reason" in event.payload else None)


TOLD = [
    fact_of(CREATED, RUNNING),
    fact_of(RUNNING, WAITING),
    fact_of(RUNNING, RUNNING.moved_to(AgentSituation.TIMED_OUT)),
    approval_requested(RUNNING, {"id": "run-1:q", "action_kind": "tool_call"}, "pay"),
    approval_requested(RUNNING, {"id": "run-1:q"}, "pay"),
    action_completed(RUNNING, "run/tool:pay#1", AgentActionKind.TOOL_CALL, "pay", has_failed=True),
    run_delegated(RUNNING, "run-2", "helper"),
]


@pytest.mark.parametrize("event", TOLD, ids=lambda event: event.event_type)
def test_what_a_run_tells_can_be_read(event: OutboxEvent) -> None:
    assert write_fact(read_fact(entry(event))) == event


def test_a_fact_has_the_id_that_the_caller_gave_and_one_of_an_earlier_release_has_none() -> None:
    named = replace(CREATED, metadata={"alias": "order-7"})
    event = fact_of(named, named.moved_to(AgentSituation.RUNNING))
    assert event is not None
    assert read_fact(entry(event)).alias == "order-7"
    earlier = {name: text for name, text in event.payload.items() if name != "alias"}
    assert read_fact(entry(replace(event, payload=earlier))).alias is None
