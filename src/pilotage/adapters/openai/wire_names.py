"""Tool names on the wire, which allows letters, digits, `_` and `-` only, and back.

Pure. A name that the wire allows stays as it is; of others each forbidden character becomes `_` and a dot `__`, so
that models see something they can read. Where that is somebody else's name already, a digest is added. The
names depend on the set of tools alone, not on their order, so that a prompt stays the same from call to call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count

from pilotage.jsonvalue import text_digest

LONGEST_NAME = 64
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 8


class WireNames:
    """The names of one request: of the tools it offers, and of those that its messages mention."""

    def __init__(self, offered: Iterable[str], mentioned: Iterable[str] = ()) -> None:
        self._wire: dict[str, str] = {}
        self._own: dict[str, str] = {}
        # What is offered comes first: a tool that is only remembered must not change the name of one in use.
        for names in (set(offered), set(mentioned)):
            new = names - self._wire.keys()
            for name in sorted(new, key=lambda each: (not _ALLOWED.fullmatch(each), each)):
                self._add(name)

    def wire(self, name: str) -> str:
        """What a tool is called on the wire."""
        return self._wire[name]

    def own(self, wire: str) -> str:
        """Which tool the wire means; a name that nobody gave out is the model's invention and stays so."""
        return self._own.get(wire, wire)

    def _add(self, name: str) -> None:
        wire = next(each for each in _candidates(name) if each not in self._own)
        self._wire[name] = wire
        self._own[wire] = name


def _candidates(name: str) -> Iterator[str]:
    """What a tool may be called, the best first."""
    plain = _FORBIDDEN.sub("_", name.replace(".", "__"))
    if len(plain) <= LONGEST_NAME:
        yield plain
    for occurrence in count():
        digest = text_digest(f"{occurrence}:{name}")[:_DIGEST]
        yield f"{plain[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
