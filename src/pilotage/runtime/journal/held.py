"""The open calls of one attempt, and when those begin that are held until the record has ended for them. Pure.

The laws of held calls stand on top of `kernel.py`.
"""

from __future__ import annotations

from collections.abc import Collection

from pilotage.runtime.journal.decisions import CutShort, Release
from pilotage.runtime.journal.domains import Domains
from pilotage.runtime.journal.positions import WAS_HELD, Call, CallState, Domain, Record
from pilotage.runtime.journal.progress import RecordProgress

# Looking a member up costs as much as a call.
_HELD, _UNDER_WAY, _PARKED, _ENDED = (
    CallState.HELD,
    CallState.UNDER_WAY,
    CallState.PARKED,
    CallState.ENDED,
)


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
