"""A database with the ledger and the key that belong to it, and processes over it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pilotage import Application
from pilotage.adapters.sealing import SealingSettings
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.runtime import MemoryTools
from tests.golden.agents import AGENTS
from tests.golden.model import GoldenModel
from tests.golden.outside import Broom, Crates, Hands, Ledger, Papers, Weather

LEDGER, KEY = "ledger.jsonl", "pilotage.key"


@dataclass(frozen=True)
class Place:
    """Where golden runs are: a database, and a folder with its ledger and its key."""

    settings: DatabaseSettings
    folder: Path

    @property
    def ledger(self) -> Ledger:
        """What happened outside."""
        return Ledger(self.folder / LEDGER)

    @property
    def key_file(self) -> Path:
        """The key of sealed records."""
        return self.folder / KEY

    @asynccontextmanager
    async def process(
        self, *pods: object, weather: Weather | None = None
    ) -> AsyncGenerator[Application, None]:
        """One process over the database."""
        met = weather or Weather()
        app = Application("golden").add(*AGENTS, Hands, Papers, Crates, MemoryTools, *pods)
        app.add(Broom(met), self.ledger, met, GoldenModel(met))
        app.add(self.settings, SealingSettings(self.key_file, creates_key=True))
        async with app.load_plugins():
            yield app
