"""The application that the official conformance suite of the protocol is run against: its fixtures, as agents."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from pilotage import Agent, AgentExecutionSpec, AgentYield, Application, Final, Progress, ToolError, step
from pilotage.adapters.mcp_server import McpExports, McpForm, McpPrompt, McpResource, McpTasks, mcp_extension
from pilotage.agent.messages import MediaPart, TextPart
from pilotage.runtime import caller_tools
from pilotage.testing import MemoryStore, ScriptedModel

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = b"RIFF" + (36 + 8).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
WAV += (1).to_bytes(2, "little") * 2 + (8_000).to_bytes(4, "little") * 2 + (1).to_bytes(2, "little")
WAV += (8).to_bytes(2, "little") + b"data" + (8).to_bytes(4, "little") + b"\x80" * 8
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def agent(name: str) -> Any:
    """An agent of this name."""
    return Agent(durable=True, spec=AgentExecutionSpec(name=name))


@agent("test_simple_text")
class SimpleText:
    """Return a text."""

    async def execute(self) -> str:
        return "This is a simple text response for testing."


@agent("test_image_content")
class Image:
    """Return a picture."""

    async def execute(self) -> MediaPart:
        return MediaPart.of(PNG, "image/png")


@agent("test_audio_content")
class Audio:
    """Return a sound."""

    async def execute(self) -> MediaPart:
        return MediaPart.of(WAV, "audio/wav")


@agent("test_embedded_resource")
class Embedded:
    """Return a file."""

    async def execute(self) -> MediaPart:
        return MediaPart.of(PDF, "application/pdf", "paper.pdf")


@agent("test_multiple_content_types")
class Multiple:
    """Return a text, a picture and a file."""

    async def execute(self) -> list[TextPart | MediaPart]:
        return [TextPart("Multiple content types test:"), MediaPart.of(PNG), MediaPart.of(PDF)]


@agent("test_error_handling")
class Failing:
    """Fail."""

    async def execute(self) -> str:
        raise ToolError("This tool intentionally returns an error for testing")


@agent("test_tool_with_progress")
class Progressing:
    """Work in three steps."""

    async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
        for name in ("first", "second", "third"):
            yield Progress(name)
            await step(name, lambda: asyncio.sleep(0.05))
        yield Final("done")


async def ask(form: str, message: str) -> dict[str, Any]:
    """The filled form of the client's user."""
    filled: Any = await caller_tools()[form](message=message)
    return filled.get("content", {})


@agent("test_input_required_result_elicitation")
class Greeted:
    """Ask for a name."""

    async def execute(self) -> str:
        return f"Hello, {(await ask('user_name', 'What is your name?'))['name']}!"


@agent("test_input_required_result_request_state")
class Stateful:
    """Ask for a confirmation."""

    async def execute(self) -> str:
        await ask("confirm", "Please confirm")
        return "state-ok"


@agent("test_input_required_result_tampered_state")
class Tampered(Stateful):
    """Ask for a confirmation."""


@agent("test_input_required_result_capabilities")
class Capable(Stateful):
    """Ask for a confirmation."""


@agent("test_input_required_result_multi_round")
class Rounds:
    """Ask twice."""

    async def execute(self) -> str:
        name = (await ask("step1", "Step 1: What is your name?"))["name"]
        color = (await ask("step2", "Step 2: What is your favorite color?"))["color"]
        return f"{name} likes {color}"


@agent("greet")
class Greet:
    """Greet somebody."""

    async def execute(self, name: str) -> str:
        return f"Hello, {name}!"


@agent("slow_compute")
class SlowCompute:
    """Sleep for some seconds."""

    async def execute(self, seconds: float, label: str = "") -> str:
        await step("sleep", lambda: asyncio.sleep(seconds))
        return f"{label} computed for {seconds} s"


@agent("failing_job")
class FailingJob:
    """Fail after a while."""

    async def execute(self) -> str:
        await step("sleep", lambda: asyncio.sleep(0.2))
        raise ToolError("the job failed")


@agent("protocol_error_job")
class ProtocolErrorJob:
    """Break."""

    async def execute(self) -> str:
        raise RuntimeError("broken")


@agent("confirm_delete")
class ConfirmDelete:
    """Ask before a file is deleted."""

    async def execute(self, filename: str) -> str:
        sure = (await ask("confirmation", f"Delete {filename}?")).get("confirm")
        return f"{filename} deleted" if sure else "kept"


@agent("multi_input")
class MultiInput:
    """Ask two things at once."""

    async def execute(self) -> str:
        first, second = await asyncio.gather(ask("first", "The first?"), ask("second", "The second?"))
        return f"{first['name']}, {second['name']}"


@agent("test_tool_with_task")
class AsksThenWorks:
    """Ask for a name, then work for a while."""

    async def execute(self) -> str:
        name = (await ask("user_name", "What is your name?"))["name"]
        await step("sleep", lambda: asyncio.sleep(1.5))
        return f"Hello, {name}!"


@agent("test_missing_capability")
class NeedsTasks:
    """Work for clients that know tasks."""

    async def execute(self) -> str:
        return "worked"


@agent("test_streaming_elicitation")
class Streams(Stateful):
    """Ask for a confirmation."""


@agent("test_logging_tool")
class Quiet:
    """Send no log."""

    async def execute(self) -> str:
        return "quiet"


@dataclass
class Name:
    name: str


@dataclass
class Ok:
    ok: bool


@dataclass
class Color:
    color: str


@dataclass
class Confirmation:
    confirm: bool


@dataclass
class NamedConfirmation:
    name: str
    confirm: bool


AGENTS = (SimpleText, Image, Audio, Embedded, Multiple, Failing, Progressing, Greeted, Stateful, Tampered)
AGENTS += (Capable, Rounds, Greet, SlowCompute, FailingJob, ProtocolErrorJob, ConfirmDelete, MultiInput)
AGENTS += (AsksThenWorks, NeedsTasks, Streams, Quiet)


def test_simple_prompt() -> str:
    """A simple prompt."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the name of the suite
    """A prompt with a resource."""
    contents = types.TextResourceContents(
        uri=resourceUri, mime_type="text/plain", text="Embedded resource content."
    )
    return [types.EmbeddedResource(resource=contents), "Please process the embedded resource above."]


def test_prompt_with_image() -> list[Any]:
    """A prompt with a picture."""
    return [MediaPart.of(PNG, "image/png"), "Please analyze the image above."]


PROMPTS = (
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
)


def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


def static_binary() -> bytes:
    """A picture."""
    return PNG


def template(id: str) -> dict[str, Any]:  # noqa: A002 - the name of the suite
    """Data for an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


CONFIRM = McpForm("confirm", Ok)
EXPORTS = McpExports(
    prompts=[McpPrompt(each) for each in PROMPTS],
    resources=[
        McpResource("test://static-text", static_text),
        McpResource("test://static-binary", static_binary, media_type="image/png"),
        McpResource("test://template/{id}/data", template, media_type="application/json"),
    ],
    forms={
        Greeted: [McpForm("user_name", Name)],
        AsksThenWorks: [McpForm("user_name", Name)],
        Stateful: [CONFIRM],
        Streams: [CONFIRM],
        Tampered: [CONFIRM],
        Capable: [CONFIRM],
        Rounds: [McpForm("step1", Name), McpForm("step2", Color)],
        ConfirmDelete: [McpForm("confirmation", Confirmation)],
        MultiInput: [McpForm("first", NamedConfirmation), McpForm("second", NamedConfirmation)],
    },
    tasks={
        SlowCompute: McpTasks.ALWAYS,
        NeedsTasks: McpTasks.REQUIRED,
        FailingJob: McpTasks.REQUIRED,
        ProtocolErrorJob: McpTasks.ALWAYS,
        ConfirmDelete: McpTasks.ALWAYS,
        MultiInput: McpTasks.ALWAYS,
    },
    task_after_seconds=1.0,
)


def application() -> Application:
    """The application, with a store in memory."""
    app = Application("conformance").load_plugins(include=["agent", "runtime"])
    return app.add(*AGENTS, ScriptedModel([]), *MemoryStore().ports)


def main() -> None:
    """Serve it: `python -m tests.adapters.mcp_server.conformance_app`."""
    from pilotage.adapters.fastapi import serve

    app = application()
    serve(app, port=0, extensions=[mcp_extension(app, EXPORTS)], announce=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
