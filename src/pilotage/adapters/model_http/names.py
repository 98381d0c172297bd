"""The names of tools on the wire, which allows fewer characters than ours. Pure."""

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
    """Tool names of one request on the wire, which allows letters, digits, `_` and `-` only, and back.

    A name that the wire allows stays as it is; of others each forbidden character becomes `_` and a dot `__`, so
    that models get a readable name. If that is the name of another tool already, a digest is added. The
    names depend on the set of tools alone, not on their order, so that a prompt stays the same from call to call.
    """

    def __init__(self, offered: Iterable[str], mentioned: Iterable[str] = ()) -> None:
        self._wire: dict[str, str] = {}
        self._own: dict[str, str] = {}
        # Offered tools come first: an earlier tool must not change the name of one in use.
        for names in (set(offered), set(mentioned)):
            new = names - self._wire.keys()
            for name in sorted(new, key=lambda each: (not _ALLOWED.fullmatch(each), each)):
                self._add(name)

    def wire(self, name: str) -> str:
        """Return the wire name of a tool."""
        return self._wire[name]

    def own(self, wire: str) -> str:
        """Return the tool of a wire name; an unknown name is unchanged."""
        return self._own.get(wire, wire)

    def _add(self, name: str) -> None:
        wire = next(each for each in _candidates(name) if each not in self._own)
        self._wire[name] = wire
        self._own[wire] = name


def _candidates(name: str) -> Iterator[str]:
    """Yield possible wire names of a tool, the best first."""
    plain = _FORBIDDEN.sub("_", name.replace(".", "__"))
    if len(plain) <= LONGEST_NAME:
        yield plain
    for occurrence in count():
        digest = text_digest(f"{occurrence}:{name}")[:_DIGEST]
        yield f"{plain[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
