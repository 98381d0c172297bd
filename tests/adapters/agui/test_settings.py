"""The settings of AG-UI, by hand and from the environment."""

from __future__ import annotations

import pytest

from pilotage.adapters.agui import AgUiConfig
from pilotage.errors import AgentDefinitionError


def test_nothing_set_is_as_usual() -> None:
    assert AgUiConfig.from_environment({}) == AgUiConfig("/agui", "/agui/ws", "/agui/stream", True, False)


def test_every_variable_is_read() -> None:
    environ = {
        "PILOTAGE_AGUI_SSE_PATH": "/a",
        "PILOTAGE_AGUI_WEBSOCKET_PATH": "/b",
        "PILOTAGE_AGUI_HTTP_STREAM_PATH": "/c",
        "PILOTAGE_AGUI_EMIT_STATE_SNAPSHOT": "no",
        "PILOTAGE_AGUI_MESSAGES_SNAPSHOT_ENABLED": "True",
    }
    assert AgUiConfig.from_environment(environ) == AgUiConfig("/a", "/b", "/c", False, True)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("EMIT_STATE_SNAPSHOT", "perhaps", "PILOTAGE_AGUI_EMIT_STATE_SNAPSHOT is 'perhaps'"),
        ("SSE_PATH", "agui", "AgUiConfig.sse_path is 'agui'"),
        ("WEBSOCKET_PATH", "/a b", "AgUiConfig.websocket_path is '/a b'"),
    ],
)
def test_a_wrong_value_is_named(name: str, text: str, words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        AgUiConfig.from_environment({f"PILOTAGE_AGUI_{name}": text})
