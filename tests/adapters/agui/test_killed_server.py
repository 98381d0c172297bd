"""A server that is killed in the middle of a stream and started again: the thread goes on at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.adapters.agui.samples import said
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import frames_in

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux")
ROOT = Path(__file__).parents[3]


@contextmanager
def server(folder: Path, does: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """A server over the database of a folder, and a client of it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, "PILOTAGE_DATABASE_URL": f"sqlite:///{folder / 'runs.db'}"}
    command = [sys.executable, "-m", "tests.adapters.agui.mortal_server", str(port), does]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE) as process:  # noqa: S603
        try:
            assert process.stderr is not None
            while b"Uvicorn running" not in (line := process.stderr.readline()):
                assert line, "the server did not start"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                yield client, process
        finally:
            process.kill()
            process.wait(20)


def killed_in_mid_stream(folder: Path) -> str:
    """Kill a server when its client has the first word; return the id of that frame."""
    last = ""
    with (
        server(folder, "hold") as (client, process),
        client.stream("POST", "/holder", json=said("Hello")) as stream,
    ):
        for line in stream.iter_lines():
            last = line.removeprefix("id: ") if line.startswith("id: ") else last
            if '"Hold"' in line:
                break
        process.kill()
        process.wait(20)
    return last


def test_a_new_message_takes_the_run_up_and_is_answered_in_the_same_stream(tmp_path: Path) -> None:
    killed_in_mid_stream(tmp_path)
    with server(tmp_path, "answer") as (client, _):
        frames = frames_in(client.post("/holder", json=said("And?", runId="client-2")).text)
    assert fault_in(frames) is None
    assert next(frame["name"] for frame in frames if frame["type"] == "CUSTOM") == "run_taken_up"
    # The second run has the conversation of the first.
    assert frames[-1]["result"] == "Hold on 2."


def test_the_documented_way_back_goes_on_at_once(tmp_path: Path) -> None:
    last = killed_in_mid_stream(tmp_path)
    with server(tmp_path, "answer") as (client, _):
        answer = client.post("/holder", json=said("Hello"), headers={"last-event-id": last})
    assert frames_in(answer.text)[-1]["result"] == "Hold on 1."
