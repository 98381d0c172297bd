"""Gates in front of the next call of a scope: the program asks whether it takes the new way. Pure."""

from __future__ import annotations

from pilotage.runtime.journal.decisions import NEWLY_OPEN, OPEN, SHUT, AnswerGates, GateAnswer, HeldGate
from pilotage.runtime.journal.positions import Call, CallIdentity, CallScope, CallState, Domain, Record


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
