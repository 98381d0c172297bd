"""Programs that read a model's stream."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel, ModelMessage, ModelRequest
from tests.replay.kit import Shop, program

WORDS = "one two three"


def request(text: str = "hello") -> ModelRequest:
    return ModelRequest([ModelMessage.user(text)])


@program(replies=(WORDS,))
async def stream_to_its_end(shop: Shop, model: IAgentModel) -> str:
    text = ""
    async for event in model.stream(request()):
        if event.is_text_delta:
            text += event.text
    return await shop.pay("apple", note=text)


@program(replies=(WORDS,))
async def stream_left_early(shop: Shop, model: IAgentModel) -> str:
    async for event in model.stream(request()):
        if event.is_text_delta:
            break
    return await shop.pay("apple")


@program(replies=(WORDS,))
async def stream_beside_calls(shop: Shop, model: IAgentModel) -> str:
    async for event in model.stream(request()):
        if event.is_text_delta:
            await shop.look("apple")
            break
    return await shop.pay("apple")


@program(replies=(WORDS, "four"))
async def reply_and_payment_side_by_side(shop: Shop, model: IAgentModel) -> str:
    reply, paid = await asyncio.gather(model.complete(request()), shop.pay("apple"))
    again = await model.complete(request(paid))
    return await shop.ship(f"{reply.content} {again.content}")
