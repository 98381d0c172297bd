"""Where AG-UI is served, to whom, how much may come in, and what its clients are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import shared, value

PREFIX = "PILOTAGE_AGUI_"
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@value
class AgUiLimits:
    """How much of a client's is taken: bytes and depth of an input, what of it a model may be shown, and streams.

    `max_given_bytes` bounds state, context, tools and history together; `heartbeat_seconds` is the time between two
    signs of life in a stream of server-sent events.
    """

    max_body_bytes: int = 1_000_000
    max_depth: int = 32
    max_given_bytes: int = 100_000
    max_tools: int = 64
    max_streams: int = 1_000
    heartbeat_seconds: float = 15.0

    def __post_init__(self) -> None:
        reject_not_positive(self, **{name: getattr(self, name) for name in _NUMBERS})


_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "max_body_bytes": int,
    "max_depth": int,
    "max_given_bytes": int,
    "max_tools": int,
    "max_streams": int,
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
        object.__setattr__(self, "allowed_origins", tuple(self.allowed_origins))
        for name in ("sse_path", "websocket_path", "http_stream_path"):
            check_path(f"AgUiConfig.{name}", getattr(self, name))
        for origin in self.allowed_origins:
            parts = urlsplit(origin)
            if not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
                raise AgentDefinitionError(
                    f"AgUiConfig.allowed_origins has {origin!r}, which is no origin. Write it like "
                    "'https://app.example.org', without a path."
                )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> AgUiConfig:
        """The settings in `PILOTAGE_AGUI_*`; what is not set there is as usual.

        Raises:
            AgentDefinitionError: a variable has a value that cannot be.
        """
        usual = cls()
        origins = _text(environ, "ALLOWED_ORIGINS", "").split(",")
        return cls(
            _text(environ, "SSE_PATH", usual.sse_path),
            _text(environ, "WEBSOCKET_PATH", usual.websocket_path),
            _text(environ, "HTTP_STREAM_PATH", usual.http_stream_path),
            _switch(environ, "EMIT_STATE_SNAPSHOT", usual.emit_state_snapshot),
            _switch(environ, "MESSAGES_SNAPSHOT_ENABLED", usual.messages_snapshot_enabled),
            tuple(origin.strip() for origin in origins if origin.strip()),
            AgUiLimits(**_numbers(environ)),
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


def _numbers(environ: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, read in _NUMBERS.items():
        text = _text(environ, name.upper(), "")
        try:
            if text:
                given[name] = read(text)
        except ValueError as error:
            raise AgentDefinitionError(
                f"{PREFIX}{name.upper()} is {text!r}. Use a positive number."
            ) from error
    return given
