"""`forwardedProps`: what a client says beside the protocol. Pure.

`lastEventId` is the id of the last frame it has of the stream it comes back to; `cancelRun` is the run to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui.bookmark import Bookmark
from pilotage.adapters.agui.errors import AgUiRunResolutionError
from pilotage.jsonvalue import JsonObject

LAST_EVENT_ID = "lastEventId"
CANCEL_RUN = "cancelRun"


def props_of(ag_ui_input: RunAgentInput) -> JsonObject:
    """The object in `forwardedProps`; an empty one where there is none.

    Raises:
        AgUiRunResolutionError: it is something else.
    """
    props = ag_ui_input.forwarded_props
    if props is None:
        return {}
    if not isinstance(props, Mapping):
        raise AgUiRunResolutionError("forwardedProps is no object. Leave it out, or write one.")
    return cast(JsonObject, props)


def last_seen(ag_ui_input: RunAgentInput) -> Bookmark | None:
    """Where a client that comes back left the stream.

    Raises:
        AgUiRunResolutionError: what it says is no id of a frame.
    """
    text = _text(ag_ui_input, LAST_EVENT_ID)
    return Bookmark.parse(text) if text is not None else None


def cancelled_run_in(ag_ui_input: RunAgentInput) -> str | None:
    """The run that a client wants to end: the runId of the input that started it.

    Raises:
        AgUiRunResolutionError: what it says is no name of a run.
    """
    return _text(ag_ui_input, CANCEL_RUN)


def with_last_seen(ag_ui_input: RunAgentInput, header: str | None) -> RunAgentInput:
    """The input with the id from a header, which is newer than the one a client may repeat in its input."""
    if not header:
        return ag_ui_input
    return ag_ui_input.model_copy(
        update={"forwarded_props": {**props_of(ag_ui_input), LAST_EVENT_ID: header}}
    )


def _text(ag_ui_input: RunAgentInput, name: str) -> str | None:
    found = props_of(ag_ui_input).get(name)
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        raise AgUiRunResolutionError(f"forwardedProps.{name} is no text. Leave it out, or write one.")
    return found
