"""Replies: whole ones, streams, and what a hand-written loop reads from them."""

from __future__ import annotations

import pytest

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import (
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_request import ToolCallingSpec
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import AgentToolDispatchError
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor

Kind = ModelStreamEventKind
CALL = ModelToolCall("double", {"number": 4}, "c1")
RESPONSE = ModelResponse("Done.", {"n": 1}, [CALL], ModelUsage(1, 2, 3))


@agent_tool
async def double(number: int) -> int:
    """Double a number."""
    return number * 2


@pytest.mark.parametrize(
    ("event", "facts"),
    [
        (ModelStreamEvent(Kind.TOKEN_DELTA, "a"), {"is_text_delta", "text=a"}),
        (ModelStreamEvent(Kind.MESSAGE_DELTA, message_delta="b"), {"is_text_delta", "text=b"}),
        (ModelStreamEvent(Kind.REASONING_DELTA, reasoning_delta="c"), {"text="}),
        (
            ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=CALL),
            {"is_tool_call", "text=", "name=double"},
        ),
        (ModelStreamEvent(Kind.APPROVAL_REQUIRED), {"is_approval_required", "text="}),
        (ModelStreamEvent(Kind.DONE, response=RESPONSE), {"is_done", "text=Done."}),
        (ModelStreamEvent(Kind.DONE, response=ModelResponse("Yes.")), {"is_done", "is_final", "text=Yes."}),
        (ModelStreamEvent(Kind.DONE), {"is_done", "is_final", "text="}),
    ],
)
def test_an_event_says_what_it_is(event: ModelStreamEvent, facts: set[str]) -> None:
    questions = ("is_text_delta", "is_tool_call", "is_approval_required", "is_done", "is_final")
    said = {question for question in questions if getattr(event, question)} | {f"text={event.text}"}
    assert said | ({f"name={event.name}"} if event.name else set()) == facts


def test_the_final_event_has_the_whole_reply() -> None:
    event = ModelStreamEvent(Kind.DONE, response=RESPONSE)
    assert event.message == ModelMessage.assistant("Done.", [CALL])
    assert event.output == {"n": 1}
    assert ModelStreamEvent(Kind.DONE, response=ModelResponse("x", {"n": 1}, output=7)).output == 7
    assert ModelStreamEvent(Kind.STRUCTURED_OUTPUT, structured_output=[1]).output == [1]
    assert ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=CALL).call_id == "c1"


async def test_a_tool_call_is_invoked_through_the_requests_tools() -> None:
    tools = ToolCallingSpec.from_tools([double])
    assert await ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=CALL, tools=tools).invoke_tool() == 8


@pytest.mark.parametrize(
    "event",
    [
        ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=CALL),
        ModelStreamEvent(Kind.DONE, response=RESPONSE),
    ],
)
async def test_an_event_without_a_tool_says_what_to_do_instead(event: ModelStreamEvent) -> None:
    with pytest.raises(AgentToolDispatchError, match="await tools.invoke"):
        await event.invoke_tool()


TEXT = SensitiveFieldDescriptor((), SensitiveField(PII.NAME))
CONTENT = SensitiveFieldDescriptor(("content",), SensitiveField(PII.NAME))
NUMBER = SensitiveFieldDescriptor(("n",), SensitiveField(PII.IDENTIFIER))


def test_a_guarded_reply_shows_neither_text_nor_output_nor_the_decoded_value() -> None:
    reply = ModelResponse("Ada", {"n": "123"}, [CALL], output=object())
    assert reply.guarded([TEXT, NUMBER]) == ModelResponse("[REDACTED]", {"n": "[REDACTED]"}, [CALL])
    assert reply.guarded([CONTENT]).content == "[REDACTED]"
    assert reply.guarded([]) == reply


def test_a_guarded_event_keeps_absent_parts_absent() -> None:
    event = ModelStreamEvent(Kind.TOKEN_DELTA, "Ada").guarded([TEXT])
    assert (event.token_delta, event.tool_call, event.structured_output) == ("[REDACTED]", None, None)
    call = ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=ModelToolCall("t", {"n": "1"})).guarded(
        [NUMBER]
    )
    assert call.tool_call == ModelToolCall("t", {"n": "[REDACTED]"})
    done = ModelStreamEvent(Kind.DONE, response=ModelResponse("Ada")).guarded([TEXT])
    assert done.text == "[REDACTED]"
