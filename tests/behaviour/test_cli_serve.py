"""`pilotage serve` and `pilotage agui-stdio`: an application for clients, as real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.till import Till

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


@contextmanager
def served(till: Till, *words: str) -> Iterator[str]:
    """The address at which the application is served."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "pilotage.cli.main", "serve", "till:app", "--port", "0", *words],
        cwd=till.folder,
        env={**os.environ, "ADA_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        said = ""
        while not (address := re.search(r"http://127\.0\.0\.1:\d+", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        yield address[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=240) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()


def asked(address: str, body: object = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{address}/runs", data, {"content-type": "application/json", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=240) as answer:  # noqa: S310 - our own server
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_this_machine_is_served_and_the_pages_of_others_are_not(till: Till) -> None:
    with served(till) as address:
        status, run = asked(address, {"agent": "desk", "input": "balance of bob"})
        assert (status, run["agent_type"]) == (201, "desk")
        assert asked(address)[0] == 200
        assert asked(address, Origin="http://evil.example")[0] in (401, 403)
        assert asked(address, Host="evil.example")[0] in (401, 403)


def test_a_token_lets_somebody_in_and_says_who_they_are(till: Till) -> None:
    with served(till, "--token", "ada@acme=ADA_TOKEN") as address:
        assert asked(address)[0] == 401
        status, page = asked(address, Authorization=f"Bearer {TOKEN}")
        assert (status, page["runs"]) == (200, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--host", "0.0.0.0"), "requests are not authenticated"),  # noqa: S104 - it is refused
        (("--host", "example.org"), "requests are not authenticated"),
        (("--token", "ada"), "--token 'ada': write WHO=VARIABLE, for example ada@acme=ADA_TOKEN."),
        (("--allow-origin", "localhost:5173"), "--allow-origin has 'localhost:5173', which is no origin."),
        (("--token", "ada=NO_SUCH_VARIABLE"), "the environment variable 'NO_SUCH_VARIABLE' is not set."),
    ],
)
def test_what_would_let_anybody_in_is_refused(till: Till, words: tuple[str, ...], message: str) -> None:
    called = till.call("serve", "till:app", *words)
    assert called.code == 2
    assert message in called.err


def test_a_page_of_an_allowed_origin_is_let_in(till: Till) -> None:
    page = "http://localhost:5173"
    with served(till, "--allow-origin", f"{page}/") as address:
        assert asked(address, Origin=page)[0] == 200
        status, refused = asked(address, Origin="http://localhost:5174")
        assert (status, "--allow-origin http://localhost:5174" in refused["detail"]) == (403, True)


def test_it_says_what_is_served(till: Till) -> None:
    words = [
        sys.executable,
        "-m",
        "pilotage.cli.main",
        "serve",
        "--port",
        "0",
        "--token",
        "ada@acme=ADA_TOKEN",
    ]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*words, "--allow-origin", "http://localhost:5173"],
        cwd=till.folder,
        env={
            **os.environ,
            "ADA_TOKEN": TOKEN,
            "PILOTAGE_APP": "till:app",
            "PILOTAGE_AGUI_ALLOWED_ORIGINS": "http://localhost:5174",
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline().rstrip() for _ in range(8)]
        finally:
            process.terminate()
    (address,) = re.findall(r"http://127\.0\.0\.1:\d+", said[0])
    assert said == [
        f"application till on {address}",
        "  agents    desk, clerk, packer, parrot, cashier, boss",
        f"  runs      {address}/runs",
        f"  pages     {address}/docs",
        "  AG-UI     no agent has @AGUICompatible",
        "  database  sqlite:///.pilotage/pilotage.db",
        "  model     OfflineModel",
        "  let in    ada@acme, by their tokens; pages of http://localhost:5173, http://localhost:5174",
    ]


def test_a_taken_port_is_one_line(till: Till) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        called = till.call("serve", "till:app", "--port", str(port))
    assert called.code == 2
    assert called.err == (
        f"port {port} of 127.0.0.1 is not free (Address already in use). Choose another one, for example --port "
        f"{port + 1}, or --port 0 for any.\n"
    )


@pytest.mark.parametrize(
    "words", [("check",), ("check", "till:app"), ("check", "--app", "till:app"), ("check", "till:Desk")]
)
def test_one_rule_names_the_application_of_every_command(till: Till, words: tuple[str, ...]) -> None:
    assert till.call(*words).out == "application 'till': no problems\n"


def test_an_application_that_is_not_named_or_named_twice_is_refused(till: Till) -> None:
    alone = {"PILOTAGE_APP": ""}
    for command in ("serve", "worker", "check", "describe"):
        called = till.call(command, environ=alone)
        assert (called.code, "no application is named. Write MODULE:NAME" in called.err) == (2, True)
        twice = till.call(command, "till:app", "--app", "till:app")
        assert (twice.code, "named twice" in twice.err) == (2, True)


def test_an_agent_talks_ag_ui_over_a_pair_of_pipes(till: Till) -> None:
    given = {
        "threadId": "thread-1",
        "runId": "run-1",
        "messages": [{"id": "m1", "role": "user", "content": "good day"}],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    done = subprocess.run(
        [sys.executable, "-m", "pilotage.cli.main", "agui-stdio", "till:Parrot"],
        cwd=till.folder,
        input=f"{json.dumps(given)}\nnonsense\n",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["type"] for each in events] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
        "RUN_ERROR",
    ]
    assert events[2]["delta"] == "good day"
