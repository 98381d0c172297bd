"""The floor: the loop of an agent written by hand, with dictionaries and nothing around it.

Its model asks for a page `turns` times and then answers; the models of ours and of peers say the same. Only the
standard library: it runs in the environments of peers too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Protocol

INSTRUCTIONS = "Look things up, then answer."
PAGE = "0123456789abcdef" * 16
"""What the tool gives: 256 bytes."""
WORDS = ("the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dogs, ")

Event = dict[str, Any]


class IJournal(Protocol):
    """Where rows go. What has to be waited for is given back."""

    def append(self, row: str, /) -> Awaitable[None] | None:
        """Keep a row."""
        ...

    def __len__(self) -> int: ...


async def look_up(page: int) -> str:
    """Look a page up."""
    return PAGE


TOOLS = {"look_up": look_up}


async def model(messages: list[Event]) -> AsyncGenerator[Event, None]:
    """What the model says: where the run stands follows from the number of messages."""
    asked = (len(messages) - 2) // 2
    if asked < int(messages[1]["content"]):
        call = {"name": "look_up", "arguments": {"page": asked}, "id": f"call-{asked}"}
        yield {"kind": "call", "call": call}
        yield {"kind": "done", "reply": {"content": "", "tool_calls": [call]}}
    else:
        yield {"kind": "token", "text": "done"}
        yield {"kind": "done", "reply": {"content": "done", "tool_calls": []}}


async def events(turns: int, journal: IJournal | None = None) -> AsyncGenerator[Event, None]:
    """A run as a stream of events; into the journal goes a row before and one after every action."""
    messages: list[Event] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": str(turns)},
    ]
    yield {"kind": "run_started"}
    while True:
        reply: Event = {}
        if (noted := _note(journal, "before", "model", len(messages))) is not None:
            await noted
        async for event in model(messages):
            if event["kind"] == "done":
                reply = event["reply"]
            else:
                yield event
        if (noted := _note(journal, "after", "model", reply)) is not None:
            await noted
        messages.append({"role": "assistant", **reply})
        if not reply["tool_calls"]:
            break
        for call in reply["tool_calls"]:
            if (noted := _note(journal, "before", call["name"], call)) is not None:
                await noted
            result = await TOOLS[call["name"]](**call["arguments"])
            if (noted := _note(journal, "after", call["name"], result)) is not None:
                await noted
            messages.append({"role": "tool", "id": call["id"], "content": json.dumps(result)})
            yield {"kind": "result", "id": call["id"], "result": result}
    yield {"kind": "run_finished", "output": reply["content"]}


def _note(journal: IJournal | None, stage: str, name: str, what: object) -> Awaitable[None] | None:
    if journal is None:
        return None
    return journal.append(json.dumps({"seq": len(journal) + 1, "stage": stage, "name": name, "record": what}))


async def run(turns: int) -> None:
    """A run, read to its end."""
    async for _ in events(turns):
        pass


async def run_kept(turns: int) -> list[str]:
    """The same with a journal in memory."""
    journal: list[str] = []
    async for _ in events(turns, journal):
        pass
    return journal


async def resume(rows: list[str], journal: IJournal) -> list[Event]:
    """The messages of a run from its rows, and the row before the next action, which goes to the journal."""
    messages: list[Event] = []
    for row in map(json.loads, rows):
        if row["stage"] == "after":
            role = "assistant" if row["name"] == "model" else "tool"
            messages.append({"role": role, "content": row["record"]})
    if (noted := _note(journal, "before", "model", len(messages))) is not None:
        await noted
    return messages


async def _words(count: int) -> AsyncGenerator[Event, None]:
    for number in range(count):
        yield {"kind": "token", "text": WORDS[number % 8]}


async def _spoken(count: int) -> AsyncGenerator[Event, None]:
    async for event in _words(count):
        yield event


async def talk(count: int) -> None:
    """So many deltas from the model through the loop to a reader."""
    async for _ in _spoken(count):
        pass
