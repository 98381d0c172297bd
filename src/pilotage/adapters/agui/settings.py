"""Settings of AG-UI: paths, allowed origins, limits, snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field

from pilotage.adapters.asgi.origins import checked_origins
from pilotage.adapters.asgi.settings import HttpSettings, numbers_in, origins_in
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import shared, value

PREFIX = "PILOTAGE_AGUI_"
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@value
class AgUiLimits:
    """Limits: bytes and depth of an input, what of it a model may be shown, and streams.

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
        reject_not_positive(self, **{name: getattr(self, name) for name in _NUMBERS})


_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "max_body_bytes": int,
    "max_depth": int,
    "max_given_bytes": int,
    "max_tools": int,
    "max_streams": int,
    "max_streams_per_principal": int,
    "heartbeat_seconds": float,
}


@value
class AgUiConfig:
    """The paths of the three endpoints, which snapshots are sent, which pages may connect, how much may come in.

    `messages_snapshot_enabled` sends the whole conversation once more when a run has ended. Pages of the server's own
    origin may always connect, others where `allowed_origins` names them.
    """

    sse_path: str = "/agui"
    websocket_path: str = "/agui/ws"
    http_stream_path: str = "/agui/stream"
    emit_state_snapshot: bool = True
    messages_snapshot_enabled: bool = False
    allowed_origins: tuple[str, ...] = ()
    limits: AgUiLimits = field(default_factory=shared(AgUiLimits))

    def __post_init__(self) -> None:
        origins = checked_origins("AgUiConfig.allowed_origins", self.allowed_origins)
        object.__setattr__(self, "allowed_origins", origins)
        for name in ("sse_path", "websocket_path", "http_stream_path"):
            check_path(f"AgUiConfig.{name}", getattr(self, name))

    @property
    def http(self) -> HttpSettings:
        """The settings of the HTTP layer; the depth of inputs is checked where they are parsed, on every transport."""
        limits = self.limits
        return HttpSettings(
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
        """The settings in `PILOTAGE_AGUI_*`; what is not set there is as usual.

        Raises:
            AgentDefinitionError: a variable has a value that cannot be.
        """
        usual = cls()
        return cls(
            _text(environ, "SSE_PATH", usual.sse_path),
            _text(environ, "WEBSOCKET_PATH", usual.websocket_path),
            _text(environ, "HTTP_STREAM_PATH", usual.http_stream_path),
            _switch(environ, "EMIT_STATE_SNAPSHOT", usual.emit_state_snapshot),
            _switch(environ, "MESSAGES_SNAPSHOT_ENABLED", usual.messages_snapshot_enabled),
            origins_in(environ, PREFIX),
            AgUiLimits(**numbers_in(environ, PREFIX, _NUMBERS)),
        )


def check_path(name: str, path: str) -> None:
    """Refuse what is no path.

    Raises:
        AgentDefinitionError: it is none; the message begins with `name`.
    """
    if not path.startswith("/") or any(character.isspace() for character in path):
        raise AgentDefinitionError(
            f"{name} is {path!r}, which is no path. Begin it with '/', without blanks."
        )


def _text(environ: Mapping[str, str], name: str, usual: str) -> str:
    return environ.get(PREFIX + name, "").strip() or usual


def _switch(environ: Mapping[str, str], name: str, usual: bool) -> bool:
    word = _text(environ, name, str(usual)).lower()
    if word not in _SWITCH:
        raise AgentDefinitionError(f"{PREFIX}{name} is {word!r}: write true or false.")
    return _SWITCH[word]
