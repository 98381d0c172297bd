"""Where a reader of a run's events stands: enough to go on exactly there, in any process. Pure."""

from __future__ import annotations

import re

from pilotage.errors import CallerError
from pilotage.values import value

# No run tells more than this many digits can count, and reading a number of any length takes forever.
_CURSOR = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})")
_SHOWN = 60


@value
class EventCursor:
    """The last event seen: who told it, its number in the run, and how much of its text was read.

    Numbers go on from one owner of the run to the next. What an owner told and could not commit is void: the next
    owner's first event says from which cursor on.
    """

    epoch: int = 0
    number: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> EventCursor:
        """The cursor that `str` wrote.

        Raises:
            CallerError: the text is no cursor.
        """
        found = _CURSOR.fullmatch(text)
        if found is None:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            raise CallerError(
                f"{shown!r} is no cursor of events. Give the cursor of a subscription, or none to read from the start."
            )
        return cls(*map(int, found.groups()))


START = EventCursor()
