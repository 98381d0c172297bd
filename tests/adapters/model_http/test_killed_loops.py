"""A loop against a server with the rules of a provider, whose processes are killed with SIGKILL while they ask it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage import AgentStatus
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.runtime import AgentRuns
from tests.adapters.model_http.mortal_loop import application
from tests.adapters.model_http.strict_servers import StrictServer, calls_of
from tests.adapters.model_http.test_strict_servers import WIRES
from tests.adapters.openai.replay_server import Answer, Seen, replaying

TURNS = 20
ROOT = Path(__file__).parents[3]
STREAM = {"content-type": "text/event-stream"}
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux")


class Killing:
    """Answers as a strict server does; kills its client at some of the requests, before a reply or in its middle."""

    def __init__(self, strict: StrictServer, *moments: int) -> None:
        self.strict = strict
        self.refusals: list[str] = []
        self.kills = 0
        self.client = 0
        self._moments = set(moments)

    def __call__(self, seen: Seen) -> Answer:
        try:
            pieces = self.strict.answer(seen.body)
        except ModelServerError as error:
            self.refusals.append(str(error))
            return Answer([b"{}"], error.status or 500)
        number = len(self.strict.bodies)
        if number not in self._moments:
            return Answer(pieces, headers=STREAM)
        self._moments.discard(number)
        self.kills += 1
        os.kill(self.client, signal.SIGKILL)
        return Answer(pieces[: number % 2 * len(pieces) // 2], headers=STREAM, breaks_off=True)


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["messages", "responses", "chat"])
async def test_a_loop_of_killed_processes_completes_with_the_same_requests(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One wire and one kill in the middle of a reply; all of them, before replies too, with `--exhaustive`."""
    is_exhaustive = request.config.getoption("--exhaustive")
    if wire != "messages" and not is_exhaustive:
        pytest.skip("only with --exhaustive")
    moments = (2, 5, 9, 10, 15, 20) if is_exhaustive else (11,)
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")
    killing = Killing(WIRES[wire].server(TURNS), *moments)
    with replaying(killing) as server:
        command = [sys.executable, "-m", "tests.adapters.model_http.mortal_loop", wire, server.base_url]
        for _ in range(len(moments) + 1):
            child = subprocess.Popen([*command, str(tmp_path)], cwd=ROOT)  # noqa: ASYNC220, S603
            killing.client = child.pid
            child.wait(timeout=240)
        async with application(wire, server.base_url, tmp_path) as app:
            runs = app.get(AgentRuns)
            (run,) = (await runs.list()).runs
            result = await runs.result(run.id)
            assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
            await runs.verify(run.id)
    assert (killing.refusals, killing.kills, child.returncode) == ([], len(moments), 0)
    assert len(set(killing.strict.bodies)) == TURNS + 1
    places = {at for number in range(1, TURNS + 1) for at in calls_of(number)}
    assert all(tmp_path.joinpath(f"seen {at}").exists() for at in places)
