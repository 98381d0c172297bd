"""Parts of a reply that repeat a secret, in texts, states, media and over their borders: no part, record or replay has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal

import pytest

from pilotage import (
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent import (
    MediaPart,
    MessagePart,
    ModelToolCall,
    ModelUsage,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from pilotage.agent.messages import state_of
from pilotage.agent.ports.persistence import RunKey
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.journal.seals import Seals
from tests.attack.test_secrets_in_replies import SAFE, SECRET, Vault, asking, offering
from tests.behaviour.bureau import WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker

pytestmark = pytest.mark.attack("canaries")

AGENT = hired("parts")
HALF, REST = SECRET[:9], SECRET[9:]


def state(data: JsonValue, model: str = "m") -> ProviderState:
    return ProviderState("vendor", model, "block", data)


OK = TextPart("ok")
PARTS: dict[str, Sequence[MessagePart]] = {
    "reasoning": [ReasoningPart(f"so {SECRET}"), OK],
    "reasoning with a state": [ReasoningPart(f"so {SECRET}", state=state({"thinking": "encrypted"})), OK],
    "reasoning in two parts": [ReasoningPart(f"so {HALF}"), ReasoningPart(REST), OK],
    "reasoning around text": [ReasoningPart(f"so {HALF}", state=state(["x"])), OK, ReasoningPart(REST)],
    "the origin of reasoning": [ReasoningPart("so", origin=SECRET), OK],
    "text in two parts": [TextPart(f"so {HALF}"), TextPart(REST)],
    "text in two parts behind reasoning": [ReasoningPart("so"), TextPart(HALF), TextPart(REST)],
    "text around a call": [TextPart(HALF), ModelToolCall("put", {"text": "x"}, "c1"), TextPart(REST)],
    "a refusal": [RefusalPart(f"no {SECRET}")],
    "the state of a text": [TextPart("ok", state({"text": SECRET})), OK],
    "a text and its state": [TextPart(SECRET, state({"text": HALF, "more": REST})), OK],
    "the state of reasoning": [ReasoningPart("so", state=state([{"text": HALF}, {"text": REST}])), OK],
    "the name of a state": [ReasoningPart("so", state=state("x", model=SECRET)), OK],
    "a key in a state": [ReasoningPart("so", state=state({SECRET: 1})), OK],
    "a block": [OK, OpaquePart(state({"found": [f"in {SECRET}"]}))],
    "an address": [OK, MediaPart("image/png", url=f"https://pictures.example/?k={SECRET}")],
    "the name of a file": [OK, MediaPart("image/png", data="AAAA", name=f"{SECRET}.png")],
    "the bytes of a file": [OK, MediaPart("image/png", data=SECRET)],
    "a type of media": [OK, MediaPart(SECRET, data="AAAA")],
    "the state of a call": [OK, ModelToolCall("put", {"text": "x"}, "c1", state=state({"of": SECRET}))],
    "a call and its state": [OK, ModelToolCall("put", {"text": SECRET}, "c1", state=state("signed"))],
    "metadata of a call": [OK, ModelToolCall("put", {"text": "x"}, "c1", {"note": SECRET})],
}


class Parrot(IAgentModel):
    """Gives one reply, with or without its texts in the stream."""

    def __init__(self, parts: Sequence[MessagePart], *, streams: bool) -> None:
        self._parts, self._streams = parts, streams

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        kind = ModelStreamEventKind
        for part in self._parts if self._streams else ():
            if isinstance(part, ReasoningPart):
                yield ModelStreamEvent(kind.REASONING_DELTA, reasoning_delta=part.text)
            if isinstance(part, TextPart | RefusalPart):
                yield ModelStreamEvent(kind.TOKEN_DELTA, token_delta=part.text)
            if isinstance(part, ModelToolCall):
                yield ModelStreamEvent(kind.TOOL_CALL_CANDIDATE, tool_call=part)
        reply = ModelResponse.of(self._parts, usage=ModelUsage(1, 2, 3))
        yield ModelStreamEvent(kind.DONE, response=reply)


def everything_in(reply: ModelResponse) -> str:
    """All that a program can read of a reply, states included."""
    states = [state_of(part) for part in (*reply.parts, *reply.tool_calls)]
    seen = [None if each is None else (each, each.data) for each in states]
    return repr((reply, reply.content, reply.reasoning, reply.message, seen))


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("has_sealer", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("name", PARTS)
async def test_no_part_of_a_reply_has_a_secret_live_or_in_replay(
    name: str, has_sealer: bool, streams: bool
) -> None:
    bureau, got = Bureau(), list[str]()
    model = Parrot(PARTS[name], streams=streams)
    has_call = any(isinstance(part, ModelToolCall) for part in PARTS[name])

    async def program(worker: Worker) -> object:
        await SAFE.unlock("given by the run")
        got.append(everything_in(await worker.model.complete(offering() if has_call else asking())))
        await worker.desk.refund(Decimal(1))
        return None

    async with bureau.process(AGENT, program, Vault(), model=model, has_sealer=has_sealer) as runs:
        waiting = await started(runs, AGENT)
        assert triple(waiting.state) == WAITING
    async with bureau.process(AGENT, program, Vault(), model=model, has_sealer=has_sealer) as runs:
        assert triple((await resumed(runs, waiting.state.id)).state) == WAITING
    run = RunKey("default", waiting.state.id)
    rows = Seals(bureau.store.sealer, run).opened_rows(await bureau.rows(run.run_id))
    live, replayed = got
    assert live == replayed
    for text in (live, repr([(row.record, row.view) for row in rows])):
        assert SECRET not in text
        assert REST not in text
