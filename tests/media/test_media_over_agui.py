"""Pictures of an AG-UI client reach the model; those that are not taken are refused in the stream."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from pilotage.adapters.agui.run_input import run_input_of, with_history
from pilotage.testing import ScriptedModel, says
from tests.adapters.agui.bank import ask
from tests.adapters.agui.samples import ag_ui_input
from tests.behaviour.bureau import Bureau
from tests.media.pictures import png
from tests.media.test_media_in_runs import CAT, Viewer, media_of


def image(content: bytes, media_type: str = "image/jpeg") -> dict[str, Any]:
    source = {"type": "data", "value": b64encode(content).decode(), "mimeType": media_type}
    return {"type": "image", "source": source}


def sent(*content: dict[str, Any], earlier: list[dict[str, Any]] | None = None) -> Any:
    messages = [*(earlier or ()), {"id": "u2", "role": "user", "content": list(content)}]
    return ag_ui_input(None, messages=messages)


@pytest.mark.parametrize("text", ["What is this?", None])
async def test_a_picture_with_or_without_words_reaches_the_model(text: str | None) -> None:
    bureau, model = Bureau(), ScriptedModel([says("A cat.")])
    words = [] if text is None else [{"type": "text", "text": text}]
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        frames = await ask(runs.services.app, sent(*words, image(CAT)), Viewer)
    assert frames[-1]["type"] == "RUN_FINISHED"
    question = model.requests[0].messages[-1]
    (shown,) = media_of(question)
    assert (shown.media_type, b64decode(shown.data or "")) == ("image/png", CAT)
    assert question.text == (text or "See what is attached.")


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (image(b"<svg onload='x()'/>"), "media_type_refused"),
        (image(CAT[:50]), "media_broken"),
        (image(png(90_000, 90_000)), "media_too_large"),
        (
            {"type": "image", "source": {"type": "url", "value": "https://inside.example/a.png"}},
            "media_type_refused",
        ),
    ],
)
async def test_what_is_not_taken_is_refused_in_the_stream(part: dict[str, Any], code: str) -> None:
    bureau = Bureau()
    async with bureau.process(Viewer, None, bureau.store.blobs, model=ScriptedModel([])) as runs:
        frames = await ask(runs.services.app, sent({"type": "text", "text": "Look."}, part), Viewer)
        assert not (await runs.list()).runs
    assert (frames[-1]["type"], frames[-1]["code"]) == ("RUN_ERROR", code)


def test_earlier_pictures_of_a_client_are_named() -> None:
    earlier = [{"id": "u1", "role": "user", "content": [{"type": "text", "text": "First."}, image(CAT)]}]
    given = sent({"type": "text", "text": "And?"}, earlier=earlier)
    (pack,) = with_history(run_input_of(given), given).context.packs
    assert pack.content == "user: First. [image, not shown again]"
