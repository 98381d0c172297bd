"""Signals: two lanes, the pending ones that are taken in, revisions of steering instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from pilotage.agent.ports.repositories import IAgentSignalRepository, consume_pending_agent_signals
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSignalLane,
    AgentSignalPollPoint,
    AgentSteeringUpdate,
    ApprovalDecision,
    InputProgress,
    SteeringSettlement,
    accepts_signal,
    end_of_unread,
    select_signals,
    settle_revisions,
    update_of,
)
from pilotage.errors import AgentDefinitionError, CallerError, SignalNotFoundError
from pilotage.jsonvalue import JsonObject

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


STEERING = AgentSignalKind.STEERING_INSTRUCTION
NOTED, TAKEN = InputProgress(2), InputProgress(2, is_taken=True)


def sent(word: str) -> AgentSignal:
    """A signal by a short word: `a1` is final, `a2?` a draft, `a3-` a withdrawal, anything longer a plain one."""
    if len(word) > 3:
        return AgentSignal(word, "run-1", STEERING, {"text": word})
    update = AgentSteeringUpdate(
        word[0], word, int(word[1]), final=not word.endswith("?"), withdrawn=word.endswith("-")
    )
    return AgentSignal(word, "run-1", STEERING, update.to_payload())


def settled(words: str, known: Mapping[str, InputProgress] | None = None) -> dict[str, str]:
    """The non-empty parts of a settlement, in words."""
    found: SteeringSettlement = settle_revisions([sent(word) for word in words.split()], known or {})
    parts = {name: " ".join(each.id for each in signals) for name, signals in vars(found).items()}
    return {name: ids for name, ids in parts.items() if ids}


@pytest.mark.parametrize(
    ("words", "known", "expected"),
    [
        ("", {}, {}),
        ("plain a1", {}, {"usable": "plain a1"}),
        ("a1 a2", {}, {"usable": "a2", "superseded": "a1"}),
        ("a2 a1", {}, {"usable": "a2", "superseded": "a1"}),
        ("a1 b1 a2", {}, {"usable": "b1 a2", "superseded": "a1"}),
        ("a1 a2?", {}, {"noted": "a2?", "superseded": "a1"}),
        ("a1? a2", {}, {"usable": "a2", "superseded": "a1?"}),
        ("a1 a2-", {}, {"noted": "a2-", "superseded": "a1"}),
        ("a2- a1", {}, {"noted": "a2-", "superseded": "a1"}),
        ("a2- a3", {}, {"usable": "a3", "superseded": "a2-"}),
        ("a1-", {}, {"noted": "a1-"}),
        ("a1 a2 b1", {"a": NOTED}, {"usable": "b1", "superseded": "a1 a2"}),
        ("a3", {"a": NOTED}, {"usable": "a3"}),
        ("a3 a4- a5? b1", {"a": TAKEN}, {"usable": "b1", "late": "a3 a4- a5?"}),
    ],
)
def test_the_newest_revision_of_an_input_counts(
    words: str, known: dict[str, InputProgress], expected: dict[str, str]
) -> None:
    assert settled(words, known) == expected


@pytest.mark.parametrize("words", ["a1 a2 a3", "a1 a2? a3", "a1 a2 a3-", "a1? a2- a3?"])
def test_the_order_in_which_revisions_come_changes_nothing(words: str) -> None:
    ends = [
        {each.id for each in settle_revisions([sent(word) for word in order], {}).superseded}
        for order in permutations(words.split())
    ]
    assert all(each == set(words.split()[:2]) for each in ends)


@pytest.mark.parametrize("words", ["a1 a2 a3", "a1 a2? a3", "a1 a2- a3", "a1? a2- a3-"])
def test_revisions_that_are_settled_one_by_one_end_like_those_that_are_settled_together(words: str) -> None:
    """Unless one is taken in between, it makes no difference when a run looks at its signals."""
    together = settled(words)
    waiting: list[AgentSignal] = []
    known: dict[str, InputProgress] = {}
    for word in words.split():
        found = settle_revisions([*waiting, sent(word)], known)
        waiting = found.usable
        for each in found.noted:
            known["a"] = InputProgress(int(each.id[1]))
    assert " ".join(each.id for each in waiting) == together.get("usable", "")


def test_of_two_signals_with_the_same_revision_the_first_counts() -> None:
    first, second = sent("a1"), AgentSignal("other", "run-1", STEERING, {**sent("a1").payload, "text": "no"})
    found = settle_revisions([first, second], {})
    assert (found.usable, found.superseded) == ([first], [second])


@pytest.mark.parametrize(
    "payload",
    [
        {"input_id": 7, "text": "go"},
        {"input_id": "a", "text": "go", "revision": 0},
        {"input_id": "a", "text": "go", "revision": True},
        {"input_id": "a", "text": "go", "revision": "2"},
        {"input_id": "a", "text": "go", "final": "yes"},
        {"input_id": "a", "text": "go", "withdrawn": 1},
        {"input_id": " ", "text": "go"},
        {"input_id": "a"},
        {"input_id": "a", "text": " "},
        {"input_id": "a", "final": False},
    ],
)
def test_a_payload_that_names_an_input_and_is_no_revision_is_refused(payload: JsonObject) -> None:
    with pytest.raises(CallerError):
        AgentSteeringUpdate.from_payload(payload)
    assert update_of(AgentSignal("s", "run-1", STEERING, payload)) is None


def test_an_update_comes_back_from_its_payload() -> None:
    for update in (
        AgentSteeringUpdate("a", "go"),
        AgentSteeringUpdate("a", "go", 3, final=False),
        AgentSteeringUpdate("a", revision=4, withdrawn=True),
    ):
        assert AgentSteeringUpdate.from_payload(update.to_payload()) == update
    assert AgentSteeringUpdate.from_payload({"text": "go"}) is None


def test_only_a_withdrawal_needs_no_words() -> None:
    assert AgentSteeringUpdate("a", withdrawn=True).text is None
    for wrong in ({}, {"final": False}, {"text": " "}, {"text": "go", "revision": 0}):
        with pytest.raises(AgentDefinitionError):
            AgentSteeringUpdate("a", **wrong)  # type: ignore[arg-type]
