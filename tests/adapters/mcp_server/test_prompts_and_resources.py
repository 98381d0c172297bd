"""Prompts, resources and forms: what an application offers beside its tools, and runs as resources of their tenant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.adapters.mcp_server.shop import (
    ADA,
    BOB,
    LEGACY,
    MODERN,
    connected,
    filled,
    keyed,
    run_id_of,
    shop,
    text_of,
)

from pilotage import Agent, AgentRuns, Principal
from pilotage.adapters.mcp_server import McpExports, McpForm, McpPrompt, McpResource
from pilotage.agent.messages import MediaPart
from pilotage.errors import AgentDefinitionError
from pilotage.runtime import caller_tools

pytestmark = pytest.mark.parametrize("mode", [MODERN, LEGACY])


def review(text: str, tone: Literal["kind", "strict"] = "kind") -> list[Any]:
    """Review a text."""
    return [f"Review this, {tone}: {text}", MediaPart.of(b"\x89PNG", "image/png")]


async def whoami(principal: Principal) -> str:
    """Say who asks."""
    return f"{principal.id} of {principal.tenant}"


def item(number: str, principal: Principal) -> dict[str, Any] | None:
    """An item of the shop."""
    return {"number": number, "for": principal.id} if number.isdigit() else None


EXPORTS = McpExports(
    prompts=[McpPrompt(review), McpPrompt(whoami)],
    resources=[
        McpResource("shop://items/{number}", item, media_type="application/json"),
        McpResource("shop://logo", lambda: b"logo", "logo", "The logo.", "image/png"),
    ],
)


async def test_a_prompt_is_a_function(mode: str) -> None:
    async with shop() as app, connected(app, mode, exports=EXPORTS, principal=ADA) as client:
        listed = {each.name: each for each in (await client.list_prompts()).prompts}
        assert listed["review"].description == "Review a text."
        assert [(each.name, each.required) for each in listed["review"].arguments or []] == [
            ("text", True),
            ("tone", False),
        ]
        got = await client.get_prompt("review", {"text": "Hello", "tone": "strict"})
        words, picture = [each.content for each in got.messages]
        assert isinstance(words, types.TextContent)
        assert words.text == "Review this, strict: Hello"
        assert isinstance(picture, types.ImageContent)
        (who,) = (await client.get_prompt("whoami")).messages
        assert who.content == types.TextContent(text="ada of navy")
        ref = types.PromptReference(name="review")
        found = await client.complete(ref, {"name": "tone", "value": "st"})
        assert found.completion.values == ["strict"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nobody", {}),
        ("review", {}),
        ("review", {"text": "x", "tone": "rude"}),
        ("review", {"text": "x", "principal": "root"}),
    ],
)
async def test_prompts_refuse_what_does_not_fit(mode: str, name: str, arguments: dict[str, str]) -> None:
    async with shop() as app, connected(app, mode, exports=EXPORTS) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, arguments)
        assert refused.value.code == -32602


async def test_resources_of_the_application(mode: str) -> None:
    async with shop() as app, connected(app, mode, exports=EXPORTS, principal=ADA) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["shop://logo"]
        templates = [
            each.uri_template for each in (await client.list_resource_templates()).resource_templates
        ]
        assert templates[0] == "shop://items/{number}"
        (read,) = (await client.read_resource("shop://items/7")).contents
        assert isinstance(read, types.TextResourceContents)
        assert json.loads(read.text) == {"number": "7", "for": "ada"}
        (logo,) = (await client.read_resource("shop://logo")).contents
        assert isinstance(logo, types.BlobResourceContents)
        for uri in (
            "shop://items/x",
            "shop://items/7/8",
            "shop://items/",
            "file:///etc/passwd",
            "shop://logo?x",
        ):
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)


async def test_a_run_is_a_resource_of_its_tenant(mode: str) -> None:
    async with shop() as app:
        async with connected(app, mode, principal=ADA) as client:
            run_id = run_id_of(await client.call_tool("Greeter", {"name": "Ada"}, meta=keyed("g")))
            (listed,) = (await client.list_resources()).resources
            assert listed.uri == f"pilotage://runs/{run_id}"
            views = {}
            for view in ("", "/result", "/events", "/questions"):
                (read,) = (await client.read_resource(f"{listed.uri}{view}")).contents
                assert isinstance(read, types.TextResourceContents)
                views[view] = json.loads(read.text)
            assert views[""]["status"] == "completed"
            assert views["/result"]["output"] == "Hello Ada"
            assert [each["kind"] for each in views["/events"]][-1] == "run_finished"
            assert views["/questions"] == {"questions": []}
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(f"{listed.uri}/secrets")
        async with connected(app, mode, principal=BOB) as client:
            assert not (await client.list_resources()).resources
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(f"pilotage://runs/{run_id}/result")


@dataclass
class Trip:
    """A form."""

    city: str
    nights: int = 1


@Agent(durable=True)
class Travel:
    """Book a trip."""

    async def execute(self, budget: int) -> str:
        filled: Any = await caller_tools()["trip"](message=f"Where, for {budget}?")
        return str(filled)


async def test_a_form_is_asked_of_the_user_and_checked(mode: str) -> None:
    asked: list[Any] = []
    answers = [filled(nights=2), filled(city="Rome", nights="x"), filled(city="Rome", nights=2)]

    async def user(context: object, params: Any) -> Any:
        asked.append(params)
        return answers.pop(0)

    exports = McpExports(forms={Travel: [McpForm("trip", Trip, "Where to?")]})
    async with shop(Travel) as app, connected(app, mode, exports=exports, answers=user) as client:
        result = await client.call_tool("Travel", {"budget": 100})
        assert text_of(result) == "{'action': 'accept', 'content': {'city': 'Rome', 'nights': 2}}"
    assert asked[0].message == "Where, for 100?"
    assert asked[0].requested_schema["required"] == ["city"]
    assert "is not filled in" in asked[1].message


async def test_a_declined_form_is_an_answer_that_the_program_gets(mode: str) -> None:
    async def user(context: object, params: Any) -> Any:
        return types.ElicitResult(action="decline")

    exports = McpExports(forms={"Travel": [McpForm("trip", Trip)]})
    async with shop(Travel) as app, connected(app, mode, exports=exports, answers=user) as client:
        result = await client.call_tool("Travel", {"budget": 100})
        assert text_of(result) == "{'action': 'decline'}"
        assert (await app.get(AgentRuns).get(run_id_of(result))).is_terminal


async def test_offers_that_cannot_be_are_refused_where_they_are_made(mode: str) -> None:
    def number(n: int) -> str:
        return str(n)

    @dataclass
    class Nested:
        trips: list[Trip]

    with pytest.raises(AgentDefinitionError, match="parameter 'n' is no text"):
        McpPrompt(number)
    with pytest.raises(AgentDefinitionError, match="does not fit its function"):
        McpResource("shop://items/{name}", item)
    with pytest.raises(AgentDefinitionError, match="does not fit its function"):
        McpResource("items", lambda: "x")
    with pytest.raises(AgentDefinitionError, match="a client cannot show"):
        McpForm("nested", Nested)
    assert mode
