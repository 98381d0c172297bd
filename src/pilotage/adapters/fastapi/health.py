"""`/healthz` and `/readyz`: whether the process lives, and whether it can serve; both without authentication."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Match

from pilotage.adapters.asgi.problems import problem_response
from pilotage.adapters.fastapi.description import problem_responses
from pilotage.adapters.fastapi.routing import json_response
from pilotage.agent.principal import LOCAL
from pilotage.container.application import Application
from pilotage.errors import ApplicationStateError, PilotageError
from pilotage.ids import IClock, SystemClock
from pilotage.inbound.limits import OpenStreams
from pilotage.inbound.problems import RunStoreUnreachableError, ServerStoppingError
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.runs import AgentRuns

HEALTH, READINESS = "/healthz", "/readyz"
_LOG = logging.getLogger(__name__)
_KNOWN_SECONDS = 1.0
_WAIT_SECONDS = 5.0


class HealthView(BaseModel):
    """The state of the server."""

    status: str = "ok"


class Readiness:
    """Whether the store of runs answers; asked at most once a second, however many requests there are."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._asked_at = float("-inf")
        self._problem: PilotageError | None = None
        self._asking = asyncio.Lock()

    async def problem(self) -> PilotageError | None:
        """Return why requests cannot be served now."""
        if not self._app.is_started:
            return ApplicationStateError("the application is not started.")
        if OpenStreams.of(self._app).is_closing:
            return ServerStoppingError()
        clock = self._app.get_or_none(IClock) or SystemClock()
        async with self._asking:
            if clock.monotonic() - self._asked_at >= _KNOWN_SECONDS:
                self._problem = await self._of_store()
                self._asked_at = clock.monotonic()
        return self._problem

    async def _of_store(self) -> PilotageError | None:
        runs = self._app.get_or_none(AgentRuns)
        if runs is None:
            return None
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await runs.list(limit=1, principal=LOCAL)
        except (Exception, StoreUnavailable) as error:  # noqa: BLE001 - whatever it is, requests would fail as well
            _LOG.warning("the store of runs does not answer: %s", type(error).__name__)
            return RunStoreUnreachableError()
        return None


def add_health(api: FastAPI, app: Application) -> None:
    """Add both routes, except where the application has a route of its own at the place."""
    readiness = Readiness(app)

    async def healthz() -> Response:
        """Return 200 as long as the process answers requests: for liveness probes."""
        return json_response(HealthView())

    async def readyz() -> Response:
        """Return 200 while runs can be served: for readiness probes and load balancers."""
        problem = await readiness.problem()
        return json_response(HealthView()) if problem is None else problem_response(problem)

    routes: tuple[tuple[str, Any, Any], ...] = (
        (HEALTH, healthz, {}),
        (READINESS, readyz, problem_responses(503)),
    )
    for path, endpoint, responses in routes:
        if not _is_taken(api, path):
            api.add_api_route(
                path,
                endpoint,
                tags=["health"],
                operation_id=endpoint.__name__,
                response_model=HealthView,
                responses=responses,
            )


def _is_taken(api: FastAPI, path: str) -> bool:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": [], "root_path": ""}
    return any(route.matches({**scope})[0] is Match.FULL for route in api.routes)
