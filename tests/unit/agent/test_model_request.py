"""Requests: context in its place, short names, capability checks."""

from __future__ import annotations

import pytest

from pilotage.agent.context import ContextPack, ContextPackRole, render_context_pack
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest, SamplingOptions, StructuredOutputSpec, ToolCallingSpec

SYSTEM, USER, ANSWER = ModelMessage.system("s"), ModelMessage.user("u"), ModelMessage.assistant("a")
QUESTION = ModelMessage.user("q")


def pack(role: ContextPackRole) -> ContextPack:
    return ContextPack(f"p-{role}", f"content of {role}", "docs", role)


def placed(messages: list[ModelMessage], *roles: ContextPackRole) -> list[tuple[str, str]]:
    request = ModelRequest(messages, context=[pack(role) for role in roles])
    packs = {render_context_pack(pack(role)): f"<{role}>" for role in roles}
    return [(m.role.value, packs.get(m.text, m.text)) for m in request.assemble_messages()]


@pytest.mark.parametrize(
    ("messages", "roles", "expected"),
    [
        ([USER], [], [("user", "u")]),
        ([USER], [ContextPackRole.EVIDENCE], [("evidence", "<evidence>"), ("user", "u")]),
        (
            [SYSTEM, USER, ANSWER, QUESTION],
            [ContextPackRole.MEMORY, ContextPackRole.INSTRUCTION, ContextPackRole.TOOL_RESULT],
            [
                ("system", "s"),
                ("system", "<instruction>"),
                ("user", "u"),
                ("assistant", "a"),
                ("evidence", "<memory>"),
                ("evidence", "<tool_result>"),
                ("user", "q"),
            ],
        ),
        ([SYSTEM], [ContextPackRole.STATE], [("system", "s"), ("evidence", "<state>")]),
        ([QUESTION], [ContextPackRole.SYSTEM], [("system", "<system>"), ("user", "q")]),
    ],
)
def test_context_stands_before_the_question_and_is_nobodys_words(
    messages: list[ModelMessage], roles: list[ContextPackRole], expected: list[tuple[str, str]]
) -> None:
    assert placed(messages, *roles) == expected


def test_a_pack_carries_its_provenance_as_metadata() -> None:
    request = ModelRequest([QUESTION], context=[pack(ContextPackRole.EVIDENCE)])
    (shown, _) = request.assemble_messages()
    assert shown.metadata["context_pack_id"] == "p-evidence"
    assert shown.metadata["source"] == "docs"


def test_tools_and_output_are_short_names() -> None:
    tools, output = ToolCallingSpec(()), StructuredOutputSpec.from_type(int)
    request = ModelRequest([QUESTION], tools=tools, output=output)
    assert request.tool_calling is tools
    assert request.structured_output is output
    assert request == ModelRequest([QUESTION], tool_calling=tools, structured_output=output)


def test_sampling_takes_a_temperature_of_zero() -> None:
    assert SamplingOptions(temperature=0, top_p=1, max_tokens=5).temperature == 0
