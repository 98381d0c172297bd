"""Secrets in the reply of a model: the pieces that a reader gets, joined, are the masked whole, however it was cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from random import Random

import pytest

from pilotage import ModelResponse, ModelStreamEvent, ModelStreamEventKind
from pilotage.agent import ModelToolCall, ModelUsage
from pilotage.runtime.door.model_secrets import MaskedReply
from pilotage.runtime.exposure.redactor import Redactor

KIND = ModelStreamEventKind
SECRET, LONGER = "abcab", 'abcab"xyz'
TEXT = 'so abcab and abca, ababcab"xyz, abcababcab"xy, ab'
MASKED = 'so [SECRET] and abca, ab[SECRET], [SECRET][SECRET]"xy, ab'


async def stream(events: Iterable[ModelStreamEvent]) -> AsyncIterator[ModelStreamEvent]:
    for event in events:
        yield event


def knowing(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.register(secret)
    return redactor


async def read(events: Iterable[ModelStreamEvent], redactor: Redactor) -> list[ModelStreamEvent]:
    return [event async for event in MaskedReply(stream(events), redactor, [])]


def pieces(text: str, seed: int) -> list[str]:
    chance, cut = Random(seed), list[str]()  # noqa: S311 - no secret
    while text:
        size = chance.randint(1, 7)
        cut.append(text[:size])
        text = text[size:]
    return cut


def texts(seed: int) -> list[ModelStreamEvent]:
    """The same text as tokens and messages, as reasoning and as arguments of two calls, shuffled into each other."""
    chance = Random(seed)  # noqa: S311 - no secret
    kinds = (KIND.TOKEN_DELTA, KIND.MESSAGE_DELTA)
    lanes = [
        [
            ModelStreamEvent(KIND.TOKEN_DELTA, token_delta=piece)
            if chance.choice(kinds) is KIND.TOKEN_DELTA
            else ModelStreamEvent(KIND.MESSAGE_DELTA, message_delta=piece)
            for piece in pieces(TEXT, seed)
        ],
        [ModelStreamEvent(KIND.REASONING_DELTA, reasoning_delta=piece) for piece in pieces(TEXT, seed + 1)],
        *([arguments(call_id, piece) for piece in pieces(TEXT, seed + 2)] for call_id in ("c1", "c2")),
    ]
    mixed: list[ModelStreamEvent] = []
    while lanes := [lane for lane in lanes if lane]:
        mixed.append(chance.choice(lanes).pop(0))
    return [*mixed, ModelStreamEvent(KIND.DONE, response=ModelResponse(TEXT))]


def arguments(call_id: str, piece: str) -> ModelStreamEvent:
    call = ModelToolCall("pay", {}, call_id)
    return ModelStreamEvent(KIND.TOOL_CALL_ARGS_DELTA, tool_call=call, tool_call_args_delta=piece)


def joined(events: Sequence[ModelStreamEvent], call_id: str) -> str:
    return "".join(event.tool_call_args_delta or "" for event in events if event.call_id == call_id)


@pytest.mark.parametrize("seed", range(60))
async def test_the_pieces_of_every_text_are_its_masked_whole(seed: int) -> None:
    events = await read(texts(seed), knowing(SECRET, LONGER))
    assert "".join(event.text for event in events if event.is_text_delta) == MASKED
    assert "".join(event.reasoning_delta or "" for event in events) == MASKED
    assert joined(events, "c1") == joined(events, "c2") == MASKED
    assert events[-1].is_done
    assert events[-1].text == MASKED


async def test_arguments_end_before_the_end_of_their_call() -> None:
    call = ModelToolCall("pay", {"note": SECRET}, "c1")
    given = [
        arguments("c1", "abc"),
        arguments("c2", "ab"),
        ModelStreamEvent(KIND.TOOL_CALL_END, tool_call=call),
    ]
    events = await read(given, knowing(SECRET))
    assert [(each.kind, each.tool_call_args_delta) for each in events] == [
        (KIND.TOOL_CALL_ARGS_DELTA, "abc"),
        (KIND.TOOL_CALL_END, None),
    ]
    assert SECRET not in repr(events)


async def test_a_report_of_usage_is_not_held_back_with_its_text() -> None:
    usage = ModelUsage(1, 2, 3)
    given = [ModelStreamEvent(KIND.TOKEN_DELTA, token_delta="abc", usage=usage)]
    (event,) = await read(given, knowing(SECRET))
    assert (event.text, event.usage) == ("", usage)


async def test_the_written_pieces_are_those_of_the_model() -> None:
    written: list[str] = []
    given = [
        ModelStreamEvent(KIND.REASONING_DELTA, reasoning_delta="abcab"),
        ModelStreamEvent(KIND.TOKEN_DELTA, token_delta="abc"),
    ]
    assert [event async for event in MaskedReply(stream(given), knowing(SECRET), written)] != []
    assert written == ["abcab", "abc"]


async def test_a_secret_that_is_handed_out_in_the_middle_is_masked_in_the_text_that_is_held_too() -> None:
    redactor = knowing("abcd")

    async def model() -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(KIND.TOKEN_DELTA, token_delta="now abc")
        redactor.register("abcxyz")
        yield ModelStreamEvent(KIND.TOKEN_DELTA, token_delta="xyz.")

    events = [event.text async for event in MaskedReply(model(), redactor, [])]
    assert events == ["now ", "[SECRET]."]


async def test_calls_outputs_and_metadata_have_no_secret_and_the_output_is_decoded_again() -> None:
    call = ModelToolCall(SECRET, {SECRET: [{"a": f"x{SECRET}"}]}, SECRET, {"m": SECRET})
    response = ModelResponse(
        SECRET, {"note": SECRET}, [call], metadata={"answered_by": SECRET}, output=f"typed {SECRET}"
    )
    given = [
        ModelStreamEvent(KIND.TOOL_CALL_CANDIDATE, tool_call=call),
        ModelStreamEvent(KIND.STRUCTURED_OUTPUT, structured_output={"note": SECRET}),
        ModelStreamEvent(KIND.DONE, response=response, metadata={"m": SECRET}),
    ]
    events = await read(given, knowing(SECRET))
    assert SECRET not in repr(events)
    assert events[-1].response is not None
    assert events[-1].response.output is None
    assert events[-1].response.structured_output == {"note": "[SECRET]"}


@pytest.mark.parametrize("secret", ["SECRET", "[SECRET]", "CRET"])
@pytest.mark.parametrize("size", [1, 3, 50])
async def test_a_secret_in_the_mark_is_masked_once_however_often_it_is_looked_for(
    secret: str, size: int
) -> None:
    redactor, text = knowing(secret), f"it is {secret}, so"
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    given = [ModelStreamEvent(KIND.TOKEN_DELTA, token_delta=piece) for piece in cut]
    end = ModelStreamEvent(KIND.DONE, response=ModelResponse(text))
    events = await read([*given, end], redactor)
    assert "".join(event.text for event in events if event.is_text_delta) == "it is [SECRET], so"
    assert redactor.without_secrets(events[-1].text) == events[-1].text == "it is [SECRET], so"
