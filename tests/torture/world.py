"""The outside world: a file to which every effect adds a line, whoever did it and whether or not anybody recorded it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


class World:
    """What has really happened. Adding a line is one system call, so that no kill can tear it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def happen(self, effect: str, order: str) -> None:
        """Something happens for an order."""
        line = f"{effect} {order}\n".encode()
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def happened(self, effect: str, order: str) -> int:
        """How often something has happened for an order."""
        return self.counts()[effect, order]

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each effect has happened for each order."""
        if not self._file.exists():
            return Counter()
        pairs = (line.split() for line in self._file.read_text().splitlines())
        return Counter((effect, order) for effect, order in pairs)
