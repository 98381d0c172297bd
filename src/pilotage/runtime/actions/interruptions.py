"""What ends an attempt at a run without ending the run.

They derive from `BaseException`, so that no `except Exception` of an agent can swallow them. After one of
them the attempt is dead: every further effect of it raises the same again, in `finally` blocks too.
"""

from __future__ import annotations

from pilotage.agent.limits import LimitCode
from pilotage.agent.state import AgentSituation
from pilotage.jsonvalue import JsonObject

AWAITS = "awaits"
"""The key in the facts of a pause that names the kind of message which the program waits for."""


class RunInterruption(BaseException):
    """The base of everything that ends an attempt."""


class Paused(RunInterruption):
    """The run waits for somebody; what for is recorded. Where it is no question to a person, `reason` says it in
    words and `facts` for programs.
    """

    def __init__(self, *wait_ids: str, reason: str | None = None, facts: JsonObject | None = None) -> None:
        super().__init__(*wait_ids)
        self.wait_ids = wait_ids
        self.reason = reason
        self.facts: JsonObject = facts or {}


class RunEnded(RunInterruption):
    """Something ends the run, such as a person's answer: `situation` is what it ends in, or its end begins with."""

    def __init__(
        self, situation: AgentSituation, reason: str, *, code: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(situation, reason)
        self.situation = situation
        self.reason = reason
        self.code = code
        self.retryable = retryable


class LimitReached(RunInterruption):
    """A bound of the run is reached or cannot be kept: the run ends, with what it has so far.

    `code` is for programs, `limit` names the bound, `reason` is a sentence with its value and the way out.
    """

    def __init__(self, code: LimitCode, limit: str, reason: str) -> None:
        super().__init__(code, limit, reason)
        self.code = code
        self.limit = limit
        self.reason = reason

    @property
    def situation(self) -> AgentSituation:
        """What the run ends in."""
        return AgentSituation.TIMED_OUT if self.code is LimitCode.TIMEOUT else AgentSituation.FAILED


class RunOwnershipLost(RunInterruption):
    """Somebody else has taken the run over; this attempt must not act any more."""


class RunDiverged(RunInterruption):
    """The program asks for something else than what is recorded; `difference` says what, in words."""

    def __init__(self, action_id: str, difference: str) -> None:
        super().__init__(f"{action_id}: {difference}")
        self.action_id = action_id
        self.difference = difference


class StoreUnavailable(RunInterruption):
    """The journal cannot be written, and whether the last rows are in it is unknown: nothing more may happen."""


class HandedOver(RunInterruption):
    """The process is to stop: the run stays as it is, and whoever takes it up goes on from there."""


class CancelledMeanwhile(RunInterruption):
    """Somebody cancelled the run while it waited for the last of its tasks: it does not end as it was about to."""


class StartRefused(RunInterruption):
    """The run cannot begin: its conversation is held by another run, or the run it belongs to is ending."""
