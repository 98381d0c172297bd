"""A chat over AG-UI: a page picks, a person approves, a line breaks, and the client comes back to the same stream.

A server of its own, without a network: the client speaks HTTP to it in memory, as a page would over a wire.

Run it: python examples/agui_chat/main.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette

from pilotage import Agent, Application, Pod, ToolEffects, agent_tool
from pilotage.adapters.agui import AGUICompatible
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

Frame = dict[str, Any]
PICK_A_SEAT = {
    "name": "pick_a_seat",
    "description": "Show the plan of the hall, and let the user pick a seat.",
    "parameters": {"type": "object", "properties": {"row": {"type": "string"}}},
}


@Pod
class BoxOffice:
    """Sells tickets; somebody has to allow it."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    @agent_tool(effects=ToolEffects.external_side_effect())
    async def sell(self, seat: str) -> str:
        """Sell a seat."""
        self.sold.append(seat)
        return f"seat {seat} is sold"


@AGUICompatible("/tickets")
@Agent(durable=True)
class TicketClerk:
    """Let the user pick a seat, sell it, and say so."""

    def __init__(self, office: BoxOffice) -> None:
        self.office = office


class Page:
    """A client: it keeps its messages, answers what it is asked, and remembers where it stands."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.messages: list[Frame] = []
        self.last_event_id: str | None = None
        self.runs = 0

    async def send(self, **fields: Any) -> list[Frame]:
        """Send an input, and read its stream to the end."""
        self.runs += 1
        given = {"threadId": "hall-1", "runId": f"run-{self.runs}", "messages": self.messages, **fields}
        return await self.read({**given, "tools": [PICK_A_SEAT]})

    async def read(self, given: Frame, **headers: str) -> list[Frame]:
        """The frames of a stream, each with the id it came with."""
        frames: list[Frame] = []
        async with self.http.stream("POST", "/tickets", json=given, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    self.last_event_id = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    frames.append({"id": self.last_event_id, **json.loads(line.removeprefix("data: "))})
        return frames


def shown(frames: list[Frame]) -> str:
    """What a page shows of frames."""
    return "".join(frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT")


@asynccontextmanager
async def page(office: BoxOffice, store: MemoryStore, model: ScriptedModel) -> AsyncGenerator[Page, None]:
    """A process that serves the clerk, and a page that talks to it."""
    api = Starlette()
    app = Application("theatre").add(TicketClerk, office, model, api, *store.ports).load_plugins()
    async with (
        app,
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost") as http,
    ):
        yield Page(http)


async def story() -> None:
    """From the first words to the ticket."""
    office, store = BoxOffice(), MemoryStore()
    model = ScriptedModel(
        [calls("pick_a_seat", row="C"), calls("sell", seat="C-7"), says("Seat C-7 is yours. Enjoy the play!")]
    )
    async with page(office, store, model) as client:
        client.messages.append({"id": "u1", "role": "user", "content": "A ticket in row C, please."})
        frames = await client.send()
        (call,) = [frame for frame in frames if frame["type"] == "TOOL_CALL_START"]
        print(f"the page is asked to {call['toolCallName']}")
        assert frames[-1]["outcome"] == {"type": "success"}

        asked = {"id": call["toolCallId"], "type": "function"}
        function = {"name": call["toolCallName"], "arguments": '{"row": "C"}'}
        client.messages.append(
            {"id": "a1", "role": "assistant", "toolCalls": [{**asked, "function": function}]}
        )
        picked = {"id": "t1", "role": "tool", "toolCallId": call["toolCallId"], "content": '{"seat": "C-7"}'}
        client.messages.append(picked)
        frames = await client.send()
        (interrupt,) = frames[-1]["outcome"]["interrupts"]
        print(f"a person is asked: {interrupt['message']}")
        assert office.sold == []

    print("the server is restarted")
    async with page(office, store, model.restarted()) as client:
        yes = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"decision": "approve"}}
        given = {"threadId": "hall-1", "runId": "run-3", "messages": [], "resume": [yes]}
        frames = await client.read(given)
        print(f"the page shows: {shown(frames)}")
        assert (shown(frames), office.sold) == ("Seat C-7 is yours. Enjoy the play!", ["C-7"])

        cut = next(n for n, frame in enumerate(frames) if frame.get("delta") == "is ")
        print(
            f"had the line broken behind {shown(frames[: cut + 1])!r}, the page would come back and read the rest"
        )
        rest = await client.read(given, **{"last-event-id": frames[cut]["id"]})
        assert shown(frames[: cut + 1]) + shown(rest) == shown(frames)
        assert (rest[-1]["type"], office.sold) == ("RUN_FINISHED", ["C-7"])


if __name__ == "__main__":
    asyncio.run(story())
    print("demo: ok")
