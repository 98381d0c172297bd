"""A match that other events interrupt is redacted like any other: in loops, by hand, over a pause and after crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
from tests.behaviour.newsroom import DURABLE, Newsroom, follow, texts
from tests.behaviour.office import GATED, UNGATED

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    Token,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    ModelCapability,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelToolCall,
    StreamingExposureMode,
    ToolCallingSpec,
)
from pilotage.runtime.events.feed import Transcript
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, StopAfter, StopBefore

CARD = "4111111111111111"
SAID = f"Your card {CARD} is fine."
SHOWN = "Your card [CARD] is fine."
POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("card", r"\b\d{16}\b", "[CARD]")])
STREAMED = [mode for mode in StreamingExposureMode if mode != "no_stream_until_final_guarded"]


class Stutterer(IAgentModel):
    """Says the text one character at a time, with a piece of reasoning and of a call behind each of them."""

    @property
    def capability(self) -> ModelCapability:
        return ModelCapability("stutterer", reasoning=True)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        kind = ModelStreamEventKind
        is_first = not any(message.role == "tool" for message in request.messages)
        call = ModelToolCall("look", {"what": CARD}, "call-1")
        if is_first:
            yield ModelStreamEvent(kind.TOOL_CALL_START, tool_call=ModelToolCall("look", {}, "call-1"))
        arguments = iter(f'{{"what":"{CARD}"}}')
        for character in SAID:
            yield ModelStreamEvent(kind.TOKEN_DELTA, token_delta=character)
            yield ModelStreamEvent(kind.REASONING_DELTA, reasoning_delta=character)
            if is_first and (piece := next(arguments, "")):
                begun = ModelToolCall("look", {}, "call-1")
                yield ModelStreamEvent(kind.TOOL_CALL_ARGS_DELTA, tool_call=begun, tool_call_args_delta=piece)
        reply = ModelResponse(SAID, tool_calls=[call] if is_first else [])
        yield ModelStreamEvent(kind.DONE, response=reply)


@Pod
class Shelf:
    """Something to look at, and something that needs a person."""

    @agent_tool(effects=ToolEffects.read_only(), approval=UNGATED)
    async def look(self, what: str) -> str:
        """Look something up."""
        return "seen"

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=GATED)
    async def order(self, what: str) -> str:
        """Order something, if a person allows it."""
        return f"ordered {what}"


class ByLoop:
    """Does what its model says."""

    def __init__(self, model: IAgentModel, shelf: Shelf) -> None:
        self.model, self.shelf = model, shelf


class ByHand:
    """Shows progress, looks up and orders something in the middle of a text."""

    def __init__(self, model: IAgentModel, shelf: Shelf) -> None:
        self.model, self.shelf = model, shelf

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        digits = 0
        calling = ToolCallingSpec.from_tools([self.shelf.look])
        request = ModelRequest([ModelMessage.user("card?")], tool_calling=calling)
        async for event in self.model.stream(request):
            # In replay the text comes in fewer pieces.
            for character in event.text if event.is_text_delta else "":
                yield Token(character)
                digits += character.isdigit()
                yield Progress(f"{digits} digits")
                if character.isdigit() and digits == 5:
                    await self.shelf.look("the shelf")
                if character.isdigit() and digits == 15:
                    await self.shelf.order("a card")
        yield Token(" Bye.")
        yield Final("done")


def made(way: type[object], mode: StreamingExposureMode) -> type[object]:
    spec = AgentExecutionSpec(
        name=f"{way.__name__}-{mode}-interrupted",
        instructions="Talk." if way is ByLoop else None,
        recovery=DURABLE,
        redaction=POLICY,
        streaming_exposure_mode=mode,
    )
    return Agent(spec=spec)(type(f"{way.__name__}{mode.title()}Interrupted", (way,), {}))


WAYS: list[type[object]] = [ByLoop, ByHand]
AGENTS = {(way, mode): made(way, mode) for way in WAYS for mode in STREAMED}
EVERY_WAY = pytest.mark.parametrize(
    ("way", "mode"), list(AGENTS), ids=lambda each: getattr(each, "__name__", each)
)


async def shown(
    kind: type[object], fault: Fault | None = None
) -> tuple[Newsroom, Sequence[str], Sequence[str]]:
    """Carry a run to its end, with as many processes as it takes; return the texts of its reader and of its log."""
    room, client, run_id, commits = Newsroom(), Transcript(), "", 0
    for _ in range(5):
        if run_id and (await room.store.states.get(run_id)).is_terminal:
            break
        async with room.process(Stutterer(), kind, Shelf, fault=fault) as runs:
            if run_id:
                for question in await runs.questions(run_id):
                    await runs.approve(question.id)
            run = await (runs.resume(run_id) if run_id else runs.start(kind, "go"))
            run_id = run.id
            await follow(runs.events(run_id, after=client.cursor), client)
            await asyncio.wait([asyncio.ensure_future(run.result())])
            assert CARD[:15] not in "".join(texts(client.events).values())
        fault, commits = None, commits or room.commits
    async with room.process(Stutterer(), kind, Shelf) as runs:
        await follow(runs.events(run_id, after=client.cursor), client)
    assert (await room.store.states.get(run_id)).status is AgentStatus.COMPLETED
    room.commits = commits
    audits = [each for each in await room.store.evidence.list_by_state(run_id) if each.kind == "output_guard"]
    assert [each.payload["status"] for each in audits][-1:] == ["passed"]
    assert all(each.payload["redacted_count"] for each in audits)
    logged = texts(await room.logged(run_id))
    return room, list(texts(client.events).values()), list(logged.values())


@EVERY_WAY
async def test_whatever_interrupts_a_text_it_is_redacted_as_a_whole(
    way: type[object], mode: StreamingExposureMode
) -> None:
    _, seen, logged = await shown(AGENTS[way, mode])
    assert seen == logged
    joined = "\n".join(logged)
    assert "4111" not in joined
    expected = SHOWN if way is ByLoop else f"{SHOWN} Bye."
    assert expected in logged
    if way is ByLoop:
        assert '{"what":"[CARD]"}' in logged
        assert logged.count(SHOWN) == 4, "two replies, each with its reasoning"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_crash_in_an_interrupted_text_shows_nothing_of_a_match(
    way: type[object], fault: type[Fault]
) -> None:
    kind = AGENTS[way, StreamingExposureMode.LOW_LATENCY]
    room, expected, _ = await shown(kind)
    for number in range(2, room.commits + 1):
        _, seen, logged = await shown(kind, fault(number))
        assert "4111" not in "\n".join([*seen, *logged])
        assert set(expected) <= set(seen)
