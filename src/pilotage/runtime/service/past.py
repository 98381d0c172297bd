"""What a run has behind it when somebody takes it up: its rows, sorted in one walk. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.runtime.stream.told import ToldItem, items_of
from pilotage.values import value


@value
class Past:
    """The rows of a run, the first and the last of them, and what they are about.

    `claims` say who took the run, `actions` what it did. `told` is what the others say was told: it is used up as the
    program says it again.
    """

    first: JournalRow
    last: JournalRow
    claims: Sequence[JournalRow]
    actions: Sequence[JournalRow]
    told: deque[ToldItem]

    @classmethod
    def of(cls, rows: Sequence[JournalRow]) -> Past:
        """The past that these rows tell of; there is at least the one that begins a run."""
        claims, actions, told = list[JournalRow](), list[JournalRow](), deque[ToldItem]()
        for row in rows:
            stage = row.stage
            if stage is JournalStage.TOLD:
                told.extend(items_of(row))
            elif stage is JournalStage.CLAIMED:
                claims.append(row)
            else:
                actions.append(row)
        return cls(rows[0], rows[-1], claims, actions, told)

    @property
    def last_number(self) -> int:
        """The number of the last event that was told."""
        return self.told[-1].number if self.told else 0
