"""The replay kernel: decides whether a call begins, waits or gets its outcome, and when an attempt is over.

Pure: no I/O, no event loop, no clock. Events go in as method calls, decisions come out as values. Live and replay are
the same machine: a new run is one with an empty record.

The laws:

1. *Numbers.* A call made in a scope gets the next number of the scope. The recorded call with that number must have the
   same kind, label and fingerprint; otherwise the attempt diverges, before anything is dispatched. A number without
   rows is a new call. A task other than the owner of a scope is a branch, named by its first call and occurrence.
   The number of a call that a person has skipped is passed over: the program does not make that call any more.
2. *Nothing new before the end of the record.* A call without recorded outcome is held until every recorded outcome was
   delivered, every recorded call without outcome was made again, and the program is at rest. A call with recorded calls
   inside begins again when that is true of everything outside of such calls. Where the rest of the record is out of
   reach, because it is inside of calls that wait for answers, all others with an unknown outcome are asked about too.
3. *Turns.* Outcomes reach the program one at a time, in the order in which they were recorded, each when the program is
   at rest. No turn is needed for a call that returned at once, nor for one of a domain in which only the owner has
   made calls; the row says so. Domains (the run, a call that makes calls, a branch of `gather`) have separate orders.
4. *Cuts.* A call that the program cut short leaves a row with its place among the turns. In replay it ends when the
   program cancels it and that place is reached; turns after the place wait for it. A held call is cut short at the
   end of the record. A call that may not be repeated and has begun, and a call with an outcome, are not cut short: the
   cancellation is put off to the next call of the task.
5. *Parks.* A wait parks its call and nothing else. When no call is under way, no outcome waits and the program is at
   rest, the attempt pauses with all waits. Once a wait is answered, no further call of the program begins, so that the
   attempt comes to this rest and the next one goes on with the answer; calls under way come to their ends.
6. *Standing still.* A program that stays at rest while the next recorded outcome is not asked for has diverged.
7. *End.* A program that ended, with all its tasks, while recorded calls are unused has diverged. So has a branch or
   turn, before it is folded, while recorded calls inside of it are unused. If a person was asked about the answer of a
   program, its end is part of the record, like a call without outcome: nothing new begins before it has returned.
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
    NOT_ENDED,
    PUT_OFF,
    SHUT,
    CutShort,
    Deliver,
    Diverge,
    Gates,
    Hold,
    OnAsk,
    OnCancel,
    OnEnd,
    OnGate,
    OnRest,
    OnStill,
    Over,
    Pause,
    ReturnAtOnce,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.positions import (
    NOT_ALONE,
    WAS_HELD,
    Call,
    CallScope,
    CallState,
    Domain,
    Record,
    RecordRow,
    Requested,
)
from pilotage.runtime.journal.progress import HeldCalls

# Looking a member up costs as much as a call.
_EXPECTED, _MADE, _WAITING, _UNCUT = CallState.EXPECTED, CallState.MADE, CallState.WAITING, CallState.UNCUT
_HELD, _UNDER_WAY, _PARKED, _ENDED = CallState.HELD, CallState.UNDER_WAY, CallState.PARKED, CallState.ENDED


class Kernel(HeldCalls):
    """The state of one attempt at a run."""

    def __init__(self, record: Record | None = None) -> None:
        super().__init__(record or Record())
        self._gates = Gates(self._record)
        self._unasked = 0
        """The number of calls that were made and are not awaited yet."""
        self.over: Over | None = None
        """The decision that ended the attempt."""

    def folded(self, path: str) -> RecordRow | None:
        """Return the row of a branch that has ended; replay does not enter it."""
        return self._progress.folded(path)

    def coming_number(self, scope: CallScope) -> int:
        """Return the number of the next call of a scope."""
        number = scope.number + 1
        while number in scope.skipped:
            number += 1
        return number

    def make(self, scope: CallScope, asked: Requested, is_repeatable: bool = True, call_id: str = "") -> Call:
        """Return the call with the next number of a scope; a call that differs from the record sets `over`."""
        domain = scope.domain
        domain.moves += 1
        number = scope.number = self.coming_number(scope) if scope.skipped else scope.number + 1
        call = self._recorded(scope, asked, call_id) if self._progress.is_replaying else None
        if call is None:
            call = Call(scope.path, number, asked, call_id)
        call.domain, call.is_repeatable, call.state = domain, is_repeatable, _MADE
        self._unasked += 1
        return call

    def ask(self, call: Call, is_struck: bool = False) -> OnAsk:
        """Decide about a call that is awaited now; `is_struck`: a cancellation was put off to this call."""
        if self.over is not None:
            return self.over
        domain = call.domain
        domain.moves += 1
        self._unasked -= 1
        if call.end is not None:
            return self._ask_recorded(call, call.end, is_struck=is_struck)
        if is_struck and self._may_cut(call):
            call.is_struck = True
            if not self.is_replaying:
                self._enter(call, _HELD)
                return CutShort(call, self._cut(call, domain))
        if not (self._progress.is_replaying or self.is_draining) or self._may_begin(call):
            call.epoch = self._epoch_of(call, domain)
            self._enter(call, _UNDER_WAY)
            self._busy += 1
            return BEGIN_AGAIN if call.has_begun else BEGIN
        call.epoch = WAS_HELD
        domain.held.append(call)
        self._enter(call, _HELD)
        return HOLD

    def known(self, call: Call, is_at_once: bool = False) -> bool:
        """Take in that the outcome of a begun call is known; return whether it takes a turn, which its row says.

        Without a turn the call has ended. `is_at_once` is True if the event loop did not turn since the call was begun.
        """
        if call.state is _ENDED:
            return False
        if call.has_inside:
            self._progress.drop_inside(call)
        domain = call.domain
        self._stop(call)
        # Of a program with one task the epoch stays: the question is asked only beside others.
        if call.epoch == domain.epoch or self._is_free(call, domain, is_at_once=is_at_once):
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
            case CallState.HELD if call in self._gates.waiting:
                self._gates.waiting.remove(call)
                return CutShort(call)
            case CallState.HELD if self._may_cut(call):
                call.is_struck = True
                return HOLD
            case CallState.UNDER_WAY if call.is_repeatable or call.has_not_acted:
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
        if call.state is _MADE:
            self._unasked -= 1
            self._enter(call, _PARKED)
        call.state = _PARKED
        call.epoch = WAS_HELD
        call.wait = wait if may_withdraw else None
        self._waits[call] = wait
        call.domain.moves += 1

    def forget(self, call: Call) -> None:
        """Take in that a call under way ended without an outcome: it was refused before it began."""
        if call.state is _UNDER_WAY:
            self._stop(call)
            call.domain.moves += 1
            self._leave(call)

    @property
    def is_only_wait(self) -> bool:
        """Return whether a single parked call is all that is open: at rest the attempt pauses without a grace."""
        return len(self._waits) == 1 and all(map(self.is_alone, self._waits))

    def is_alone(self, call: Call) -> bool:
        """Return whether nothing is open but a parked call and the calls around it, as far as calls were made."""
        depth, around = 1, call.domain.around
        while around is not None:
            depth, around = depth + 1, around.domain.around
        is_other = self._tasks or self._unasked or self._gates.waiting
        return not is_other and len(self._open) <= depth

    def gate(self, scope: CallScope, name: str) -> OnGate:
        """Decide about a gate in front of the next call of a scope: it takes no number."""
        if self.over is not None:
            return self.over
        return self._gates.decide(scope, name, is_replaying=self.is_replaying)

    def rest(self, domain: Domain) -> OnRest:
        """Decide what happens when the program is at rest in a domain."""
        if self.over is not None:
            return self.over
        if domain.keeps_turn:
            return IDLE
        if domain.turns:
            return self._take_turn(domain, domain.turns[0])
        if domain.held and (ready := self._ready(domain)) is not None:
            return ready
        if (due := self._progress.due(self._not_entered())) is not None:
            return self._stand_still(due)
        if not self.is_replaying and (gates := self._gates.waiting_in(domain)):
            return self._gates.answer(gates, NEWLY_OPEN)
        if self._waits and not self._busy and self._is_all_parked():
            asking = self._ask_about() if self.is_replaying else None
            return asking or Pause(frozenset(self._waits.values()))
        return IDLE

    def confirm(self, still: StandStill | Pause) -> OnStill:
        """Take in that nothing has moved for long enough since `rest` returned this decision.

        Gates that wait for their answer let the attempt go on. So do recorded calls that are held while only calls
        without outcome are left: these may be made after them.
        """
        if isinstance(still, Pause):
            self.over = self.over or still
            return still
        if self._gates.waiting:
            return self._gates.answer(tuple(self._gates.waiting), SHUT)
        if not self._progress.outcomes and (again := self._begin_recorded()) is not None:
            return again
        self.over = self.over or still.diverge
        return still.diverge

    def returned(self) -> None:
        """Take in that the program has returned an answer: a recorded question about it is asked again."""
        answer = self._record.answer
        if answer is not None and answer.state is _EXPECTED:
            self._deliver_recorded(answer)

    def program_ended(self, below: str = "") -> OnEnd:
        """Decide about a program, or a branch or turn with a path, that has returned or raised.

        Hold: its tasks may use the rest of the record, or have calls that an earlier attempt began or asked about.
        """
        if self.over is not None:
            return self.over
        left_out = self._progress.left_out(below) if self.is_replaying else None
        if self._tasks and (left_out is not None or (not below and self._has_held_record())):
            return HOLD
        if left_out is None:
            return END
        where, recorded, action_id = left_out
        self._diverge(where, recorded, "the program has ended", action_id)
        return self.over or END

    def _fits(self, recorded: Call, asked: Requested) -> bool:
        return recorded.identity is None or asked.fits(recorded.identity)

    def _takes_turn(self, call: Call, end: RecordRow) -> bool:
        return call.is_cut or (end.takes_turn and call.number > 0)

    def _epoch_of(self, call: Call, domain: Domain) -> int:
        """Return when a call begins, as its domain counts.

        One that an earlier attempt waited for may end at once now, by an answer that is there: it takes a turn all the
        same, because the other tasks of the program moved while it waited. A sync call cannot wait for a turn.
        """
        if (call.identity is not None or call.was_waiting) and not call.is_sync:
            return WAS_HELD
        return NOT_ALONE if domain.others else domain.epoch

    def _is_free(self, call: Call, domain: Domain, *, is_at_once: bool) -> bool:
        """Return whether an outcome beside other tasks may reach the program without its turn."""
        return not call.is_ordered or (is_at_once and call.epoch != WAS_HELD)

    def _recorded(self, scope: CallScope, asked: Requested, call_id: str) -> Call | None:
        """Return the recorded call with the present number of a scope, or one with recorded calls inside; else None.

        A scope that is entered again in the same attempt does not use its record twice.
        """
        record = self._record
        call = scope.recorded.get(scope.number) or record.unnumbered(call_id)
        if call is None or call.state is not _EXPECTED:
            if call_id not in record.unwritten:
                return None
            call = Call(scope.path, scope.number, asked, call_id)
            call.has_inside, call.level = True, record.unwritten.pop(call_id)
            return call
        if not self._fits(call, asked):
            self._diverge(f"{call.path} call {scope.number}", str(call.asked), str(asked), call.id)
        elif call.end is None:
            self._progress.use(call)
        return call

    def _ask_recorded(self, call: Call, end: RecordRow, *, is_struck: bool) -> OnAsk:
        domain = call.domain
        if not self._takes_turn(call, end):
            domain.moves += 1
            self._deliver_recorded(call)
            return ReturnAtOnce(end)
        self._enter(call, _UNCUT if call.is_cut else _WAITING)
        if is_struck and call.is_cut:
            return self._cut_recorded(call, domain)
        return HOLD

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
        if (unmade := self._unmade_before(call)) is not None:
            if gates := self._gates.waiting_in(domain):
                return self._gates.answer(gates, SHUT)
            return self._stand_still(unmade)
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
        if gates := self._gates.waiting_in(domain):
            return self._gates.answer(gates, SHUT)
        return self._stand_still(call)

    def _deliver_recorded(self, call: Call) -> None:
        call.state = _ENDED
        self._progress.use(call)

    def _is_all_parked(self) -> bool:
        holds = self.is_replaying or self.is_draining
        waiting = (_PARKED, _UNDER_WAY, _HELD) if holds else (_PARKED, _UNDER_WAY)
        return not self._gates.waiting and all(call.state in waiting for call in self._open)

    def _stand_still(self, due: Call) -> StandStill:
        where = f"{due.path} call {due.number}"
        asked = NOT_ENDED if due is self._record.answer else "no task asks for it"
        unasked = Diverge(where, str(due.asked), asked, self._stands(), due.id)
        return StandStill(due.took, unasked)

    def _diverge(self, where: str, recorded: str, asked: str, action_id: str) -> None:
        self.over = self.over or Diverge(where, recorded, asked, self._stands(), action_id)

    def _stands(self) -> tuple[str, ...]:
        return tuple(sorted(f"{call}: {call.state.value}" for call in self._open))
