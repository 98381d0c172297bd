"""Signals: two lanes, and which of the pending ones are taken in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.repositories import IAgentSignalRepository, consume_pending_agent_signals
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSignalLane,
    AgentSignalPollPoint,
    ApprovalDecision,
    accepts_signal,
    end_of_unread,
    select_signals,
)
from pilotage.errors import AgentDefinitionError, SignalNotFoundError

USER, STEER = AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION
CANCEL, APPROVAL = AgentSignalKind.CANCEL, AgentSignalKind.APPROVAL_DECISION


def queue(*kinds: AgentSignalKind) -> list[AgentSignal]:
    return [AgentSignal(f"s{position}", "run", kind) for position, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("pending", "accepted", "limit", "taken"),
    [
        ([], None, None, []),
        ([USER, STEER, USER], None, None, ["s0", "s1", "s2"]),
        ([USER, STEER, USER], [], None, []),
        ([USER, STEER, USER], [USER], None, ["s0"]),
        ([USER, STEER, USER], [USER, STEER], 2, ["s0", "s1"]),
        ([USER, CANCEL], None, None, ["s1", "s0"]),
        ([STEER, USER, APPROVAL, CANCEL], [USER, APPROVAL, CANCEL], None, ["s2", "s3"]),
        ([USER, CANCEL, USER], [USER], None, ["s0"]),
        ([USER, USER, CANCEL], None, 1, ["s2"]),
    ],
)
def test_control_waits_for_nobody_and_messages_keep_their_order(
    pending: list[AgentSignalKind],
    accepted: list[AgentSignalKind] | None,
    limit: int | None,
    taken: list[str],
) -> None:
    selected = select_signals(queue(*pending), accepted=accepted, limit=limit)
    assert [signal.id for signal in selected] == taken


@pytest.mark.parametrize("kind", AgentSignalKind)
def test_control_is_always_accepted_and_messages_when_declared(kind: AgentSignalKind) -> None:
    is_control = kind.lane is AgentSignalLane.CONTROL
    assert is_control == (kind in {"cancel", "approval_decision", "pause", "resume"})
    assert accepts_signal(kind, ()) == is_control
    assert accepts_signal(kind, (kind,))


def test_the_decisions_stand_in_the_order_they_are_offered() -> None:
    assert [decision.value for decision in ApprovalDecision] == [
        "approve",
        "reject",
        "modify",
        "defer",
        "cancel",
    ]


class Queue(IAgentSignalRepository):
    """A small real repository that counts how often it is read."""

    def __init__(self, signals: Sequence[AgentSignal]) -> None:
        self.pending = list(signals)
        self.reads = 0

    async def append(self, signal: AgentSignal) -> AgentSignal:
        self.pending.append(signal)
        return signal

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        self.reads += 1
        return [signal for signal in self.pending if signal.agent_state_id == state_id]

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        for signal in self.pending:
            if signal.id == signal_id:
                self.pending.remove(signal)
                return signal
        raise SignalNotFoundError(signal_id)


async def test_a_poll_takes_what_it_may_and_leaves_the_rest() -> None:
    repository = Queue(queue(USER, STEER, CANCEL))
    batch = await consume_pending_agent_signals(
        repository, "run", poll_point=AgentSignalPollPoint.TOOL_BOUNDARY, accepted_signals=[USER, CANCEL]
    )
    assert [signal.id for signal in batch.signals] == ["s2", "s0"]
    assert (batch.state_id, batch.poll_point, batch.consumed_count) == ("run", "tool_boundary", 2)
    assert [signal.id for signal in repository.pending] == ["s1"]
    assert repository.reads == 1


@pytest.mark.parametrize(("state_id", "max_signals"), [(" ", None), ("run", 0), ("run", -1)])
async def test_a_wrong_poll_is_refused_before_the_repository_is_touched(
    state_id: str, max_signals: int | None
) -> None:
    repository = Queue(queue(USER))
    with pytest.raises(AgentDefinitionError):
        await consume_pending_agent_signals(repository, state_id, max_signals=max_signals)
    assert repository.reads == 0


@pytest.mark.parametrize("kind", AgentSignalKind)
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_signal_that_an_ending_run_has_not_taken_is_too_late_or_superseded(
    kind: AgentSignalKind, *, is_cancelled: bool
) -> None:
    is_control = kind.lane is AgentSignalLane.CONTROL
    is_superseded = kind is AgentSignalKind.RESUME or (is_cancelled and is_control)
    expected = AgentSignalEnd.SUPERSEDED if is_superseded else AgentSignalEnd.TOO_LATE
    assert end_of_unread(kind, is_cancelled=is_cancelled) is expected


def test_a_signal_is_the_same_whatever_became_of_it() -> None:
    (signal,) = queue(USER)
    assert replace(signal, end=AgentSignalEnd.TAKEN) == signal
