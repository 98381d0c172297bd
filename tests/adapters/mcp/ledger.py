"""A server of the tests, without the SDK: a ledger of effects, over standard input and output or HTTP.

`python ledger.py FOLDER [--http=DESCRIPTOR]`. It notes every effect in `FOLDER/effects`, and does at one of its moments what
`FOLDER/fault` says, once: `kill` ends it, `cut` breaks the line, `hang` never answers. A moment is `TOOL:before` (its
effect), `TOOL:after` or `TOOL:look` (at a task). `FOLDER/era` may be `legacy`. What it tells of its state is signed with
a key of this process, unless `FOLDER/key` has one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
KEY = "io.pilotage/idempotency-key"
HONOURS = "io.pilotage/honours-idempotency-key"
AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "look", "annotations": {"readOnlyHint": True}},
    {"name": "put", "annotations": {"idempotentHint": True, "destructiveHint": False}},
    {"name": "pay"},
    {"name": "charge", "_meta": {HONOURS: True}},
    {"name": "book"},
    {"name": "export"},
]


class CutError(Exception):
    """The line breaks here."""


class Ledger:
    """What the server does; its effects are in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        key = folder / "key"
        self.key = key.read_bytes() if key.exists() else os.urandom(16)
        self.lock = threading.RLock()
        self.write: Any = None
        self.answers: dict[str, Any] = {}
        self.cancelled: set[Any] = set()

    @property
    def is_legacy(self) -> bool:
        return (self.folder / "era").exists()

    def handle(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a message; None where there is none."""
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            if method == "notifications/cancelled":
                (self.folder / "cancelled").write_text(json.dumps(params))
            return None
        if method is None:
            self.answers[message["id"]] = message.get("result") or {"action": "cancel"}
            return None
        try:
            result = self.result(method, params, message["id"])
        except LookupError as error:
            return {
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": error.args[0], "message": error.args[1]},
            }
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def result(self, method: str, params: dict[str, Any], number: Any) -> dict[str, Any]:
        capabilities = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        if method == "server/discover" and not self.is_legacy:
            return {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": capabilities,
                "ttlMs": 0,
                "cacheScope": "private",
            }
        if method == "initialize" and self.is_legacy:
            return {
                "protocolVersion": LEGACY,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ledger", "version": "1"},
            }
        if method == "tools/list":
            listed = self.folder / "tools"
            tools = json.loads(listed.read_text()) if listed.exists() else TOOLS
            base = {"description": "A tool of the ledger.", "inputSchema": AMOUNT}
            more = {} if self.is_legacy else {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            return {"tools": [{**base, **each} for each in tools], **more}
        if method == "tools/call":
            return self.call(params, number)
        if method in ("tasks/get", "tasks/update", "tasks/cancel"):
            return self.task(method, params)
        raise LookupError(-32601, "Method not found")

    def call(self, params: dict[str, Any], number: Any) -> dict[str, Any]:
        name, arguments = params["name"], params.get("arguments") or {}
        key = (params.get("_meta") or {}).get(KEY, "")
        if name == "book":
            return self.book(params, key, number)
        if name == "export":
            return self.begin_task(arguments, key)
        if name == "look":
            self.moment("look:before")
            self.note("look", key, arguments, is_effect=False)
            self.moment("look:after")
            return text(f"looked {arguments['amount']}")
        if name == "charge" and (known := self.known(key)) is not None:
            return text(known)
        self.effect(name, key, arguments)
        return text(f"{name} {arguments['amount']}")

    def effect(self, name: str, key: str, arguments: dict[str, Any]) -> None:
        self.moment(f"{name}:before")
        self.note(name, key, arguments, is_effect=True)
        self.moment(f"{name}:after")

    def book(self, params: dict[str, Any], key: str, number: Any) -> dict[str, Any]:
        """Ask for a name first; the state is what this process has signed."""
        arguments = params["arguments"]
        question = {"message": f"Who books {arguments['amount']}?", "requestedSchema": NAME}
        if self.is_legacy:
            given = self.ask(question)
        elif "requestState" not in params:
            self.moment("book:before")
            return {
                "resultType": "input_required",
                "inputRequests": {"who": {"method": "elicitation/create", "params": question}},
                "requestState": self.signed(str(arguments["amount"])),
            }
        else:
            if params["requestState"] != self.signed(str(arguments["amount"])):
                raise LookupError(-32602, "Invalid or expired requestState")
            given = params["inputResponses"]["who"]
        if given["action"] != "accept":
            return text(f"nobody books ({given['action']})")
        self.effect("book", key, {**arguments, **given["content"]})
        return text(f"booked for {given['content']['name']}")

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        asked = f"q{uuid.uuid4().hex}"
        self.moment("book:before")
        self.write({"jsonrpc": "2.0", "id": asked, "method": "elicitation/create", "params": question})
        while asked not in self.answers:
            time.sleep(0.005)
        return dict(self.answers[asked])

    def begin_task(self, arguments: dict[str, Any], key: str) -> dict[str, Any]:
        self.moment("export:before")
        self.note("export", key, arguments, is_effect=True)
        task = {"id": f"t{uuid.uuid4().hex}", "looks": 0, "arguments": arguments, "answer": None}
        self.store(task)
        self.moment("export:after")
        return {"resultType": "task", **shape(task, "working")}

    def task(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        path = self.folder / "tasks" / params["taskId"]
        if not path.exists():
            raise LookupError(-32602, "unknown task")
        task = json.loads(path.read_text())
        if method == "tasks/update":
            self.moment("export:update")
            task["answer"] = params["inputResponses"]["fine"]["content"]["name"]
            self.store(task)
            return {"resultType": "complete"}
        if method == "tasks/cancel":
            (self.folder / "cancelled").write_text(json.dumps(params))
            return {"resultType": "complete"}
        self.moment("export:look")
        task["looks"] += 1
        self.store(task)
        if task["looks"] < 2:
            return {"resultType": "complete", **shape(task, "working")}
        if task["answer"] is None:
            question = {"message": "Is that fine?", "requestedSchema": NAME}
            requests = {"fine": {"method": "elicitation/create", "params": question}}
            return {"resultType": "complete", **shape(task, "input_required"), "inputRequests": requests}
        done = text(f"exported {task['arguments']['amount']} for {task['answer']}")
        return {"resultType": "complete", **shape(task, "completed"), "result": done}

    def store(self, task: dict[str, Any]) -> None:
        (self.folder / "tasks").mkdir(exist_ok=True)
        (self.folder / "tasks" / task["id"]).write_text(json.dumps(task))

    def signed(self, state: str) -> str:
        return f"{state}.{hmac.new(self.key, state.encode(), hashlib.sha256).hexdigest()}"

    def known(self, key: str) -> str | None:
        for line in self.lines():
            if line["tool"] == "charge" and line["key"] == key:
                return f"charge {line['arguments']['amount']}"
        return None

    def lines(self) -> list[dict[str, Any]]:
        path = self.folder / "effects"
        return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []

    def note(self, name: str, key: str, arguments: dict[str, Any], *, is_effect: bool) -> None:
        with self.lock, (self.folder / ("effects" if is_effect else "looks")).open("a") as file:
            file.write(json.dumps({"tool": name, "key": key, "arguments": arguments}) + "\n")

    def moment(self, moment: str) -> None:
        """Do what the test wants at this moment, once."""
        fault = self.folder / "fault"
        with self.lock:
            wanted = fault.read_text().split() if fault.exists() else []
            if len(wanted) != 2 or wanted[1] != moment:
                return
            fault.unlink()
            (self.folder / "reached").write_text(moment)
        if wanted[0] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted[0] == "hang":
            threading.Event().wait()
        raise CutError


def text(words: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def shape(task: dict[str, Any], status: str) -> dict[str, Any]:
    return {
        "taskId": task["id"],
        "status": status,
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": None,
        "pollIntervalMs": 1,
    }


def over_stdio(ledger: Ledger) -> None:
    out = sys.stdout.buffer
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message).encode() + b"\n")
            out.flush()

    def answer(message: dict[str, Any]) -> None:
        try:
            reply = ledger.handle(message)
        except CutError:
            os.close(1)
            os._exit(0)
        if reply is not None:
            write(reply)

    ledger.write = write
    for line in sys.stdin.buffer:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


def over_http(ledger: Ledger, descriptor: int) -> None:
    """Serve at the listening socket of another process, which keeps the port while this one is dead."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                reply = ledger.handle(json.loads(body))
            except CutError:
                self.connection.close()
                return
            sent = b"" if reply is None else json.dumps(reply).encode()
            self.send_response(202 if reply is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, *_: Any) -> None:
            return

    listening = socket.socket(fileno=descriptor)
    server = ThreadingHTTPServer(listening.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    served = Ledger(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        over_http(served, int(sys.argv[2].partition("=")[2]))
    else:
        over_stdio(served)
