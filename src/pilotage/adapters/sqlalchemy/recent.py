"""How runs stood when this process last wrote about them: whoever writes next need not look.

It is only a guess, and the statement that moves the head checks it: where the head is where it was, nobody has written
since, and everything else is as it was, too. Where it is not, nothing is written, and the commits are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.adapters.sqlalchemy.known import Known, StoredRun
from pilotage.adapters.sqlalchemy.mapping import NO_STATE
from pilotage.agent.ports.journal import JournalCommit, RunKey

_MOST = 10_000


class RecentRuns:
    """The runs that this process wrote about last, only so many, and none that has ended."""

    def __init__(self) -> None:
        self._runs: dict[RunKey, StoredRun] = {}

    def known(self, commits: Sequence[JournalCommit]) -> Known | None:
        """What has to be known to decide these commits; None where somebody must look for that.

        What it gives, it forgets: only whoever has written knows how the runs stand then.
        """
        if not all(map(_concerns_itself_only, commits)):
            return None
        known = Known()
        for commit in commits:
            stored = self._runs.pop(commit.run, None)
            if commit.expected_head == 0 and stored is None:
                continue
            if stored is None or stored.head != commit.expected_head:
                return None
            known.runs[commit.run] = stored
        return known

    def remember(self, runs: Mapping[RunKey, StoredRun]) -> None:
        """These runs stand like this now, for certain."""
        for key, run in runs.items():
            if run.has_ended:
                continue
            run.stored_head, run.is_stored = run.head, True
            run.state = NO_STATE
            run.receipts.clear()
            run.actions.clear()
            self._runs[key] = run
        while len(self._runs) > _MOST:
            del self._runs[next(iter(self._runs))]


def _concerns_itself_only(commit: JournalCommit) -> bool:
    """Whether what becomes of a commit depends on its own run alone: on no parent, conversation or signal."""
    return commit.parent is None and commit.conversation is None and not commit.consumed_signals
