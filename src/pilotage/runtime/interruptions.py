"""What ends an attempt at a run without ending the run.

They derive from `BaseException`, so that no `except Exception` of an agent can swallow them. After one of
them the attempt is dead: every further effect of it raises the same again, in `finally` blocks too.
"""

from __future__ import annotations

from pilotage.agent.state import AgentSituation


class RunInterruption(BaseException):
    """The base of everything that ends an attempt."""


class Paused(RunInterruption):
    """The run waits for somebody; what for is recorded."""

    def __init__(self, *wait_ids: str) -> None:
        super().__init__(*wait_ids)
        self.wait_ids = wait_ids


class RunEnded(RunInterruption):
    """A person's answer ends the run: `situation` is what it ends in, or what its end begins with."""

    def __init__(self, situation: AgentSituation, reason: str) -> None:
        super().__init__(situation, reason)
        self.situation = situation
        self.reason = reason


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
