"""Streams of events over HTTP: cut anywhere and continued, slow, quiet, too many; and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.adapters.fastapi.harbour import ADA, EVE, Frame, Served, frames_in, served
from tests.behaviour.newsroom import Gate, Newsroom, Slow, let_run, parts

from pilotage.adapters.fastapi import HttpSettings
from pilotage.agent.ports.persistence import RunKey


async def start(at: Served, count: int = 2) -> str:
    answer = await at.client.post("/api/runs", json={"agent": "reporter", "input": {"parts": count}})
    run_id: str = answer.json()["id"]
    return run_id


def told(frames: list[Frame]) -> tuple[list[str], str]:
    """What a client has in the end: the kinds other than pieces of text, and the text."""
    kinds = [str(frame.event) for frame in frames if frame.event != "message_delta"]
    return kinds, "".join(frame.data["delta"] for frame in frames if frame.event == "message_delta")


async def test_every_frame_has_its_cursor_and_the_stream_ends_with_the_run() -> None:
    async with served(Newsroom(), parts(2)) as at:
        answer = await at.client.get(f"/api/runs/{await start(at)}/events")
        frames = frames_in(answer.text)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert "content-length" not in answer.headers
        assert (frames[0].event, frames[-1].event) == ("run_started", "run_finished")
        assert len({frame.id for frame in frames}) == len(frames)


async def test_a_stream_cut_behind_any_frame_goes_on_exactly_there() -> None:
    async with served(Newsroom(), parts(2)) as at:
        run_id = await start(at)
        async with at.line(run_id) as line:
            live = [frame async for frame in line.frames()]
        assert len(live) > 30
        for cut in range(1, len(live)):
            assert live[cut - 1].id is not None
            again = await at.client.get(
                f"/api/runs/{run_id}/events", headers={"last-event-id": str(live[cut - 1].id)}
            )
            assert told(live[:cut] + frames_in(again.text)) == told(live)


async def test_a_live_stream_that_is_cut_goes_on_while_the_run_does() -> None:
    gate, room = Gate(), Newsroom()
    async with served(room, parts(2), Slow(gate)) as at:
        run_id = await start(at)
        await gate.reached.wait()
        async with at.line(run_id) as line:
            first = await anext(line.frames())
        gate.open.set()
        async with at.line(run_id, headers={**ADA, "last-event-id": str(first.id)}) as line:
            rest = [frame async for frame in line.frames()]
        whole = frames_in((await at.client.get(f"/api/runs/{run_id}/events")).text)
        assert told([first, *rest]) == told(whole)


async def test_a_stream_goes_on_in_the_process_that_took_the_run_over() -> None:
    room = Newsroom()
    async with served(room, parts(2)) as at:
        run_id = await start(at)
        async with at.line(run_id) as line:
            whole = [frame async for frame in line.frames()]
    async with served(room, parts(2)) as at:
        for cut in (1, len(whole) // 2, len(whole) - 1):
            headers = {"last-event-id": str(whole[cut - 1].id)}
            again = await at.client.get(f"/api/runs/{run_id}/events", headers=headers)
            assert told(whole[:cut] + frames_in(again.text)) == told(whole)


async def test_a_failure_in_a_stream_is_told_without_an_id_and_ends_it() -> None:
    room = Newsroom()
    async with served(room, parts(1)) as at:
        run_id = await start(at, 1)
        await at.client.get(f"/api/runs/{run_id}/events")
        await room.store.retention.erase(RunKey("default", run_id))
        async with at.line(run_id) as line:
            (frame,) = [frame async for frame in line.frames()]
        assert (line.status, frame.id, frame.event) == (200, None, "problem")
        assert (frame.data["status"], frame.data["code"]) == (410, "run_erased")


async def test_the_address_may_carry_the_cursor_and_the_header_wins() -> None:
    async with served(Newsroom(), parts(1)) as at:
        run_id = await start(at, 1)
        frames = frames_in((await at.client.get(f"/api/runs/{run_id}/events")).text)
        path = f"/api/runs/{run_id}/events?after={frames[0].id}"
        rest = frames_in((await at.client.get(path)).text)
        last = frames_in((await at.client.get(path, headers={"last-event-id": str(frames[-2].id)})).text)
        assert told(frames[:1] + rest) == told(frames)
        assert [frame.event for frame in last] == ["run_finished"]


async def test_whoever_has_read_a_run_to_its_end_is_told_not_to_come_back() -> None:
    async with served(Newsroom(), parts(1)) as at:
        run_id = await start(at, 1)
        frames = frames_in((await at.client.get(f"/api/runs/{run_id}/events")).text)
        answer = await at.client.get(
            f"/api/runs/{run_id}/events", headers={"last-event-id": str(frames[-1].id)}
        )
        assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("cursor", ["x", "1.2", "9" * 5000, "-1.0.0"])
async def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    async with served(Newsroom(), parts(1)) as at:
        run_id = await start(at, 1)
        answer = await at.client.get(f"/api/runs/{run_id}/events", headers={"last-event-id": cursor})
        assert (answer.status_code, answer.json()["code"]) == (422, "request_refused")


async def test_a_client_that_goes_leaves_nothing_behind_and_the_run_goes_on() -> None:
    gate = Gate()
    async with served(Newsroom(), parts(1), Slow(gate)) as at:
        run_id = await start(at, 1)
        await gate.reached.wait()
        before = asyncio.all_tasks()
        lines = [at.line(run_id) for _ in range(5)]
        for line in lines:
            await line.__aenter__()
            await anext(line.frames())
        assert len(asyncio.all_tasks()) > len(before)
        for line in lines:
            await line.cut()
        assert asyncio.all_tasks() == before
        gate.open.set()
        assert frames_in((await at.client.get(f"/api/runs/{run_id}/events")).text)[-1].event == "run_finished"


async def test_a_server_that_is_stopped_in_a_stream_leaves_no_task() -> None:
    gate = Gate()
    async with served(Newsroom(), parts(1), Slow(gate)) as at:
        run_id = await start(at, 1)
        await gate.reached.wait()
        before = asyncio.all_tasks()
        line = at.line(run_id)
        await line.__aenter__()
        await anext(line.frames())
        assert line.task is not None
        line.task.cancel()
        await asyncio.wait([line.task])
        assert asyncio.all_tasks() == before
        gate.open.set()


async def test_a_quiet_stream_gives_signs_of_life() -> None:
    gate, room = Gate(), Newsroom()
    async with served(room, parts(1), Slow(gate), settings=HttpSettings(heartbeat_seconds=5)) as at:
        run_id = await start(at, 1)
        await gate.reached.wait()
        async with at.line(run_id) as line:
            frames = line.frames()
            while (await anext(frames)).event != "step_finished":
                pass
            await let_run()
            for _ in range(2):
                room.clock.advance(5)
                assert await anext(frames) == Frame(None, None, None)
        gate.open.set()


async def test_more_streams_than_allowed_are_sent_away_until_one_ends() -> None:
    gate = Gate()
    async with served(Newsroom(), parts(1), Slow(gate), settings=HttpSettings(max_streams=1)) as at:
        run_id = await start(at, 1)
        await gate.reached.wait()
        async with at.line(run_id) as line:
            await anext(line.frames())
            refused = await at.client.get(f"/api/runs/{run_id}/events")
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
        gate.open.set()
        assert (await at.client.get(f"/api/runs/{run_id}/events")).status_code == 200


async def test_another_tenant_cannot_come_back_to_a_stream() -> None:
    async with served(Newsroom(), parts(1)) as at:
        run_id = await start(at, 1)
        async with at.line(run_id, headers={**EVE, "last-event-id": "1.1.0"}) as line:
            assert [frame.data["code"] async for frame in line.frames() if frame.data] == []
            assert line.status == 404
