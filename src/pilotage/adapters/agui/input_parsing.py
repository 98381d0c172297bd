"""From the text of an AG-UI input to the input itself, within limits, and its `forwardedProps`. Pure.

Inputs are hostile: they are bounded before they are decoded, and a refusal repeats nothing of them. In `forwardedProps`
`lastEventId` is the id of the last frame that a reconnecting client has, and `cancelRun` is the run to cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ag_ui.core import RunAgentInput
from pydantic import ValidationError
from pydantic_core import from_json

from pilotage.adapters.agui.bookmark import Bookmark
from pilotage.adapters.agui.errors import AgUiInputTooLargeError, AgUiRunResolutionError
from pilotage.adapters.agui_plugin import AgUiLimits
from pilotage.adapters.asgi.bodies import is_deeper_than
from pilotage.jsonvalue import JsonObject, JsonValue

LAST_EVENT_ID = "lastEventId"
CANCEL_RUN = "cancelRun"
_SHOWN_PROBLEMS = 3
_LONGEST_ID = 255
_USUAL = AgUiLimits()


def parse_input(text: str | bytes, limits: AgUiLimits = _USUAL) -> RunAgentInput:
    """The AG-UI input in a JSON text.

    Raises:
        AgUiInputTooLargeError: the text is longer than the limits allow.
        AgUiRunResolutionError: it is none; the message names the fields that are wrong, and nothing of their content.
    """
    body = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(body) > limits.max_body_bytes:
        raise AgUiInputTooLargeError(
            f"the input is longer than {limits.max_body_bytes:,} bytes, which is what this server takes."
        )
    if is_deeper_than(limits.max_depth, body):
        raise AgUiRunResolutionError(
            f"the input is nested more than {limits.max_depth} levels deep. Send less of it."
        )
    try:
        # Numbers that are none, and halves of surrogate pairs, are no JSON to this reader.
        decoded: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise AgUiRunResolutionError(
            f"the body is no RunAgentInput: the text: Invalid JSON: {error}."
        ) from None
    try:
        ag_ui_input = RunAgentInput.model_validate(decoded)
    except ValidationError as error:
        raise _refused(error) from None
    _refuse_wrong_ids(ag_ui_input)
    return ag_ui_input


def _refused(error: ValidationError) -> AgUiRunResolutionError:
    found = [f"{'.'.join(map(str, e['loc'])) or 'the text'}: {e['msg']}" for e in error.errors()]
    more = f" (and {len(found) - _SHOWN_PROBLEMS} more)" if len(found) > _SHOWN_PROBLEMS else ""
    words = "; ".join(found[:_SHOWN_PROBLEMS])
    return AgUiRunResolutionError(f"the body is no RunAgentInput: {words}{more}.")


def _refuse_wrong_ids(ag_ui_input: RunAgentInput) -> None:
    ids = {
        "runId": ag_ui_input.run_id,
        "threadId": ag_ui_input.thread_id,
        "parentRunId": ag_ui_input.parent_run_id,
    }
    for name, text in ids.items():
        # Not every database keeps a null character.
        if text is not None and (len(text) > _LONGEST_ID or not text.strip() or "\x00" in text):
            raise AgUiRunResolutionError(
                f"{name} is blank, has a null character or is longer than {_LONGEST_ID} characters. Choose another one."
            )


def props_of(ag_ui_input: RunAgentInput) -> JsonObject:
    """The object in `forwardedProps`; an empty one where there is none.

    Raises:
        AgUiRunResolutionError: it is something else.
    """
    props: JsonValue = ag_ui_input.forwarded_props
    if props is None:
        return {}
    if not isinstance(props, Mapping):
        raise AgUiRunResolutionError("forwardedProps is no object. Leave it out, or write one.")
    return props


def last_seen(ag_ui_input: RunAgentInput) -> Bookmark | None:
    """Return where a reconnecting client left the stream.

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
