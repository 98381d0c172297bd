"""A server made with the SDK: `python -m tests.adapters.mcp.sdk_server [PORT]` serves standard input, or HTTP."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import (
    AudioContent,
    CreateMessageResult,
    EmbeddedResource,
    ImageContent,
    ListRootsResult,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

from tests.media.pictures import png

server = MCPServer("sdk")
READS = ToolAnnotations(readOnlyHint=True)


class Weather(BaseModel):
    sky: str
    degrees: int


class Name(BaseModel):
    name: str


@server.tool(annotations=READS)
def weather(city: str) -> Weather:
    """Tell the weather."""
    return Weather(sky="clear", degrees=len(city))


@server.tool(annotations=READS)
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool(annotations=READS, structured_output=False)
def gallery() -> list[object]:
    """Show everything that a result can have."""
    return [
        TextContent(type="text", text="Look:"),
        ImageContent(type="image", data=b64encode(png(2, 2)).decode(), mime_type="image/png"),
        AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        ResourceLink(type="resource_link", uri="file:///a.txt", name="a"),
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri="file:///b.txt", text="inside", mime_type="text/plain"),
        ),
    ]


def who() -> Elicit[Name]:
    return Elicit("Who is there?", Name)


def where() -> ListRoots:
    return ListRoots()


def words() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say something."))
    return Sample([message], max_tokens=10)


@server.tool()
def greet(greeting: str, name: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    """Greet somebody, after asking for the name."""
    return (
        f"{greeting}, {name.data.name}" if name.action == "accept" else f"{greeting}, whoever ({name.action})"
    )


@server.tool()
def roots(found: Annotated[ListRootsResult, Resolve(where)]) -> str:
    """Name the folders that the client gives."""
    return ", ".join(str(each.uri) for each in found.roots)


@server.tool()
def chat(found: Annotated[CreateMessageResult, Resolve(words)]) -> str:
    """Let the client's model speak."""
    return str(found.content)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
