"""How runs stood when this process last wrote about them: whoever writes next need not look.

It is only a guess, and the statement that moves the head checks it: where the head is where it was, nobody has written
since, and everything else is as it was, too. Where it is not, nothing is written, and the commits are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.adapters.sqlalchemy.mapping import NO_STATE
from pilotage.adapters.sqlalchemy.standing import Known, Standing
from pilotage.agent.ports.journal import JournalCommit, RunKey

_MOST = 10_000


class RecentRuns:
    """The runs that this process wrote about last, only so many, and none that has ended."""

    def __init__(self) -> None:
        self._standings: dict[RunKey, Standing] = {}

    def known(self, commits: Sequence[JournalCommit]) -> Known | None:
        """What has to be known to decide these commits; None where somebody must look for that.

        What it gives, it forgets: only whoever has written knows how the runs stand then.
        """
        if not all(map(_concerns_itself_only, commits)):
            return None
        known = Known()
        for commit in commits:
            standing = self._standings.pop(commit.run, None)
            if commit.expected_head == 0 and standing is None:
                continue
            if standing is None or standing.head != commit.expected_head:
                return None
            known.runs[commit.run] = standing
        return known

    def remember(self, standings: Mapping[RunKey, Standing]) -> None:
        """These runs stand like this now, for certain."""
        for run, standing in standings.items():
            if standing.has_ended:
                continue
            standing.stored_head, standing.is_stored = standing.head, True
            standing.state = NO_STATE
            standing.receipts.clear()
            standing.actions.clear()
            self._standings[run] = standing
        while len(self._standings) > _MOST:
            del self._standings[next(iter(self._standings))]


def _concerns_itself_only(commit: JournalCommit) -> bool:
    """Whether what becomes of a commit depends on its own run alone: on no parent, conversation or signal."""
    return commit.parent is None and commit.conversation is None and not commit.consumed_signals
