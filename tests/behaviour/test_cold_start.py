"""What a process loads and reads when it starts a durable application for the first time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio
import importlib.metadata
import sys

from pilotage import Agent, Application
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns

readings = 0


def count(frame, event, _):
    global readings
    readings += event == "call" and frame.f_code is importlib.metadata.entry_points.__code__


@Agent(durable=True)
class Answerer:
    "Answer in one sentence."


async def start_and_run():
    async with Application("cold").add(Answerer, OfflineModel).load_plugins() as app:
        result = await (await app.get(AgentRuns).start(Answerer, "Good day.")).result()
        print(result.status.value)


sys.setprofile(count)
asyncio.run(start_and_run())
sys.setprofile(None)
print(readings)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"alembic", "cryptography", "mako"}))
"""


def test_a_cold_durable_application_loads_what_it_needs_and_reads_entry_points_once(tmp_path: Path) -> None:
    started = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert started.stdout.splitlines() == ["completed", "1", "[]"], started.stderr
