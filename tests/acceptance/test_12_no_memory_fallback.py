"""Use case 12: a local application keeps its runs in an SQLite file; what cannot be kept does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.agent.stereotype import initialize
from pilotage.errors import ApplicationStartError
from pilotage.runtime import AgentRuns


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Greeter:
    async def execute(self, name: str) -> str:
        return f"Good day, {name}."


async def greet(name: str) -> list[object]:
    """One application after the other: what all of them have kept."""
    async with Application("hotel").add(Greeter).load_plugins() as app:
        runs = app.get(AgentRuns)
        await (await runs.start(Greeter, name)).result()
        return [(await runs.result(each.id)).output for each in (await runs.list()).runs]


async def test_runs_are_in_a_file_and_another_application_finds_them_there(folder: Path) -> None:
    assert await greet("Ada") == ["Good day, Ada."]
    assert await greet("Bob") == ["Good day, Bob.", "Good day, Ada."]
    database = folder / ".pilotage" / "pilotage.db"
    assert database.read_bytes().startswith(b"SQLite format 3")
    assert database.stat().st_mode & 0o077 == 0


async def test_without_a_store_the_application_does_not_start() -> None:
    app = Application("hotel").add(Greeter)
    initialize(app)
    with pytest.raises(ApplicationStartError) as caught:
        async with app:
            pass
    assert "Greeter is durable (recovery=ACTION_BOUNDARY)" in str(caught.value)
    assert 'pip install "pilotage[sqlalchemy]"' in str(caught.value)
