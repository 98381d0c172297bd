"""The progress of an attempt through the record of its run: outcomes delivered, calls made again. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.runtime.journal.positions import Call, CallState, Record, RecordRow

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
        self._unmade = sorted(recorded, key=_first, reverse=True) if record.orders else []
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


def _first(call: Call) -> int:
    return call.first


def _below(calls: Iterable[Call]) -> tuple[str, ...]:
    """Return the first letters of the paths inside of calls."""
    return tuple([f"{call.id}/" for call in calls])


def _is_due_at(call: Call, level: int) -> bool:
    return call.state is _EXPECTED and call.level <= level


def _is_unused(call: Call) -> bool:
    return call.state is _EXPECTED or (call.end is not None and call.state is not _ENDED)
