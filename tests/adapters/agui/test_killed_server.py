"""A server that is killed in the middle of a stream and started again: the thread goes on at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from tests.adapters.agui.samples import said
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import Given, frames_in

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the /proc of Linux")
ROOT = Path(__file__).parents[3]


@contextmanager
def server(folder: Path, does: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """A server over the database of a folder, and a client of it."""
    environ = {**os.environ, "PILOTAGE_DATABASE_URL": f"sqlite:///{folder / 'runs.db'}"}
    command = [sys.executable, "-m", "tests.adapters.agui.mortal_server", does]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE) as process:  # noqa: S603
        try:
            assert process.stderr is not None
            while b"Uvicorn running" not in (line := process.stderr.readline()):
                assert line, "the server did not start"
            address = line.split()[4].decode()
            with httpx.Client(base_url=address, timeout=240) as client:
                yield client, process
        finally:
            process.kill()
            process.wait(240)


def first_word(client: httpx.Client, given: Given, streams: ExitStack) -> str:
    """Read the first word of a stream, which stays open; return the id of its frame."""
    last = ""
    stream = streams.enter_context(client.stream("POST", "/holder", json=given))
    for line in stream.iter_lines():
        last = line.removeprefix("id: ") if line.startswith("id: ") else last
        if '"Hold"' in line:
            break
    return last


@pytest.mark.slow
def test_threads_go_on_at_once_after_a_kill_in_mid_stream(tmp_path: Path) -> None:
    """One with a new message, another one by the documented way back."""
    with server(tmp_path, "hold") as (client, process), ExitStack() as streams:
        first_word(client, said("Hello"), streams)
        back = said("Hello", threadId="thread-2", runId="client-9")
        last = first_word(client, back, streams)
        process.kill()
        process.wait(240)
    with server(tmp_path, "answer") as (client, _):
        frames = frames_in(client.post("/holder", json=said("And?", runId="client-2")).text)
        again = client.post("/holder", json=back, headers={"last-event-id": last})
    assert fault_in(frames) is None
    assert next(frame["name"] for frame in frames if frame["type"] == "CUSTOM") == "run_taken_up"
    # The second run has the conversation of the first.
    assert frames[-1]["result"] == "Hold on 2."
    assert frames_in(again.text)[-1]["result"] == "Hold on 1."
