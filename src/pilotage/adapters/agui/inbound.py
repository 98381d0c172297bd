"""An AG-UI input as the input of a run. Pure.

The run's id is the client's runId, which is a name and no authority; where the input answers something, it is the run
that asked. The instruction is the last thing the user said; what was said before is in the conversation of the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ag_ui.core import DataSource, RunAgentInput, TextPart, UrlSource, UserMessage
from pydantic import ValidationError

from pilotage.adapters.agui.decisions import AgUiDecision, carries_approval_decision, decisions_in
from pilotage.adapters.agui.errors import AgUiRunResolutionError
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.model import ModelSelection
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.service.answers import run_of

RESUMED = "Go on with what was decided."
"""The instruction of a run that comes back without new words of a user; nobody reads it."""
_SHOWN_PROBLEMS = 3


def parse_input(text: str | bytes) -> RunAgentInput:
    """The AG-UI input in a JSON text.

    Raises:
        AgUiRunResolutionError: it is none; the message names the fields that are wrong, and nothing of their content.
    """
    try:
        return RunAgentInput.model_validate_json(text)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, e['loc'])) or 'the text'}: {e['msg']}" for e in error.errors()]
        more = f" (and {len(found) - _SHOWN_PROBLEMS} more)" if len(found) > _SHOWN_PROBLEMS else ""
        raise AgUiRunResolutionError(
            f"the body is no RunAgentInput: {'; '.join(found[:_SHOWN_PROBLEMS])}{more}."
        ) from None


def run_input_of(ag_ui_input: RunAgentInput) -> CoreRunInput:
    """What a run is started or resumed with.

    Raises:
        AgUiRunResolutionError: the input has no words of a user, or a field that cannot be.
        AgUiApprovalDecodeError: it answers something in words that cannot be read.
    """
    try:
        return _run_input(ag_ui_input, is_resumed=carries_approval_decision(ag_ui_input))
    except AgentDefinitionError as error:
        raise AgUiRunResolutionError(f"the input says no run: {error}") from error


def _run_input(ag_ui_input: RunAgentInput, *, is_resumed: bool) -> CoreRunInput:
    instruction, attachments = _last_words(ag_ui_input)
    if not instruction.strip():
        if not is_resumed:
            raise AgUiRunResolutionError(
                f"input {ag_ui_input.run_id!r} has no user message with text. Send what the user says as the last one."
            )
        instruction = RESUMED
    props = _props(ag_ui_input)
    return CoreRunInput(
        _run_that_asked(ag_ui_input) if is_resumed else ag_ui_input.run_id,
        instruction,
        ag_ui_input.thread_id,
        ag_ui_input.parent_run_id,
        is_resumed,
        model_selection=_selection(props),
        # Kept under their own names, so that nothing of a client's looks like something of the run's.
        metadata={name: _object(props, name) for name in ("metadata", "mcp") if name in props},
        attachments=attachments,
    )


def _run_that_asked(ag_ui_input: RunAgentInput) -> str:
    first = decisions_in(ag_ui_input)[0]
    return run_of(first.request_id) if isinstance(first, AgUiDecision) else first.run_id


def _last_words(ag_ui_input: RunAgentInput) -> tuple[str, list[MediaPart]]:
    """The text of the last user message, and what is attached to it."""
    for message in reversed(ag_ui_input.messages):
        if isinstance(message, UserMessage):
            if isinstance(message.content, str):
                return message.content, []
            texts = [part.text for part in message.content if isinstance(part, TextPart)]
            media = [
                _media(part.type, part.source) for part in message.content if not isinstance(part, TextPart)
            ]
            return "\n".join(texts), media
    return "", []


def _media(kind: str, source: object) -> MediaPart:
    match source:
        case DataSource():
            return MediaPart(source.mime_type, data=source.value)
        case UrlSource():
            return MediaPart(source.mime_type or f"{kind}/*", url=source.value)
        case _:
            raise AgUiRunResolutionError(
                f"a part of kind {kind!r} is a file at a provider, which cannot be read here. Send its url or data."
            )


def _props(ag_ui_input: RunAgentInput) -> JsonObject:
    props = ag_ui_input.forwarded_props
    if props is None:
        return {}
    if not isinstance(props, Mapping):
        raise AgUiRunResolutionError("forwardedProps is no object. Leave it out, or write one.")
    return cast(JsonObject, props)


def _selection(props: JsonObject) -> ModelSelection | None:
    if "modelSelection" not in props:
        return None
    match props["modelSelection"]:
        case {"modelRef": str(model_ref), **rest} if not rest:
            return ModelSelection(model_ref)
        case _:
            raise AgUiRunResolutionError(
                "forwardedProps.modelSelection is not {modelRef: text}. Write exactly that."
            )


def _object(props: JsonObject, name: str) -> JsonValue:
    found = props[name]
    if not isinstance(found, Mapping):
        raise AgUiRunResolutionError(f"forwardedProps.{name} is no object. Leave it out, or write one.")
    return cast(JsonObject, found)
