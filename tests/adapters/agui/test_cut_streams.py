"""Streams that are cut anywhere, on every transport: what a client has comes to the uncut stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.adapters.agui.client import Client, anonymous
from tests.adapters.agui.samples import ag_ui_input
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import endpoints, served
from tests.adapters.agui.transports import TRANSPORTS, Socket, Stdio, Transport
from tests.behaviour.newsroom import Newsroom, Writer, turns

from pilotage.adapters.agui import driver_for
from pilotage.adapters.agui.stream import RecentFrames
from pilotage.runtime import AgentRuns
from pilotage.testing import Fault, ProcessStopped, StopAfter, StopBefore

GIVEN = ag_ui_input("Write").model_dump(by_alias=True, mode="json")
OVER = pytest.mark.parametrize("over", TRANSPORTS, ids=lambda each: each.__name__)


@asynccontextmanager
async def serving(runs: AgentRuns, over: type[Transport]) -> AsyncGenerator[Transport, None]:
    """A transport to the writer of a newsroom."""
    factory = driver_for(runs.services.app, Writer)
    async with served(endpoints(factory)) as address:
        yield over(factory, address)


@OVER
@pytest.mark.parametrize("most", [1_000, 0], ids=["remembered", "forgotten"])
async def test_a_stream_may_be_cut_after_every_frame_while_the_process_lives(
    over: type[Transport], most: int
) -> None:
    room = Newsroom()
    async with room.process(turns(2), RecentFrames(most)) as runs, serving(runs, over) as transport:
        uncut = await transport.read(GIVEN)
        assert len(uncut) > 80
        assert fault_in([frame for _, frame in uncut]) is None
        assert None not in [frame_id for frame_id, _ in uncut]
        for cut in range(1, len(uncut)):
            client = Client(uncut[:cut])
            client.add(await transport.read(GIVEN, client.last))
            # What this process remembers comes in the same pieces; of a text that it does not, the rest is one piece.
            assert client.read == uncut if most else client.frames == Client(uncut).frames
            assert client.restarts == 0
        if over is not Socket:  # which stays open, for further inputs
            assert await transport.read(GIVEN, uncut[-1][0]) == []


@OVER
async def test_a_live_stream_may_be_cut_after_every_frame(over: type[Transport]) -> None:
    room = Newsroom()
    async with room.process(turns(2)) as runs, serving(runs, over) as transport:
        client, cuts = Client(), 0
        while not client.is_over:
            client.add(await transport.read(GIVEN, client.last, most=1))
            cuts += 1
        uncut = Client(await transport.read(GIVEN))
    assert client.frames == uncut.frames
    assert (client.restarts, cuts > 20) == (0, True)


class Survivor:
    """A client that stays while processes come and go."""

    def __init__(self, over: type[Transport]) -> None:
        self.room, self.client, self.over = Newsroom(), Client(), over
        self.model = turns(2)
        self.commits: list[int] = []

    async def read_through(self, *faults: Fault) -> Client:
        """Read to the end; the n-th process has the n-th fault. Then once more, from the beginning."""
        pending: list[Fault | None] = [*faults]
        while not self.client.is_over:
            assert len(self.commits) < 10, "the run does not come to an end"
            await self._one_process(pending.pop(0) if pending else None)
        async with self.room.process(self.model) as runs, serving(runs, self.over) as transport:
            return Client(await transport.read(GIVEN))

    async def _one_process(self, fault: Fault | None) -> None:
        with suppress(ProcessStopped):
            async with (
                self.room.process(self.model, fault=fault) as runs,
                serving(runs, self.over) as transport,
            ):
                with suppress(ProcessStopped):
                    self.client.add(await transport.read(GIVEN, self.client.last))
        self.commits.append(self.room.commits)
        self.model = self.model.restarted()


@OVER
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_process_that_dies_at_any_commit_leaves_the_client_with_what_is_stored(
    over: type[Transport], fault: type[Fault]
) -> None:
    reference, restarts = Survivor(over), 0
    stored = await reference.read_through()
    assert reference.client.frames == stored.frames
    for number in range(1, reference.commits[0] + 1):
        survivor = Survivor(over)
        stored = await survivor.read_through(fault(number))
        assert survivor.client.frames == stored.frames
        assert anonymous(survivor.client.frames) == anonymous(reference.client.frames)
        restarts += survivor.client.restarts
    # Over stdio the reader has no turn between what is told and its commit.
    assert restarts or over is Stdio, "no client had anything that was lost with its process"
