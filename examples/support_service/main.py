"""Talk to the support service as its two tenants do, over HTTP.

Run it: python examples/support_service/main.py            (talks to itself)
        python examples/support_service/main.py --serve    (listens on http://127.0.0.1:8000, needs pilotage[serve])
"""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory
from typing import Any

from service import SHOPS, api
from starlette.testclient import TestClient

ADA = {"authorization": "Bearer token-of-ada"}
BOB = {"authorization": "Bearer token-of-bob"}


def ask(client: TestClient, who: dict[str, str], text: str) -> dict[str, Any]:
    """Start a run, wait until it ends or asks a question, and return how it stands."""
    run = client.post("/runs", json={"agent": "Support", "input": text}, headers=who).json()
    return finish(client, who, run["id"])


def finish(client: TestClient, who: dict[str, str], run_id: str) -> dict[str, Any]:
    """Read the events of a run to their end, and return its result."""
    client.get(f"/runs/{run_id}/events", headers=who)
    result: dict[str, Any] = client.get(f"/runs/{run_id}/result", headers=who).json()
    return result


def approve(client: TestClient, who: dict[str, str], run_id: str) -> dict[str, Any]:
    """Answer the one open question of a run with yes, and return how the run ended."""
    (question,) = client.get(f"/runs/{run_id}/questions", headers=who).json()["questions"]
    print(f"{question['prompt']} {question['arguments']}")
    answer = {"request_id": question["id"], "decision": "approve"}
    assert client.post(f"/runs/{run_id}/answers", json=answer, headers=who).status_code == 202
    client.post(f"/runs/{run_id}/resume", headers=who)
    return finish(client, who, run_id)


def main() -> None:
    """Two tenants, two questions, a refund."""
    with TestClient(api) as client:
        assert client.get("/runs").status_code == 401
        print(ask(client, ADA, "list orders")["output"])
        assert "B-3" not in ask(client, ADA, "list orders")["output"]
        waiting = ask(client, ADA, "refund A-17")
        run = waiting["run"]
        assert (run["status"], SHOPS["acme"]) == ("interrupted", {"A-17": 12.50, "A-18": 5.0})
        assert client.get(f"/runs/{run['id']}", headers=BOB).status_code == 404
        done = approve(client, ADA, run["id"])
        print(done["output"])
        assert (done["run"]["status"], SHOPS["acme"]) == ("completed", {"A-18": 5.0})
    print("demo: ok")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        from uvicorn import run

        run(api)
    else:
        with TemporaryDirectory() as folder:
            os.chdir(folder)  # the runs are in an SQLite file there
            main()
