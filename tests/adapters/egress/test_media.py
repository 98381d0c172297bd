"""Media at addresses are fetched by the guarded client, or refused with the reason."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

import httpx
import pytest

from pilotage.adapters.egress import EgressMedia, EgressPolicy
from pilotage.adapters.egress.client import GuardedTransport
from pilotage.agent import MediaPart
from pilotage.errors import AgentDefinitionError, MediaRefusedError
from pilotage.testing import ScriptedModel, says
from tests.behaviour.bureau import Bureau, started
from tests.media.pictures import png
from tests.media.test_media_in_runs import Viewer, asks, media_of

PLACES = {"pictures.example": ["93.184.216.34"], "inside.example": ["10.0.0.7"]}
POLICY = EgressPolicy(hosts=("pictures.example", "inside.example"))


async def resolve(host: str, port: int) -> Sequence[str]:
    return PLACES[host]


def served(request: httpx.Request) -> httpx.Response:
    match request.url.path:
        case "/cat.png":
            return httpx.Response(200, content=png(), headers={"content-type": "text/html"})
        case "/large":
            return httpx.Response(200, content=bytes(2_000_000))
        case "/away":
            return httpx.Response(302, headers={"location": "https://inside.example/cat.png"})
        case "/page":
            return httpx.Response(200, content=b"MZ\x00")
        case _:
            return httpx.Response(404)


def source() -> EgressMedia:
    transport = GuardedTransport(POLICY, resolve, lambda: httpx.MockTransport(served))
    return EgressMedia(httpx.AsyncClient(transport=transport))


async def test_a_run_gets_the_bytes_at_an_address() -> None:
    bureau, model = Bureau(), ScriptedModel([says("A cat.")])
    async with bureau.process(Viewer, None, bureau.store.blobs, source(), model=model) as runs:
        await started(
            runs, Viewer, asks(MediaPart("image/*", url="https://pictures.example/cat.png?key=s3cret"))
        )
    (shown,) = media_of(model.requests[0].messages[-1])
    assert (shown.media_type, shown.url, b64decode(shown.data or "")) == ("image/png", None, png())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://pictures.example/none?key=s3cret", "status 404"),
        ("https://pictures.example/large", "more than the 1,000,000 bytes"),
        ("https://pictures.example/away", "status 302"),
        ("https://inside.example/cat.png", "'inside.example'"),
        ("https://other.example/cat.png", "the host 'other.example' is not allowed"),
        ("http://pictures.example/cat.png", "the scheme 'http' is not allowed"),
        ("file:///etc/passwd", "cannot be fetched|not allowed"),
        ("data:image/png;base64,AAAA", "cannot be fetched|not allowed"),
        ("https://[::", "no URL|not allowed"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_without_its_query(url: str, why: str) -> None:
    with pytest.raises(MediaRefusedError, match=why) as refused:
        await source().fetch(url, 1_000_000)
    assert "s3cret" not in str(refused.value)


async def test_what_is_there_is_looked_at() -> None:
    bureau = Bureau()
    async with bureau.process(Viewer, None, bureau.store.blobs, source(), model=ScriptedModel([])) as runs:
        with pytest.raises(MediaRefusedError, match="a program"):
            await runs.start(Viewer, asks(MediaPart("image/png", url="https://pictures.example/page")))
        assert not (await runs.list()).runs


def test_a_time_limit_is_positive() -> None:
    with pytest.raises(AgentDefinitionError):
        EgressMedia(httpx.AsyncClient(), seconds=0)
