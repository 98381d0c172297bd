"""Where the prefixes end that the provider may cache."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pilotage.adapters.anthropic import AnthropicSettings
from pilotage.adapters.anthropic.request_mapping import counted_body, names_of
from pilotage.agent.context import ContextPack, ContextPackRole
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import CacheOptions, ModelRequest, ToolCallingSpec
from pilotage.agent.tools.declare import agent_tool
from pilotage.context import assemble

SETTINGS = AnthropicSettings("m", base_url="http://h/v1")


@agent_tool
async def look(at: int) -> str:
    """Look at a place."""
    return f"seen {at}"


def turn(number: int) -> list[ModelMessage]:
    call = ModelToolCall("look", {"at": number}, f"c{number}")
    return [ModelMessage.assistant("", tool_calls=[call]), ModelMessage.tool(f"c{number}", f"seen {number}")]


def loop(
    turns: int, *packs: ContextPack, volatile: tuple[str, ...] = (), system: str = "Look."
) -> ModelRequest:
    """The request of a loop behind so many turns, as a run sends it."""
    messages = [ModelMessage.system(system), ModelMessage.user("go")] if system else [ModelMessage.user("go")]
    said = [each for number in range(turns) for each in turn(number)]
    request = ModelRequest([*messages, *said], context=packs, tools=ToolCallingSpec.from_tools([look]))
    return assemble(request, manifest_id="m", volatile=volatile).request


def body_of(request: ModelRequest, settings: AnthropicSettings = SETTINGS) -> Any:
    return counted_body(request, settings, names_of(request))


def marked(body: Any) -> list[str]:
    """What is marked, by the text that it ends with."""
    blocks = [*body.get("tools", ()), *body.get("system", ())]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return [
        block.get("text") or block.get("content") or block.get("name")
        for block in blocks
        if "cache_control" in block
    ]


def pack(content: str, role: ContextPackRole = ContextPackRole.STATE) -> ContextPack:
    return ContextPack("clock", content, "clock", role)


def test_the_system_the_last_turn_and_the_one_before_it_are_marked() -> None:
    assert marked(body_of(loop(3))) == ["Look.", "seen 1", "seen 2"]
    assert marked(body_of(loop(0))) == ["Look.", "go"]


def test_without_a_system_the_tools_are_marked() -> None:
    assert marked(body_of(loop(1, system=""))) == ["look", "go", "seen 0"]


def test_a_request_that_no_run_assembled_has_marks_only_where_it_asks_for_them() -> None:
    request = ModelRequest([ModelMessage.user("go")])
    assert marked(body_of(request)) == []
    asked = body_of(replace(request, cache=CacheOptions(is_long=True)))
    assert asked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_a_server_without_marks_gets_none() -> None:
    assert marked(body_of(loop(3), replace(SETTINGS, cache_marks=False))) == []


def test_nothing_volatile_is_before_the_last_mark() -> None:
    """A pack that is fetched anew for each request stands behind the results of the turn, and behind the marks."""
    for turns in range(5):
        body = body_of(loop(turns, pack("now"), volatile=("clock",)))
        text = json.dumps(body["messages"])
        assert text.rfind("cache_control") < text.index("| now")
        assert len(marked(body)) >= (2 if turns else 1)


def test_a_pack_that_stays_the_same_is_part_of_the_prefix() -> None:
    body = body_of(loop(2, pack("now")))
    assert marked(body) == ["Look.", "seen 0", "seen 1"]
    assert "| now" in body["messages"][0]["content"][0]["text"]


def test_behind_a_volatile_instruction_nothing_is_marked() -> None:
    body = body_of(loop(2, pack("now", ContextPackRole.INSTRUCTION), volatile=("clock",)))
    assert marked(body) == ["Look."]


def test_the_requests_of_a_loop_with_a_volatile_pack_begin_alike() -> None:
    for turns in range(1, 5):
        before = body_of(loop(turns, pack(f"it is {turns}"), volatile=("clock",)))
        after = body_of(loop(turns + 1, pack(f"it is {turns + 1}"), volatile=("clock",)))
        plain = [json.dumps(unmarked(each)["messages"]) for each in (before, after)]
        steady = plain[0].index("it is")
        assert plain[0][: steady - 120] == plain[1][: steady - 120]


def unmarked(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: unmarked(each) for name, each in given.items() if name != "cache_control"}
    return [unmarked(each) for each in given] if isinstance(given, list) else given
