"""What a client of the HTTP routes and somebody at the command line get to see of stored runs, as texts to compare."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from unittest import mock

import httpx
from fastapi import FastAPI

from pilotage import AgentStatus, Application, Principal
from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.adapters.sealing.key_file import KEY_FILE
from pilotage.adapters.sqlalchemy.settings import URL
from pilotage.cli.main import main
from pilotage.runtime import AgentRuns
from tests.golden.place import Place

TOKEN = "token-of-ada-0123456789"
OF_A_RUN = ("", "/result", "/questions", "/evidence", "/verification")
GENERAL_COMMANDS = (["runs", "list", "--json", "--limit", "200"], ["audit", "heads"])
COMMANDS = (
    ["runs", "show", "RUN", "--json"],
    ["runs", "questions", "RUN", "--json"],
    ["runs", "events", "RUN", "--json"],
    ["runs", "verify", "RUN", "--json"],
)
LIVE = (AgentStatus.ACTIVE, AgentStatus.CANCELLING)
"""Runs in these states have no owner here: a stream of their events would wait for one."""


class Reader:
    """Reads every route that shows stored things."""

    def __init__(self, client: httpx.AsyncClient, settled: frozenset[str]) -> None:
        self._client = client
        self._settled = settled

    async def answers(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return status and body of each route, by its path; an error begins with *error*."""
        paths = ["/runs?limit=200", *(f"/runs/{each}{end}" for each in run_ids for end in OF_A_RUN)]
        paths += [f"/runs/{each}/events" for each in run_ids if each in self._settled]
        return {f"GET {path}": await self._read(path) for path in paths}

    async def _read(self, path: str) -> str:
        answer = await self._client.get(path)
        return f"{'error ' if answer.is_error else ''}{answer.status_code} {answer.text}"


@asynccontextmanager
async def reader(
    app: Application, tenant: str = "default", settled: frozenset[str] | None = None
) -> AsyncIterator[Reader]:
    """A client of the routes of an application that has started; without `settled` it asks which runs are."""
    api = FastAPI()
    api.include_router(agent_routes(app, principal=BearerTokens({TOKEN: Principal("ada", tenant)})))
    headers = {"authorization": f"Bearer {TOKEN}"}
    if settled is None:
        page = await app.get(AgentRuns).list(limit=200, principal=Principal("ada", tenant))
        settled = frozenset(state.id for state in page.runs if state.status not in LIVE)
    transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        yield Reader(client, settled)


async def printed(place: Place, run_ids: Sequence[str]) -> dict[str, str]:
    """Return what the commands that show stored things print, by their words, each in an application of its own."""
    words = [
        *GENERAL_COMMANDS,
        *([run if each == "RUN" else each for each in w] for run in run_ids for w in COMMANDS),
    ]
    return {" ".join(each): await asyncio.to_thread(_call, place, each) for each in words}


def _call(place: Place, words: Sequence[str]) -> str:
    out, around = StringIO(), {URL: place.settings.url, KEY_FILE: str(place.key_file), "PILOTAGE_AS": "ada"}
    with mock.patch.dict(os.environ, around), redirect_stdout(out), redirect_stderr(out):
        try:
            code = main(list(words))
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            return f"error raw {type(error).__name__}: {error}"
    return f"{'error ' if code else ''}{code} {out.getvalue()}"


def is_raw(answer: str) -> bool:
    """Return whether an answer is a raw exception, and no named error."""
    return answer.startswith(("error 5", "error raw")) or "Traceback" in answer
