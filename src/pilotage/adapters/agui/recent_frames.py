"""`RecentFrames`: what was told lately, so that whoever comes back soon is told it again in the very same pieces.

Nothing depends on it: what is forgotten, or was told by another process, is projected from the log of the run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from ag_ui.core import BaseEvent

from pilotage.adapters.agui.bookmark import Bookmark

_MOST = 2_000


class RecentFrames:
    """The last frames that this process told, whatever the run, each behind the one before it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._behind: OrderedDict[Bookmark, tuple[Bookmark, BaseEvent]] = OrderedDict()

    def note(self, before: Bookmark, mark: Bookmark, frame: BaseEvent) -> None:
        """A frame was told behind another one; what was told there first is what counts."""
        self._behind.setdefault(before, (mark, frame))
        if len(self._behind) > self._most:
            self._behind.popitem(last=False)

    def behind(self, seen: Bookmark) -> Iterator[tuple[Bookmark, BaseEvent]]:
        """The frames that were told behind a bookmark, each with its own."""
        while (told := self._behind.get(seen)) is not None:
            yield told
            seen, _ = told
