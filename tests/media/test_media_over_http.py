"""Media over HTTP: uploaded before a run, attached to it, downloaded from it; each within its tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from pilotage import IAgentModel
from pilotage.adapters.fastapi import HttpSettings, agent_routes
from pilotage.testing import ScriptedModel, calls, says
from tests.adapters.fastapi.harbour import ADA, EVE, PEOPLE
from tests.behaviour.bureau import Bureau
from tests.media.pictures import png
from tests.media.test_media_in_runs import CAT, Viewer, digest_of


@asynccontextmanager
async def gallery(model: IAgentModel) -> AsyncIterator[httpx.AsyncClient]:
    bureau = Bureau()
    async with bureau.process(Viewer, None, bureau.store.blobs, model=model) as runs:
        api = FastAPI()
        settings = HttpSettings(max_body_bytes=1_000, max_upload_bytes=5_000)
        api.include_router(
            agent_routes(runs.services.app, principal=PEOPLE, settings=settings), prefix="/api"
        )
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=ADA) as client:
            yield client


async def finished(client: httpx.AsyncClient, **body: object) -> str:
    answer = await client.post("/api/runs", json={"agent": "viewer", "input": "What is this?", **body})
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["id"]
    await client.get(f"/api/runs/{run_id}/events")
    return run_id


async def test_an_upload_is_attached_and_downloaded() -> None:
    large = png(note=b"x" * 2_000)
    model = ScriptedModel([calls("photograph", {"count": 7}), says("A cat.")])
    async with gallery(model) as client:
        headers = {"content-type": "image/jpeg"}
        uploaded = await client.post(
            "/api/media", params={"name": "k\u00e4t.png"}, content=large, headers=headers
        )
        assert uploaded.status_code == 201, uploaded.text
        part = uploaded.json()
        assert part == {
            "media_type": "image/png",
            "digest": digest_of(large),
            "size": len(large),
            "name": "kät.png",
        }
        run_id = await finished(client, attachments=[part])
        found = await client.get(
            f"/api/runs/{run_id}/media/{part['digest']}", params={"name": 'a "cat"\n.png'}
        )
        photo = await client.get(f"/api/runs/{run_id}/media/{digest_of(png(note=b'7'))}")
    assert (found.status_code, found.content, photo.content) == (200, large, png(note=b"7"))
    assert found.headers["content-type"] == "image/png"
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22cat%22%0A.png"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]


async def test_media_of_another_tenant_or_another_run_are_not_found() -> None:
    async with gallery(ScriptedModel([says("A cat."), says("Nothing.")])) as client:
        part = (await client.post("/api/media", params={"name": " "}, content=CAT)).json()
        run_id, other = await finished(client, attachments=[part]), await finished(client)
        path = f"/media/{part['digest']}"
        assert (await client.get(f"/api/runs/{run_id}{path}")).status_code == 200
        assert (await client.get(f"/api/runs/{other}{path}")).json()["code"] == "media_not_found"
        assert (await client.get(f"/api/runs/{run_id}{path}", headers=EVE)).json()["code"] == "run_not_found"
        body = {"agent": "viewer", "input": "Look.", "attachments": [part]}
        stolen = await client.post("/api/runs", json=body, headers=EVE)
    assert (stolen.status_code, stolen.json()["code"]) == (404, "media_not_found")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 415, "media_broken"),
        (CAT[:40], 415, "media_broken"),
        (b"<svg onload='x()'></svg>", 415, "media_type_refused"),
        (b"PK\x03\x04", 415, "media_type_refused"),
        (png(100_000, 100_000), 413, "media_too_large"),
        (bytes(5_001), 413, "body_too_large"),
    ],
)
async def test_what_is_not_taken_is_refused_with_its_reason(content: bytes, status: int, code: str) -> None:
    async with gallery(ScriptedModel([])) as client:
        answer = await client.post("/api/media", content=content, headers={"content-type": "image/png"})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert (
            await client.post("/api/media", content=CAT, headers={"authorization": ""})
        ).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"input": {"a": 1}, "attachments": [{"digest": "0" * 64}]}, 422),
        ({"input": "Look.", "attachments": [{"digest": "0" * 64}]}, 404),
        ({"input": "Look.", "attachments": [{"digest": "../../etc"}]}, 422),
    ],
)
async def test_attachments_that_are_none_are_refused(body: dict[str, object], status: int) -> None:
    async with gallery(ScriptedModel([])) as client:
        answer = await client.post("/api/runs", json={"agent": "viewer", **body})
        assert answer.status_code == status, answer.text
