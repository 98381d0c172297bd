"""Cursors of pages: positions in a table, as text. Pure."""

from __future__ import annotations

from pilotage.errors import CallerError

# More than this no column of a position holds, and a database may not even compare it.
_MOST_DIGITS = 18


def position_of(cursor: str) -> int:
    """The position that a cursor stands for.

    Raises:
        CallerError: it is no cursor of a page.
    """
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MOST_DIGITS):
        raise CallerError(f"there is no page behind {cursor!r}. Give the cursor of a page as `after`.")
    return int(cursor)
