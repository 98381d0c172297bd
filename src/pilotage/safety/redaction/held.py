"""The text of a stream that is not decided yet, and what has been decided since it was last asked for."""

from __future__ import annotations

from typing import TypeAlias

from pilotage.values import value


@value
class Replaced:
    """In this place of the stream stands what replaces a match: the outcome of a pattern.

    `first` is the character that the match began with: whoever stands before it was judged with it as neighbour.
    """

    outcome: str
    first: str


@value
class Resumed:
    """Behind a replacement the stream goes on; `before` is the character that the match ended with."""

    before: str
    outcome: str = ""


Piece: TypeAlias = str | Replaced | Resumed


class HeldText:
    """Text from which pieces are released from left to right. Positions are those in `text`."""

    def __init__(self) -> None:
        self.text = ""
        self.offset = 0
        self._before = ""
        self._released = 0
        self._pieces: list[Piece] = []
        self._is_replacing = False

    def add(self, text: str) -> int:
        """Append text; the position at which it begins."""
        position = len(self.text)
        self.text += text
        return position

    def before(self, position: int) -> str:
        """The character before a position; empty at the start of the stream."""
        return self.text[position - 1] if position else self._before

    def release(self, end: int) -> None:
        """Let the text up to a position leave; what has left or was swallowed before does not count."""
        if end > self._released:
            if self._is_replacing:
                self._pieces.append(Resumed(self.before(self._released)))
                self._is_replacing = False
            self._pieces.append(self.text[self._released : end])
            self._released = end

    def replace(self, outcome: str, first: str) -> None:
        """Let something else leave in the place of text that is going to be swallowed, and begins with `first`."""
        self._pieces.append(Replaced(outcome, first))
        self._is_replacing = True

    def swallow(self, end: int) -> None:
        """Let nothing of the text up to a position leave."""
        self._released = end

    def pass_over(self, text: str, before: str = "") -> None:
        """Count text that is not held: the stream goes on behind it, or behind another character. Only when nothing
        is held.
        """
        self.offset += len(text)
        self._before = before or text[-1]

    def take(self, forget: int) -> list[Piece]:
        """What has been decided since the last call. So much decided text is dropped: positions move by as much."""
        if forget:
            self._before = self.text[forget - 1]
            self.text = self.text[forget:]
            self.offset += forget
            self._released = 0
        pieces, self._pieces = self._pieces, []
        return pieces
