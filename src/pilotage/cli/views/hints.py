"""What to type next, exactly. Pure."""

from __future__ import annotations

from pilotage.values import value

_SHORT = 12


@value
class Hints:
    """Writes commands that mean the same application, tenant and person as the one that was called."""

    options: str = ""

    def command(self, *words: str) -> str:
        """A command to copy."""
        return " ".join(["pilotage", *words, *([self.options] if self.options else [])])


def short(run_or_request_id: str) -> str:
    """An id, abbreviated: of a run its beginning, of a request that of its run and its own."""
    return ":".join(part[:_SHORT] for part in run_or_request_id.split(":"))
