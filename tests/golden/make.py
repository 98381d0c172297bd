"""Make the golden databases of this version: `python -m tests.golden.make [name]`, the package's version by default.

Runs are brought into their states (`cases`), the databases are written down as text, and a manifest says of each run
how it stands and, after a copy of the database has gone on, how it must end. Do this when a version is released; what
was stored for other versions stays.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from pilotage import Application
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.errors import RunConflictError
from pilotage.runtime import AgentRuns, LeaseSettings
from tests.golden.cases import ADA, CASES, Case, go_on, modify, start
from tests.golden.outside import Weather
from tests.golden.place import KEY, LEDGER, Place
from tests.golden.reading import Read, outcome, read
from tests.golden.stored import KINDS, VOCABULARY, Golden, empty, loaded, text_of
from tests.golden.vocabulary import Vocabulary, vocabulary_of

LEASE = LeaseSettings(seconds=2.0)
"""Of the process that is killed: others take its runs over soon."""

_HELD, _CLEANING = "held.json", "clean-up run/tool:write#1"
_SCHEMA = f"pilotage_golden_{os.getpid()}"


async def make(place: Place) -> dict[str, str]:
    """Bring all golden runs into their states; the ids of the runs by the names of the cases."""
    made = _killed(place)
    weather = Weather(breaks=frozenset(case.breaks for case in CASES if case.breaks))
    async with place.process(weather=weather) as app:
        for case in _alive():
            made[case.name] = await start(app.get(AgentRuns), case)
    for case in _alive():
        for act in case.then:
            made[case.name] = await act(place, case, made[case.name]) or made[case.name]
    return made


def _alive() -> Iterator[Case]:
    return (case for case in CASES if case.held_at is None)


def _killed(place: Place) -> dict[str, str]:
    """Let a process be killed while it holds runs; their ids."""
    settings = place.settings
    command = [sys.executable, "-m", "tests.golden.make", "--dying", settings.url, str(place.folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)  # noqa: S603 - our own command
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the process that should have been killed ended with {done.returncode}")
    held: dict[str, str] = json.loads((place.folder / _HELD).read_text())
    return held


async def die(place: Place) -> None:
    """Start the runs that are held, and kill this process when all of them are."""
    held = [case for case in CASES if case.held_at is not None]
    weather = Weather(holds=frozenset({*(str(case.held_at) for case in held), _CLEANING}))
    ids: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        apps: dict[tuple[object, ...], Application] = {}
        for case in held:
            if case.pods not in apps:
                process = place.process(*case.pods, LEASE, weather=weather)
                apps[case.pods] = await stack.enter_async_context(process)
            runs = apps[case.pods].get(AgentRuns)
            ids[case.name] = await start(runs, case)
            if case.is_modified:
                await modify(runs, case, ids[case.name])
                await runs.resume(ids[case.name])
            await _reached(weather, str(case.held_at))
            if case.is_cancelled_there:
                cancelling = asyncio.ensure_future(
                    runs.cancel(ids[case.name], reason="it is enough", principal=ADA)
                )
                await _reached(weather, _CLEANING)
                assert not cancelling.done()
        (place.folder / _HELD).write_text(json.dumps(ids))
        os.kill(os.getpid(), signal.SIGKILL)


async def _reached(weather: Weather, place: str) -> None:
    try:
        reached = await asyncio.wait_for(weather.reached.get(), 120)
    except TimeoutError as error:
        raise RuntimeError(f"no run came to {place!r}") from error
    if reached != place:
        raise RuntimeError(f"a run is held at {reached!r} instead of {place!r}")


async def standing(place: Place, ids: dict[str, str]) -> dict[str, Read]:
    """How all runs stand."""
    async with place.process() as app:
        return {name: await read(app.get(AgentRuns), run_id) for name, run_id in ids.items()}


async def ended(place: Place, runs: AgentRuns, case: Case, run_id: str) -> Read:
    """How a run ends, and the effects that it has from here on."""
    before = place.ledger.effects()
    await go_on(place, runs, case, run_id)
    found = await outcome(runs, run_id)
    await runs.verify(run_id)
    effects = place.ledger.effects()
    assert len(effects) == len(set(effects)), f"{case.name}: an effect happened twice"
    return {**found, "effects": sorted(set(effects) - set(before))}  # type: ignore[dict-item]


async def _ended(place: Place, case: Case, run_id: str) -> Read:
    """The same, as soon as the lease of the process that was killed has run out."""
    while True:
        try:
            async with place.process(*case.pods) as app:
                return await ended(place, app.get(AgentRuns), case, run_id)
        except RunConflictError:
            await asyncio.sleep(0.2)


async def words_of(place: Place, ids: dict[str, str]) -> Vocabulary:
    """The words in a database, after the runs in it have gone on that no killed process holds."""
    async with place.process() as app:
        for case in _alive():
            await ended(place, app.get(AgentRuns), case, ids[case.name])
    return await vocabulary_of(place)


async def _store(golden: Golden) -> None:
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        folder, copies = Path(first), Path(second)
        with empty(golden.kind, folder, _SCHEMA) as place:
            ids = await make(place)
            text = text_of(golden.kind, folder, _SCHEMA)
            for name in (KEY, LEDGER):
                shutil.copy(folder / name, copies / name)
            stands = await standing(place, ids)
            if golden.kind == "sqlite":
                words = json.dumps(await words_of(place, ids), indent=1)
                VOCABULARY.write_text(words + "\n")
        with loaded(golden.kind, text, copies, _SCHEMA) as copy:
            ledger = copy.ledger.lines()
            ends = {case.name: await _ended(copy, case, ids[case.name]) for case in CASES}
        runs: dict[str, Read] = {
            name: {"id": ids[name], "stands": stands[name], "ends": ends[name]}  # type: ignore[dict-item]
            for name in ids
        }
        golden.store(text, place.key_file.read_bytes(), {"ledger": ledger, "runs": runs})


def main(words: list[str]) -> None:
    """Store the databases, or be the process that is killed."""
    if words[:1] == ["--dying"]:
        url, folder = words[1:]
        settings = DatabaseSettings(url, may_lose_commits_on_power_failure=True)
        asyncio.run(die(Place(settings, Path(folder))))
        return
    name = words[0] if words else version("pilotage")
    for kind in KINDS:
        asyncio.run(_store(Golden(name, kind)))


if __name__ == "__main__":
    main(sys.argv[1:])
