"""Use case 22: an inbound adapter serves the generator over SSE and WebSocket, item by item, to whom it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from examples.code_assistant.application import code_assistant
from examples.code_assistant.serving import served
from pilotage import Principal
from pilotage.adapters.fastapi import BearerTokens
from pilotage.models import OfflineModel

TOKEN = "a-long-random-token-for-ada"
ADA = {"authorization": f"Bearer {TOKEN}"}
TASK = {"goal": "read notes.md"}


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    (folder / "notes.md").write_text("tea and a cake")
    slowly = OfflineModel(tokens_per_second=100)  # so that there is time to leave
    app = code_assistant(folder, slowly, BearerTokens({TOKEN: Principal("ada")}))
    with TestClient(served(app)) as client:
        yield client


def check(items: list[dict[str, object]]) -> None:
    """A call, the words of the answer one by one, and the answer."""
    kinds = [item["kind"] for item in items]
    assert kinds[0] == "tool"
    assert kinds[-1] == "final"
    assert kinds.count("token") > 5
    assert "workspace.read(notes.md) gave tea and a cake" in str(items[-1])
    words = "".join(str(item["payload"]["text"]) for item in items if item["kind"] == "token")  # type: ignore[index, call-overload]
    assert words.startswith("workspace.read(notes.md) gave tea and a cake")


def test_over_server_sent_events(client: TestClient) -> None:
    with client.stream("POST", "/assistant", json=TASK, headers=ADA) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        told = [line for line in response.iter_lines() if line.startswith("data: ")]
    check([json.loads(line.removeprefix("data: ")) for line in told])


def test_over_a_websocket(client: TestClient) -> None:
    items = []
    with client.websocket_connect("/assistant/ws", headers=ADA) as socket:
        socket.send_json(TASK)
        while not items or items[-1]["kind"] != "final":
            items.append(socket.receive_json())
    check(items)


def test_a_client_that_leaves_does_not_end_the_run(client: TestClient) -> None:
    with client.websocket_connect("/assistant/ws", headers=ADA) as socket:
        socket.send_json(TASK)
        assert socket.receive_json()["kind"] == "tool"
    (run,) = client.get("/runs", headers=ADA).json()["runs"]
    told = client.get(f"/runs/{run['id']}/events", headers=ADA).text  # until the run has ended
    assert "event: run_finished" in told
    assert client.get(f"/runs/{run['id']}", headers=ADA).json()["status"] == "completed"


def test_nobody_else_is_served(client: TestClient) -> None:
    assert client.post("/assistant", json=TASK).status_code == 401
    assert client.post("/agui", content="{}").status_code == 401
    assert client.get("/runs").status_code == 401
    for headers in ({}, {**ADA, "origin": "https://elsewhere.example"}):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/assistant/ws", headers=headers):
            pass


def test_what_is_no_task_starts_nothing(client: TestClient) -> None:
    assert client.post("/assistant", json={"goal": ""}, headers=ADA).status_code == 422
    with client.websocket_connect("/assistant/ws", headers=ADA) as socket:
        socket.send_json({"target": "everything"})
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()
    assert client.get("/runs", headers=ADA).json()["runs"] == []
