"""Events as frames of a server-sent stream. Pure."""

from __future__ import annotations

import json

from pilotage.adapters.fastapi.answers import json_text
from pilotage.adapters.fastapi.problems import ProblemView
from pilotage.agent.events import AgentEvent
from pilotage.jsonvalue import to_json_value

HEARTBEAT = b":\n\n"


def event_frame(event: AgentEvent, cursor: str) -> bytes:
    """An event and, as the id of the frame, the cursor behind it. JSON in ASCII has no line breaks of its own."""
    data = json.dumps(to_json_value(event), separators=(",", ":"), allow_nan=False)
    return f"id: {cursor}\nevent: {event.kind.value}\ndata: {data}\n\n".encode()


def problem_frame(problem: ProblemView) -> bytes:
    """Why a stream ends early. It has no id: whoever comes back goes on behind the last event."""
    return b"event: problem\ndata: " + json_text(problem) + b"\n\n"
