"""The decisions of the replay kernel: what becomes of a call, of a gate, of a program at rest, of an attempt."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.runtime.journal.positions import (
    Call,
    CallIdentity,
    CallScope,
    CallState,
    Domain,
    Record,
    RecordRow,
)
from pilotage.values import value


@value
class Begin:
    """Carry the call out. `is_again`: an earlier attempt has begun it, so it is recovered."""

    is_again: bool = False


@value
class ReturnAtOnce:
    """Return the recorded outcome without waiting."""

    row: RecordRow


@value
class Hold:
    """Wait: the call gets its outcome, or begins, by a later decision."""


@value
class Deliver:
    """Give the call its outcome: that of the row, or without a row the one that was just recorded."""

    call: Call
    row: RecordRow | None


@value
class Release:
    """Begin the held calls: the record has ended for them."""

    calls: tuple[Call, ...]


@value
class GateAnswer:
    """The answer of a gate. `is_new`: it is True from here on, which a row says."""

    is_open: bool
    is_new: bool = False


@value
class HeldGate:
    """The answer of the gate comes by a later decision."""

    gate: Call


@value
class AnswerGates:
    """Answer the gates that are held."""

    gates: tuple[Call, ...]
    answer: GateAnswer


@value
class CutShort:
    """Raise the cancellation in the call.

    `passed` is the place for its row among the turns, None if the row is there already.
    """

    call: Call
    passed: int | None = None


@value
class Withdraw:
    """Cut the call short, and withdraw the wait it is parked for."""

    call: Call
    wait: str
    passed: int


@value
class PutOff:
    """Let the call go on; the cancellation strikes at the next call of its task."""


@value
class Idle:
    """Nothing to do until a call under way ends, or the program moves."""


@value
class StandStill:
    """The next recorded outcome is not asked for. If nothing moves for as long as the record took, `confirm` it."""

    took: float
    diverge: Diverge


@value
class Pause:
    """The attempt is over: it waits for these."""

    waits: frozenset[str]


@value
class Diverge:
    """The attempt is over: the program does not do what is recorded. `tasks` has the positions of its calls."""

    where: str
    recorded: str
    asked: str
    tasks: tuple[str, ...] = ()
    action_id: str = ""


@value
class End:
    """The program has ended, and the record is used up."""


Over: TypeAlias = Pause | Diverge
OnAsk: TypeAlias = Begin | ReturnAtOnce | Hold | CutShort | Over
OnCancel: TypeAlias = CutShort | Withdraw | PutOff | Hold | Over
OnGate: TypeAlias = GateAnswer | HeldGate | Over
OnRest: TypeAlias = Deliver | CutShort | Release | AnswerGates | Idle | StandStill | Over
OnStill: TypeAlias = Diverge | AnswerGates | Release | Pause
OnEnd: TypeAlias = End | Hold | Over

NOT_ENDED = "the program has not ended"
"""The request in the divergence of a program that does not return as its record does."""
BEGIN, BEGIN_AGAIN, HOLD, PUT_OFF, IDLE, END = Begin(), Begin(True), Hold(), PutOff(), Idle(), End()
OPEN, NEWLY_OPEN, SHUT = GateAnswer(True), GateAnswer(True, True), GateAnswer(False)


class Gates:
    """The recorded gates of a run, and those of this attempt that wait for their answer."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.waiting: list[Call] = []

    def decide(self, scope: CallScope, name: str, *, is_replaying: bool) -> GateAnswer | HeldGate:
        """Return the answer of a gate, or the gate itself if it waits for its answer: it takes no number."""
        if (scope.path, scope.number, name) in self._record.gates:
            return OPEN
        if self._record.goes_on(scope.path, scope.number):
            return SHUT
        if not is_replaying:
            return NEWLY_OPEN
        gate = Call(scope.path, scope.number, CallIdentity("gate", name, ""))
        gate.domain, gate.state, gate.wait = scope.domain, CallState.HELD, name
        scope.domain.moves += 1
        self.waiting.append(gate)
        return HeldGate(gate)

    def waiting_in(self, domain: Domain) -> tuple[Call, ...]:
        """Return the gates of a domain that wait for their answer."""
        return tuple([gate for gate in self.waiting if gate.domain is domain])

    def answer(self, gates: tuple[Call, ...], answer: GateAnswer) -> AnswerGates:
        """Answer gates that waited."""
        for gate in gates:
            gate.domain.moves += 1
            gate.state = CallState.ENDED
            self.waiting.remove(gate)
        return AnswerGates(gates, answer)
