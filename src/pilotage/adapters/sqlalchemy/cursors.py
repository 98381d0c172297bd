"""Cursors of pages: positions in a table, as text. Pure."""

from __future__ import annotations

from pilotage.errors import CallerError


def position_of(cursor: str) -> int:
    """The position that a cursor stands for.

    Raises:
        CallerError: it is no cursor of a page.
    """
    if not (cursor.isascii() and cursor.isdigit()):
        raise CallerError(f"there is no page behind {cursor!r}. Give the cursor of a page as `after`.")
    return int(cursor)
