"""Events and inputs that the tests of the AG-UI adapter are written with."""

from __future__ import annotations

import json
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput

from pilotage.adapters.agui import AgUiProjector
from pilotage.agent import AgentEvent, AgentEventAttribution

BY = AgentEventAttribution("bank", "run-1", "thread-1")
KID = AgentEventAttribution("kid", "run-2", "thread-1", "run-1")
PICK = {
    "name": "pick",
    "description": "Let the user pick a color.",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}},
}


def told(*events: AgentEvent, by: AgUiProjector | None = None, finish: bool = False) -> list[dict[str, Any]]:
    """What a client reads of events, each without what is not set."""
    projector = by or AgUiProjector()
    frames: list[BaseEvent] = [frame for event in events for frame in projector.project(event)]
    frames += projector.finish() if finish else []
    return [frame.model_dump(by_alias=True, mode="json") for frame in frames]


def types(frames: list[dict[str, Any]]) -> list[str]:
    """The kinds of frames, in order."""
    return [frame["type"] for frame in frames]


def ag_ui_input(text: str | None = "Hello", **fields: Any) -> RunAgentInput:
    """An input as a client sends it: with words of a user, unless there are none."""
    messages = [{"id": "u1", "role": "user", "content": text}] if text is not None else []
    given = {"threadId": "thread-1", "runId": "client-1", "messages": messages, **fields}
    return RunAgentInput.model_validate(given)


def tool_message(call_id: str, content: str) -> dict[str, Any]:
    """The answer to a tool call, as a client sends it."""
    return {"id": f"result-{call_id}", "role": "tool", "toolCallId": call_id, "content": content}


def said(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return json.loads(ag_ui_input(text, **fields).model_dump_json(by_alias=True))


def yes(interrupt: dict[str, Any], **fields: Any) -> dict[str, Any]:
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"decision": "approve"}}
    return said("", messages=[], runId="client-2", resume=[entry], **fields)


def resume(request_id: str, payload: object, status: str = "resolved") -> RunAgentInput:
    entry = {"interruptId": request_id, "status": status, "payload": payload}
    return ag_ui_input(None, runId="client-2", resume=[entry])
