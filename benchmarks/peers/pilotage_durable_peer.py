"""Ours, durable in an SQLite file, measured as durable peers are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agents import Asking, Kept
from benchmarks.peers.measuring import tell

from pilotage import Application
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize


def main() -> None:
    """Measure with a file of its own."""
    with TemporaryDirectory() as folder:
        file = DatabaseSettings(
            f"sqlite:///{Path(folder) / 'runs.db'}", may_lose_commits_on_power_failure=True
        )
        with SqlAlchemyStore.open(file) as store:
            app = Application("peer").add(Kept, Asking(), *store.ports)
            initialize(app)
            starting = asyncio.Lock()

            async def run(turns: int) -> None:
                async with starting:
                    if not app.is_started:
                        await app.start()
                await (await app.get(AgentRuns).start(Kept, str(turns))).result()

            tell("pilotage", run, kind="durable ")


if __name__ == "__main__":
    main()
