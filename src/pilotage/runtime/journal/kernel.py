"""The replay kernel: decides whether a call begins, waits or gets its outcome, and when an attempt is over.

Pure: no I/O, no event loop, no clock. Events go in as method calls, decisions come out as values. Live and replay are
the same machine: a new run is one with an empty record.

The laws:

1. *Numbers.* A call made in a scope gets the next number of the scope. The recorded call with that number must have the
   same kind, label and fingerprint; otherwise the attempt diverges, before anything is dispatched. A number without
   rows is a new call. A task other than the owner of a scope is a branch, named by its first call and occurrence.
2. *Nothing new before the end of the record.* A call without recorded outcome is held until every recorded outcome was
   delivered, every recorded call without outcome was made again, and the program is at rest. A call with recorded calls
   inside begins again when that is true of everything outside of such calls.
3. *Turns.* Outcomes reach the program one at a time, in the order in which they were recorded, each when the program is
   at rest. No turn is needed for a call that returned at once, nor for one of a domain in which only the owner has
   made calls; the row says so. Domains (the run, a call that makes calls, a branch of `gather`) have separate orders.
4. *Cuts.* A call that the program cut short leaves a row with its place among the turns. In replay it ends when the
   program cancels it and that place is reached; turns behind the place wait for it. A held call is cut short at the
   end of the record. A call that may not be repeated and has begun, and a call with an outcome, are not cut short: the
   cancellation is put off to the next call of the task.
5. *Parks.* A wait parks its call and nothing else. When no call is under way, no outcome waits and the program is at
   rest, the attempt pauses with all waits.
6. *Standing still.* A program that stays at rest while the next recorded outcome is not asked for has diverged.
7. *End.* A program that ended, with all its tasks, while recorded calls are unused has diverged.
8. *A dead attempt stays dead.* After Diverge or Pause every event returns that decision again.
"""

from __future__ import annotations

from pilotage.runtime.journal.decisions import (
    BEGIN,
    BEGIN_AGAIN,
    END,
    HOLD,
    IDLE,
    NEWLY_OPEN,
    OPEN,
    PUT_OFF,
    SHUT,
    AnswerGates,
    CutShort,
    Deliver,
    Diverge,
    GateAnswer,
    HeldGate,
    Hold,
    OnAsk,
    OnCancel,
    OnEnd,
    OnGate,
    OnRest,
    OnStill,
    Over,
    Pause,
    Release,
    ReturnAtOnce,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.positions import (
    NOT_ALONE,
    TASK,
    WAS_HELD,
    Call,
    CallIdentity,
    CallScope,
    CallState,
    Domain,
    Record,
    RecordRow,
)

_NO_CALLS: dict[int, Call] = {}
# Looking a member up costs as much as a call.
_EXPECTED, _MADE, _WAITING, _UNCUT = CallState.EXPECTED, CallState.MADE, CallState.WAITING, CallState.UNCUT
_HELD, _UNDER_WAY, _PARKED, _ENDED = CallState.HELD, CallState.UNDER_WAY, CallState.PARKED, CallState.ENDED


class Kernel:
    """The state of one attempt at a run."""

    def __init__(self, record: Record | None = None) -> None:
        self._record = record or Record()
        self._left = self._record.left
        self._level = 0
        self._open: set[Call] = set()
        """Calls that were asked for and have not ended."""
        self._waits: dict[Call, str] = {}
        self._gates: list[Call] = []
        """Gates that wait for their answer."""
        self._busy = 0
        """The number of calls under way that do not wait for calls inside of them."""
        self._tasks = 0
        self.over: Over | None = None
        """The decision that ended the attempt."""
        self.is_replaying = True
        """Whether a recorded outcome is to be delivered, or a recorded call without outcome to be made."""
        self._advance()

    @property
    def has_waits(self) -> bool:
        """Return whether a call is parked."""
        return bool(self._waits)

    def open_scope(self, path: str, owner: object, around: Call | None = None) -> CallScope:
        """Return a scope with an order of its own: of the run, of a call that makes calls, of a `gather` branch."""
        record = self._record
        domain = Domain(owner, around, record.orders.get(path, ()))
        return CallScope(path, domain, record.scopes.get(path, _NO_CALLS))

    def branch(self, scope: CallScope, name: str) -> CallScope:
        """Return the scope of a task that is not the owner; `name` is label and fingerprint of its first call."""
        occurrence = scope.branches[name] = scope.branches.get(name, 0) + 1
        path = f"{scope.path}/{TASK}{name}#{occurrence}"
        return CallScope(path, scope.domain, self._record.scopes.get(path, _NO_CALLS))

    def see(self, domain: Domain, task: object) -> bool:
        """Take in that a task makes or awaits a call; return whether it is a new one, whose end must be reported."""
        if task is domain.owner or task in domain.others:
            return False
        domain.others.add(task)
        domain.epoch += 1
        self._tasks += 1
        return True

    def task_ended(self, domain: Domain, task: object) -> None:
        """Take in that a task has ended."""
        domain.others.discard(task)
        domain.moves += 1
        self._tasks -= 1

    def folded(self, path: str) -> RecordRow | None:
        """Return the row of a branch that has ended; replay does not enter it."""
        return self._record.folds.get(path)

    def skip(self, scope: CallScope) -> RecordRow | None:
        """Return the row of the folded stretch at the beginning of a scope, and number the calls behind it."""
        row = self._record.skips.get(scope.path)
        if row is not None:
            scope.number = row.number - 1
        return row

    def make(
        self, scope: CallScope, asked: CallIdentity, *, is_repeatable: bool = True, call_id: str = ""
    ) -> Call:
        """Return the call with the next number of a scope; a call that differs from the record sets `over`."""
        domain = scope.domain
        domain.moves += 1
        scope.number = number = scope.number + 1
        call = scope.recorded.get(number) or self._record.unnumbered(call_id)
        if call is None or call.state is not _EXPECTED:
            # A scope that is entered again in the same attempt does not use its record twice.
            call = Call(scope.path, number, asked)
        elif not self._fits(call, asked):
            self._diverge(f"{call.path} call {number}", str(call.asked), str(asked))
        elif call.end is None:
            self._use(call)
        call.domain = domain
        call.is_repeatable = is_repeatable
        call.state = _MADE
        return call

    def ask(self, call: Call, *, is_struck: bool = False) -> OnAsk:
        """Decide about a call that is awaited now; `is_struck`: a cancellation was put off to this call."""
        if self.over is not None:
            return self.over
        domain, end = call.domain, call.end
        domain.moves += 1
        if end is None:
            return self._ask_new(call, domain, is_struck=is_struck)
        if not self._takes_turn(call, end):
            domain.moves += 1
            self._deliver_recorded(call)
            return ReturnAtOnce(end)
        self._enter(call, _UNCUT if call.is_cut else _WAITING)
        if is_struck and call.is_cut:
            return self._cut_recorded(call, domain)
        return HOLD

    def known(self, call: Call, *, is_at_once: bool = False) -> bool:
        """Take in that the outcome of a begun call is known; return whether it takes a turn, which its row says.

        Without a turn the call has ended. `is_at_once` is True if the event loop did not turn since the call was begun.
        """
        domain = call.domain
        self._stop(call)
        if self._is_free(call, domain, is_at_once=is_at_once):
            domain.moves += 1
            self._leave(call)
            return False
        call.state = _WAITING
        domain.turns.append(call)
        return True

    def cancel(self, call: Call) -> OnCancel:
        """Decide about a call that the program cancels; of a call under way when the cancellation came out of it."""
        if self.over is not None:
            return self.over
        domain = call.domain
        domain.moves += 1
        match call.state:
            case CallState.UNCUT:
                return self._cut_recorded(call, domain)
            case CallState.HELD if call in self._gates:
                self._gates.remove(call)
                return CutShort(call)
            case CallState.HELD if self._may_cut(call):
                call.is_struck = True
                return HOLD
            case CallState.UNDER_WAY if call.is_repeatable:
                self._stop(call)
                return CutShort(call, self._cut(call, domain))
            case CallState.PARKED if call.wait is not None:
                self._stop(call)
                return Withdraw(call, call.wait, self._cut(call, domain))
            case _:
                return PUT_OFF

    def park(self, call: Call, wait: str, *, may_withdraw: bool = True) -> None:
        """Park a call under way: it waits for an answer, a signal, a long timer or a child."""
        self._stop(call)
        call.state = _PARKED
        call.epoch = WAS_HELD
        call.wait = wait if may_withdraw else None
        self._waits[call] = wait
        call.domain.moves += 1

    def gate(self, scope: CallScope, name: str) -> OnGate:
        """Decide about a gate in front of the next call of a scope: it takes no number."""
        if self.over is not None:
            return self.over
        if (scope.path, scope.number, name) in self._record.gates:
            return OPEN
        if self._record.goes_on(scope.path, scope.number):
            return SHUT
        if not self.is_replaying:
            return NEWLY_OPEN
        gate = Call(scope.path, scope.number, CallIdentity("gate", name, ""))
        gate.domain, gate.state = scope.domain, _HELD
        scope.domain.moves += 1
        self._gates.append(gate)
        return HeldGate(gate)

    def rest(self, domain: Domain) -> OnRest:
        """Decide what happens when the program is at rest in a domain."""
        if self.over is not None:
            return self.over
        if domain.turns:
            return self._take_turn(domain, domain.turns[0])
        if domain.held and (ready := self._ready(domain)) is not None:
            return ready
        if (due := self._due()) is not None:
            return self._stand_still(due)
        if self._gates and not self.is_replaying and (gates := self._gates_in(domain)):
            return self._answer(gates, NEWLY_OPEN)
        if self._waits and not self._busy and self._is_all_parked():
            return Pause(frozenset(self._waits.values()))
        return IDLE

    def confirm(self, still: StandStill | Pause) -> OnStill:
        """Take in that nothing has moved for long enough since `rest` returned this decision.

        Only gates that wait for their answer let the attempt go on.
        """
        if isinstance(still, Pause):
            self.over = self.over or still
            return still
        if self._gates:
            return self._answer(tuple(self._gates), SHUT)
        self.over = self.over or still.diverge
        return still.diverge

    def program_ended(self) -> OnEnd:
        """Decide about a program that has returned or raised; Hold: its tasks may use the rest of the record."""
        if self.over is not None:
            return self.over
        if not self.is_replaying:
            return END
        if self._tasks:
            return HOLD
        unused = next(call for call in self._record.calls() if _is_unused(call))
        self._diverge(f"{unused.path} call {unused.number}", str(unused.asked), "the program has ended")
        return self.over or END

    def _fits(self, recorded: Call, asked: CallIdentity) -> bool:
        return asked.fits(recorded.asked)

    def _takes_turn(self, call: Call, end: RecordRow) -> bool:
        return call.is_cut or (end.takes_turn and call.number > 0)

    def _may_begin(self, call: Call) -> bool:
        return not self.is_replaying or (call.has_inside and self._level > call.level)

    def _is_free(self, call: Call, domain: Domain, *, is_at_once: bool) -> bool:
        """Return whether an outcome may reach the program without its turn."""
        return call.epoch == domain.epoch or (is_at_once and call.epoch != WAS_HELD)

    def _may_cut(self, call: Call) -> bool:
        """Return whether a held call may be cut short: not if it may have taken effect, or must be entered."""
        return (call.is_repeatable or not call.has_begun) and not call.has_inside

    def _ask_new(self, call: Call, domain: Domain, *, is_struck: bool) -> OnAsk:
        call.is_struck = is_struck and self._may_cut(call)
        if call.is_struck and not self.is_replaying:
            self._enter(call, _HELD)
            return CutShort(call, self._cut(call, domain))
        if self._may_begin(call):
            call.epoch = NOT_ALONE if domain.others else domain.epoch
            self._enter(call, _UNDER_WAY)
            self._busy += 1
            return BEGIN_AGAIN if call.has_begun else BEGIN
        call.epoch = WAS_HELD
        domain.held.append(call)
        self._enter(call, _HELD)
        return HOLD

    def _enter(self, call: Call, state: CallState) -> None:
        call.state = state
        self._open.add(call)
        around = call.domain.around
        if around is not None:
            around.inner += 1
            if around.inner == 1 and around.state is _UNDER_WAY:
                self._busy -= 1

    def _leave(self, call: Call) -> None:
        call.state = _ENDED
        self._open.discard(call)
        around = call.domain.around
        if around is not None:
            around.inner -= 1
            if not around.inner and around.state is _UNDER_WAY:
                self._busy += 1

    def _stop(self, call: Call) -> None:
        """Take a call out of those under way or parked."""
        if call.state is _UNDER_WAY and not call.inner:
            self._busy -= 1
        elif call.state is _PARKED:
            del self._waits[call]

    def _cut(self, call: Call, domain: Domain) -> int:
        """End a call that is cut short now, and return its place among the turns."""
        passed = domain.passed
        domain.passed += 1
        self._leave(call)
        return passed

    def _cut_recorded(self, call: Call, domain: Domain) -> CutShort | Hold:
        """Cut a call short that is recorded so, if its place among the turns is reached."""
        if domain.turns[0] is not call:
            call.is_struck = True
            return HOLD
        domain.turns.popleft()
        domain.moves += 1
        self._cut(call, domain)
        self._deliver_recorded(call)
        return CutShort(call)

    def _take_turn(self, domain: Domain, call: Call) -> OnRest:
        if call.state is _WAITING:
            domain.turns.popleft()
            domain.passed += 1
            domain.moves += 1
            self._leave(call)
            if call.end is not None:
                self._deliver_recorded(call)
            return Deliver(call, call.end)
        if (
            call.state is _UNCUT
            and call.is_struck
            and isinstance(cut := self._cut_recorded(call, domain), CutShort)
        ):
            return cut
        if self._gates and (gates := self._gates_in(domain)):
            return self._answer(gates, SHUT)
        return self._stand_still(call)

    def _deliver_recorded(self, call: Call) -> None:
        call.state = _ENDED
        self._use(call)

    def _use(self, call: Call) -> None:
        """Count a recorded call as used: its outcome is delivered, or without an outcome it is made again."""
        self._left[call.level] -= 1
        self._advance()

    def _advance(self) -> None:
        while self._level < len(self._left) and not self._left[self._level]:
            self._level += 1
        self.is_replaying = self._level < len(self._left)

    def _ready(self, domain: Domain) -> Release | CutShort | None:
        """Release the held calls that begin now; one that the program has cancelled meanwhile is cut short first."""
        ready = tuple([call for call in domain.held if self._may_begin(call)])
        if not ready:
            return None
        domain.moves += 1
        struck = next((call for call in ready if call.is_struck), None)
        if struck is not None:
            domain.held.remove(struck)
            return CutShort(struck, self._cut(struck, domain))
        for call in ready:
            domain.held.remove(call)
            call.state = _UNDER_WAY
            self._busy += 1
        return Release(ready)

    def _gates_in(self, domain: Domain) -> tuple[Call, ...]:
        return tuple([gate for gate in self._gates if gate.domain is domain])

    def _answer(self, gates: tuple[Call, ...], answer: GateAnswer) -> AnswerGates:
        for gate in gates:
            gate.domain.moves += 1
            gate.state = _ENDED
            self._gates.remove(gate)
        return AnswerGates(gates, answer)

    def _due(self) -> Call | None:
        """Return the first recorded call that is not used; not those inside of a parked call."""
        if not self.is_replaying:
            return None
        parked = [f"{call.id}/" for call in self._waits]
        for call in self._record.calls():
            is_inside = any(f"{call.path}/".startswith(path) for path in parked)
            if _is_unused(call) and not is_inside:
                return call
        return None

    def _is_all_parked(self) -> bool:
        waiting = (_PARKED, _UNDER_WAY, _HELD) if self.is_replaying else (_PARKED, _UNDER_WAY)
        return not self._gates and all(call.state in waiting for call in self._open)

    def _stand_still(self, due: Call) -> StandStill:
        stands = tuple(sorted(f"{call}: {call.state.value}" for call in self._open))
        where = f"{due.path} call {due.number}"
        return StandStill(due.took, Diverge(where, str(due.asked), "no task asks for it", stands))

    def _diverge(self, where: str, recorded: str, asked: str) -> None:
        stands = tuple(sorted(f"{call}: {call.state.value}" for call in self._open))
        self.over = self.over or Diverge(where, recorded, asked, stands)


def _is_unused(call: Call) -> bool:
    return call.state is _EXPECTED or (call.end is not None and call.state is not _ENDED)
