"""Messages: roles, parts, tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest

from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, ModelToolCall, TextPart
from pilotage.errors import AgentDefinitionError
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor


@dataclass(frozen=True)
class Found:
    title: str
    price: Decimal


CALL = ModelToolCall("pay", {"to": "DE-1"}, "c1")


@pytest.mark.parametrize(
    ("message", "role", "text"),
    [
        (ModelMessage.system("Be brief."), "system", "Be brief."),
        (ModelMessage.user("Hello"), "user", "Hello"),
        (ModelMessage.assistant("Hi"), "assistant", "Hi"),
        (ModelMessage.tool("c1", "done"), "tool", "done"),
        (ModelMessage.tool("c1", {"b": 1, "a": Decimal("1.50")}), "tool", '{"a":"1.50","b":1}'),
        (ModelMessage.evidence([Found("x", Decimal(2))]), "evidence", '[{"price":"2","title":"x"}]'),
        (ModelMessage.evidence("as it is"), "evidence", "as it is"),
    ],
)
def test_the_class_methods_name_the_roles(message: ModelMessage, role: str, text: str) -> None:
    assert (message.role, message.text) == (role, text)
    assert ModelMessageRole(role) is message.role


def test_parts_become_a_tuple_and_their_texts_are_joined() -> None:
    image = MediaPart("image/png", url="https://example.org/x.png")
    message = ModelMessage.user([TextPart("What is"), image, TextPart("this?")])
    assert message.content == (TextPart("What is"), image, TextPart("this?"))
    assert message.text == "What is\nthis?"


def test_an_assistant_carries_its_calls_and_a_tool_the_id_it_answers() -> None:
    assert ModelMessage.assistant("", [CALL]).tool_calls == (CALL,)
    assert ModelMessage.tool("c1", 1).tool_call_id == "c1"
    assert ModelMessage.user("x", source="mail").metadata == {"source": "mail"}


def test_media_comes_by_address_or_by_its_bytes() -> None:
    assert MediaPart("image/png", data="aGk=").data == "aGk="
    with pytest.raises(AgentDefinitionError):
        MediaPart("image/png", url="https://example.org", data="aGk=")


def test_sensitive_arguments_of_a_call_are_guarded() -> None:
    account = SensitiveFieldDescriptor(("to",), SensitiveField(PII.ACCOUNT_ID))
    assert CALL.guarded([account]) == ModelToolCall("pay", {"to": "[REDACTED]"}, "c1")
    assert CALL.arguments == {"to": "DE-1"}
    everything = SensitiveFieldDescriptor((), SensitiveField(PII.NAME))
    assert CALL.guarded([everything]).arguments == {}
