"""Ids and random numbers that are the same in every run of a test."""

from __future__ import annotations

from random import Random

from pilotage.ids import IIds


class SeededIds(IIds):
    """Draws ids and numbers from a seed: the same seed, the same sequence."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311 - repeatable on purpose; tests keep no secrets

    def uid(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def random(self) -> float:
        return self._random.random()
