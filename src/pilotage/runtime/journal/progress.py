"""The progress of one attempt: its scopes, the outcomes delivered, the open calls and the calls that are held. Pure.

The laws of held calls stand on top of `kernel.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pilotage.runtime.journal.decisions import CutShort, Release
from pilotage.runtime.journal.positions import (
    TASK,
    WAS_HELD,
    Call,
    CallScope,
    CallState,
    Domain,
    Record,
    RecordRow,
)

_NO_CALLS: dict[int, Call] = {}


class Domains:
    """Opens the scopes of one attempt over its record, and counts the tasks besides their owners."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._tasks = 0

    def open_scope(self, path: str, owner: object, around: Call | None = None) -> CallScope:
        """Return a scope with an order of its own: of the run, of a call that makes calls, of a `gather` branch."""
        record = self._record
        if around is not None:
            around.has_made = True
        order = [call for call in record.orders.get(path, ()) if call.state is CallState.EXPECTED]
        domain = Domain(owner, around, order)
        return CallScope(path, domain, record.scopes.get(path, _NO_CALLS), record.skipped.get(path, ()))

    def branch(self, scope: CallScope, name: str) -> CallScope:
        """Return the scope of a task that is not the owner; `name` is label and fingerprint of its first call."""
        occurrence = scope.branches[name] = scope.branches.get(name, 0) + 1
        return self.beside(scope, f"{scope.path}/{TASK}{name}#{occurrence}")

    def beside(self, scope: CallScope, path: str) -> CallScope:
        """Return a scope that shares its order with another one: an implicit branch of it."""
        record = self._record
        return CallScope(path, scope.domain, record.scopes.get(path, _NO_CALLS), record.skipped.get(path, ()))

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


_EXPECTED, _ENDED = CallState.EXPECTED, CallState.ENDED


class RecordProgress:
    """Counts what is left of a record, by level: level 0 is outside of every call without outcome."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._left = record.left
        self.level = 0
        """The first level that is not used up."""
        recorded = list(record.calls())
        self.outcomes = sum(call.end is not None for call in recorded) + len(record.fold_levels)
        """The number of recorded outcomes that are to be delivered."""
        if record.answer is not None:
            recorded.append(record.answer)
        self._unmade = sorted(recorded, key=lambda call: call.first, reverse=True) if record.orders else []
        """The recorded calls that are to be made, the first one last; only where outcomes have an order."""
        self.is_replaying = True
        """Whether a recorded outcome is to be delivered, or a recorded call without outcome to be made."""
        self._advance()

    def use(self, call: Call) -> None:
        """Count a recorded call as used: its outcome is delivered, or without an outcome it is made again."""
        left, level = self._left, call.level
        left[level] -= 1
        if call.end is not None:
            self.outcomes -= 1
        if not left[level]:
            self._advance()

    def folded(self, path: str) -> RecordRow | None:
        """Return the row of a branch that has ended, and count it as used; replay does not enter the branch."""
        level = self._record.fold_levels.pop(path, None)
        if level is not None:
            self._left[level] -= 1
            self.outcomes -= 1
            self._advance()
        return self._record.folds.get(path)

    def drop_inside(self, around: Call) -> None:
        """Count what is left inside of a call as used: the call has its outcome, and replay does not enter it."""
        below = f"{around.id}/"
        for call in self._record.calls():
            if call.state is _EXPECTED and f"{call.path}/".startswith(below):
                call.state = _ENDED
                self.use(call)

    def unmade_before(self, call: Call, not_entered: Iterable[Call]) -> Call | None:
        """Return a recorded call that was made before an outcome came, and is not made yet in this attempt.

        Not one inside of calls that are not entered yet.
        """
        unmade = self._unmade
        while unmade and (unmade[-1].state is not _EXPECTED or unmade[-1].level > call.level):
            unmade.pop()
        paths = _below(not_entered)
        due = (each for each in reversed(unmade) if _is_due_at(each, call.level))
        first = next((each for each in due if not f"{each.path}/".startswith(paths)), None)
        return first if first is not None and first.first < call.last else None

    def due(self, not_entered: Iterable[Call]) -> Call | None:
        """Return the first recorded call that is not used; not those inside of calls that are not entered yet."""
        if not self.is_replaying:
            return None
        paths = _below(not_entered)
        for call in self._record.calls():
            if _is_unused(call) and not f"{call.path}/".startswith(paths):
                return call
        folds = (path for path in self._record.fold_levels if not path.startswith(paths))
        return self._folded_call(next(folds, None)) or self._unused_answer()

    def _folded_call(self, path: str | None) -> Call | None:
        """Return a finished branch or turn in the form of a call."""
        if path is None:
            return None
        row = self._record.folds[path]
        call = Call(row.scope, row.number, row.asked)
        call.id = path
        return call

    def left_out(self, below: str = "") -> tuple[str, str, str] | None:
        """Return place, description and id of the first recorded call, or else finished branch, that is not used.

        Only what is below a path counts, if there is one. None: all of it is used.
        """
        prefix = f"{below}/" if below else ""
        for call in self._record.calls():
            if _is_unused(call) and f"{call.path}/".startswith(prefix):
                return f"{call.path} call {call.number}", str(call.asked), call.id
        path = next((path for path in self._record.fold_levels if path.startswith(prefix)), None)
        if path is not None:
            return path, "a finished branch", path
        answer = None if below else self._unused_answer()
        return None if answer is None else (answer.id, str(answer.asked), answer.id)

    def _unused_answer(self) -> Call | None:
        """Return the recorded end of the program, if the program has not returned."""
        answer = self._record.answer
        return answer if answer is not None and answer.state is _EXPECTED else None

    def _advance(self) -> None:
        while self.level < len(self._left) and not self._left[self.level]:
            self.level += 1
        self.is_replaying = self.level < len(self._left)


def _below(calls: Iterable[Call]) -> tuple[str, ...]:
    """Return the first letters of the paths inside of calls."""
    return tuple([f"{call.id}/" for call in calls])


def _is_due_at(call: Call, level: int) -> bool:
    return call.state is _EXPECTED and call.level <= level


def _is_unused(call: Call) -> bool:
    return call.state is _EXPECTED or (call.end is not None and call.state is not _ENDED)


# Looking a member up costs as much as a call.
_HELD, _UNDER_WAY, _PARKED = CallState.HELD, CallState.UNDER_WAY, CallState.PARKED


class HeldCalls(Domains):
    """The calls that were asked for and have not ended."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._progress = RecordProgress(record)
        self._open: set[Call] = set()
        """Calls that were asked for and have not ended."""
        self._waits: dict[Call, str] = {}
        self.is_draining = False
        """Whether no further call begins outside of those under way: the next attempt goes on with an answer."""
        self._busy = 0
        """The number of calls under way that do not wait for calls inside of them."""

    @property
    def is_replaying(self) -> bool:
        """Return whether a recorded outcome is to be delivered, or a recorded call without outcome to be made."""
        return self._progress.is_replaying

    @property
    def has_waits(self) -> bool:
        """Return whether a call is parked."""
        return bool(self._waits)

    def hold_again(self, call: Call) -> bool:
        """Hold a call that began in order to be asked about, and must not act yet; return whether it waits."""
        if not (call.is_only_asked and self.is_replaying):
            return False
        self._stop(call)
        call.state, call.epoch = _HELD, WAS_HELD
        call.domain.held.append(call)
        call.domain.moves += 1
        return True

    def _may_begin(self, call: Call) -> bool:
        progress = self._progress
        if not progress.is_replaying:
            return not self.is_draining or call.is_sync or call.domain.around is not None
        return call.is_sync or (call.has_inside and progress.level > call.level)

    def _may_cut(self, call: Call) -> bool:
        """Return whether a held call may be cut short: not if it may have taken effect, or must be entered."""
        return (call.is_repeatable or not call.has_begun) and not call.has_inside

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
        return self._release(ready)

    def _begin_recorded(self) -> Release | None:
        """Release the held calls that an earlier attempt began."""
        ready = [call for call in self._held() if call.has_begun and not call.is_struck]
        return self._release(tuple(ready)) if ready else None

    def _ask_about(self) -> Release | None:
        """Release the held calls with a question that can be asked now, because the rest of the record is out of reach.

        It is inside of parked calls. A call with recorded calls inside is entered; any other one acts later.
        """
        ready = tuple([call for call in self._held() if _is_unknown(call)])
        for call in ready:
            call.is_only_asked = not call.has_inside
        return self._release(ready) if ready else None

    def _has_held_record(self) -> bool:
        return any(call.identity is not None for call in self._held())

    def _held(self) -> list[Call]:
        return [call for call in self._open if call.state is _HELD and call in call.domain.held]

    def _release(self, calls: tuple[Call, ...]) -> Release:
        for call in calls:
            call.domain.moves += 1
            call.domain.held.remove(call)
            call.state = _UNDER_WAY
            self._busy += 1
        return Release(calls)

    def _not_entered(self) -> Collection[Call]:
        """Return the calls whose insides cannot be due: parked ones, and those that are held because of them."""
        if not self._waits:
            return ()
        return [*self._waits, *(call for call in self._open if call.state is _HELD and call.has_inside)]

    def _unmade_before(self, call: Call) -> Call | None:
        """Return a recorded call, not made yet, that a recorded outcome waits for."""
        return None if call.end is None else self._progress.unmade_before(call, self._not_entered())

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
            # Without a wait the attempt has no pause to come to: its program goes on.
            self.is_draining = self.is_draining and bool(self._waits)

    def _cut(self, call: Call, domain: Domain) -> int:
        """End a call that is cut short now, and return its place among the turns."""
        passed = domain.passed
        domain.passed += 1
        self._leave(call)
        return passed


def _is_unknown(call: Call) -> bool:
    """Return whether a held call has an unknown outcome without a question about it in this attempt."""
    return call.has_inside or (call.has_begun and not call.is_repeatable and not call.is_only_asked)
