"""Where AG-UI is served, and what its clients are shown."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pilotage.errors import AgentDefinitionError
from pilotage.values import value

PREFIX = "PILOTAGE_AGUI_"
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@value
class AgUiConfig:
    """The paths of the three endpoints, and which snapshots are sent.

    `messages_snapshot_enabled` sends the whole conversation once more when a run has ended.
    """

    sse_path: str = "/agui"
    websocket_path: str = "/agui/ws"
    http_stream_path: str = "/agui/stream"
    emit_state_snapshot: bool = True
    messages_snapshot_enabled: bool = False

    def __post_init__(self) -> None:
        for name in ("sse_path", "websocket_path", "http_stream_path"):
            path = getattr(self, name)
            if not path.startswith("/") or any(character.isspace() for character in path):
                raise AgentDefinitionError(
                    f"AgUiConfig.{name} is {path!r}, which is no path. Begin it with '/', without blanks."
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
        )


def _text(environ: Mapping[str, str], name: str, usual: str) -> str:
    return environ.get(PREFIX + name, "").strip() or usual


def _switch(environ: Mapping[str, str], name: str, usual: bool) -> bool:
    word = _text(environ, name, str(usual)).lower()
    if word not in _SWITCH:
        raise AgentDefinitionError(f"{PREFIX}{name} is {word!r}: write true or false.")
    return _SWITCH[word]
