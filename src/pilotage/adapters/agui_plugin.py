"""The plugin `agui`: settings of AG-UI, and the routes of agents that are `@AGUICompatible`.

Outside of its adapter, which only applications that use it import: every application that loads its plugins has
these settings. Without the extra the plugin does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any

from pilotage.adapters import http_settings
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.plugins import is_installed
from pilotage.container.processing import IPostProcessor
from pilotage.environment import Variables
from pilotage.errors import AgentDefinitionError, Problem
from pilotage.values import shared, value

PREFIX = "PILOTAGE_AGUI_"
_ADAPTER = "pilotage.adapters.agui"
_PATHS = ("sse_path", "websocket_path", "http_stream_path")
_SWITCHES = (
    "emit_state_snapshot",
    "messages_snapshot_enabled",
    "history_at_start",
    "emit_reasoning",
    "approval_calls",
    "report_rejections",
    "owns_page_state",
)


def initialize(app: Application) -> None:
    """Add the settings, unless the application has some, and the routes of its agents, if the extra is installed."""
    if not is_installed("ag_ui", "starlette"):
        return
    if not app.contains(AgUiConfig):
        app.add(AgUiConfig.from_environment())
    app.add(AgUiEndpoints(app))


class AgUiEndpoints(IPostProcessor):
    """Post-processor that adds the routes of `@AGUICompatible` agents to the FastAPI and Starlette applications.

    There are none before the adapter, which has the decorator, was imported.
    """

    def __init__(self, app: Application) -> None:
        self._app = app

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Return the paths that two agents share."""
        if _ADAPTER not in sys.modules:
            return ()
        from pilotage.adapters.agui.endpoints import conflicts_in  # noqa: PLC0415 - imported already

        return conflicts_in(graph)

    def post_process(self, pod: object) -> object:
        if _ADAPTER in sys.modules:
            from pilotage.adapters.agui.endpoints import serve_agents  # noqa: PLC0415 - imported already

            serve_agents(self._app, pod)
        return pod


@value
class AgUiLimits:
    """Limits: bytes and depth of an input, the part of it that a model may be shown, and streams.

    `max_given_bytes` bounds state, context, tools and history together; `max_streams` counts all open streams of the
    application, `max_streams_per_principal` those of one principal; `heartbeat_seconds` is the time between two
    heartbeats of a stream.
    """

    max_body_bytes: int = 1_000_000
    max_depth: int = 32
    max_given_bytes: int = 100_000
    max_tools: int = 64
    max_streams: int = 1_000
    max_streams_per_principal: int = 100
    heartbeat_seconds: float = 15.0

    def __post_init__(self) -> None:
        http_settings.reject_wrong_numbers(self, fields(self))


@value
class AgUiConfig:
    """The paths of the three endpoints, which snapshots are sent, which pages may connect, how much may come in.

    `messages_snapshot_enabled` sends the messages of the client and of the run once more when a run has ended,
    `history_at_start` those of the whole thread from the store when one begins. Without `emit_reasoning`
    the reasoning of models is left out. Pages of the server's own origin may always connect, others where
    `allowed_origins` names them. `approval_calls` shows a question also as a call of the tool `hitl_approval`, for
    clients that know no interrupts. With `report_rejections` a rejection in a run of AG-UI is reported to the model
    and the run goes on; otherwise the spec of the agent decides.

    Tools and state of clients are untrusted. `own_page_tools` names those of a page that is the application's own, and
    `owns_page_state` says so of its state: they count as words of the user. A client is believed as far as its
    principal is authenticated, so declare that only where pages of others cannot connect.
    """

    sse_path: str = "/agui"
    websocket_path: str = "/agui/ws"
    http_stream_path: str = "/agui/stream"
    emit_state_snapshot: bool = True
    messages_snapshot_enabled: bool = False
    history_at_start: bool = False
    emit_reasoning: bool = True
    allowed_origins: tuple[str, ...] = ()
    approval_calls: bool = False
    report_rejections: bool = True
    own_page_tools: tuple[str, ...] = ()
    owns_page_state: bool = False
    limits: AgUiLimits = field(default_factory=shared(AgUiLimits))

    def __post_init__(self) -> None:
        origins = http_settings.checked_origins("AgUiConfig.allowed_origins", self.allowed_origins)
        object.__setattr__(self, "allowed_origins", origins)
        object.__setattr__(self, "own_page_tools", tuple(self.own_page_tools))
        for name in _PATHS:
            check_path(f"AgUiConfig.{name}", getattr(self, name))

    @property
    def http(self) -> http_settings.HttpSettings:
        """The settings of the HTTP layer; the depth of inputs is checked where they are parsed, on every transport."""
        limits = self.limits
        return http_settings.HttpSettings(
            max_body_bytes=limits.max_body_bytes,
            # No text is nested deeper than it is long.
            max_body_depth=limits.max_body_bytes,
            max_streams=limits.max_streams,
            max_streams_per_principal=limits.max_streams_per_principal,
            heartbeat_seconds=limits.heartbeat_seconds,
            allowed_origins=self.allowed_origins,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> AgUiConfig:
        """Return the settings in `PILOTAGE_AGUI_*`; others have their defaults.

        Origins in `PILOTAGE_HTTP_ALLOWED_ORIGINS` are allowed as well.

        Raises:
            AgentDefinitionError: a variable has a value that cannot be.
        """
        usual, variables = cls(), Variables(environ, PREFIX)
        of_http = Variables(environ, http_settings.PREFIX)
        given: dict[str, Any] = {name: variables.text(name.upper(), getattr(usual, name)) for name in _PATHS}
        given |= {name: variables.switch(name.upper(), usual=getattr(usual, name)) for name in _SWITCHES}
        return cls(
            **given,
            allowed_origins=(
                *variables.names(http_settings.ALLOWED_ORIGINS),
                *of_http.names(http_settings.ALLOWED_ORIGINS),
            ),
            own_page_tools=variables.names("OWN_PAGE_TOOLS"),
            limits=AgUiLimits(**variables.numbers(fields(AgUiLimits))),
        )


def check_path(name: str, path: str) -> None:
    """Raise AgentDefinitionError for what is no path; the message begins with `name`."""
    if not path.startswith("/") or path.split() != [path]:
        raise AgentDefinitionError(
            f"{name} is {path!r}, which is no path. Begin it with '/', without blanks."
        )
