"""What a screen writes on: a stream that takes text without tones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TextIO

from pilotage.cli.screen.words import Line


class Paper(ABC):
    """Takes pieces of text in tones; where a line ends, a piece says so."""

    @abstractmethod
    def write(self, spans: Line) -> None:
        """Write the pieces now."""


class PlainPaper(Paper):
    """A pipe or a file: the words and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, spans: Line) -> None:
        self._stream.write("".join(span.text for span in spans))
        self._stream.flush()
