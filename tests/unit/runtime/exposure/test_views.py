"""Hooks see requests and replies without what they must not see."""

from __future__ import annotations

from typing import Annotated

from pilotage.agent import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ToolCallingSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.agent.messages import MediaPart, TextPart
from pilotage.runtime.exposure.redactor import Redactor, shown_request, shown_response
from pilotage.safety import PII, SensitiveField, StreamingRedactionPolicy, StreamingSensitivePattern

CARDS = StreamingRedactionPolicy([StreamingSensitivePattern("card", r"CARD-\d{4}")])


class Bank:
    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, iban: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]) -> str:
        """The balance of an account."""
        return "12.50"


TOOLS = ToolCallingSpec.from_tools([Bank().balance])
CALL = ModelToolCall("balance", {"iban": "DE-1"}, "c1")


def test_where_nothing_is_hidden_hooks_see_the_very_same() -> None:
    request, reply = ModelRequest([ModelMessage.user("CARD-1234")]), ModelResponse("CARD-1234")
    assert shown_request(request, Redactor()) is request
    assert shown_response(reply, request, Redactor()) is reply


def test_texts_are_redacted_in_messages_of_one_and_of_several_parts() -> None:
    picture = MediaPart("image/png", url="https://example.org/a.png")
    several = ModelMessage.user((TextPart("pay CARD-1234"), picture))
    request = ModelRequest([ModelMessage.user("CARD-1234 please"), several])
    first, second = shown_request(request, Redactor(CARDS)).messages
    assert first.content == "[REDACTED] please"
    assert list(second.content) == [TextPart("pay [REDACTED]"), picture]


def test_names_and_addresses_of_media_are_texts_too() -> None:
    named = MediaPart("image/png", data="AAAA", name="CARD-1234.png")
    fetched = MediaPart("image/png", url="https://example.org/CARD-1234")
    request = ModelRequest([ModelMessage.user((named, fetched))])
    shown = [part for each in shown_request(request, Redactor(CARDS)).messages for part in each.content]
    assert shown == [
        MediaPart("image/png", data="AAAA", name="[REDACTED].png"),
        MediaPart("image/png", url="https://example.org/[REDACTED]"),
    ]


def test_a_name_of_which_nothing_is_left_is_shown_as_such() -> None:
    nothing = StreamingRedactionPolicy([StreamingSensitivePattern("card", r"CARD-\d{4}", "")])
    request = ModelRequest([ModelMessage.user((MediaPart("image/png", data="AAAA", name="CARD-1234"),))])
    (message,) = shown_request(request, Redactor(nothing)).messages
    assert list(message.content) == [MediaPart("image/png", data="AAAA", name="...")]


def test_arguments_that_only_a_tool_may_see_are_masked_on_both_ways() -> None:
    request = ModelRequest([ModelMessage.assistant("", [CALL])], tools=TOOLS)
    reply = ModelResponse("", tool_calls=[CALL])
    (message,) = shown_request(request, Redactor()).messages
    assert message.tool_calls[0].arguments == {"iban": "[REDACTED]"}
    assert shown_response(reply, request, Redactor()).tool_calls[0].arguments == {"iban": "[REDACTED]"}


def test_a_reply_is_redacted_in_its_text_and_in_its_structure() -> None:
    reply = ModelResponse("CARD-1234", structured_output={"card": "CARD-1234"}, output=object())
    shown = shown_response(reply, ModelRequest([ModelMessage.user("?")]), Redactor(CARDS))
    assert (shown.content, shown.structured_output, shown.output) == (
        "[REDACTED]",
        {"card": "[REDACTED]"},
        None,
    )
