"""An AG-UI input as the input of a run. Pure.

The run's id is the client's runId, which is a name and no authority; where the input answers something, it is the run
that asked. The instruction is the last thing the user said; what was said before is in the conversation of the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ag_ui.core import DataSource, RunAgentInput, TextPart, UrlSource, UserMessage

from pilotage.adapters.agui.decisions import AgUiDecision, carries_approval_decision, decisions_in
from pilotage.adapters.agui.errors import AgUiRunResolutionError
from pilotage.adapters.agui.given import check_size, packs_of, tools_of
from pilotage.adapters.agui.props import cancelled_run_in, props_of
from pilotage.adapters.agui.results import tool_results_in
from pilotage.adapters.agui.settings import AgUiLimits
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.model import ModelSelection
from pilotage.agent.run_input import AgentContext
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.answers import run_of

RESUMED = "Go on with what was decided."
"""The instruction of a run that comes back without new words of a user; nobody reads it."""
_USUAL = AgUiLimits()


def run_input_of(ag_ui_input: RunAgentInput, limits: AgUiLimits = _USUAL) -> CoreRunInput:
    """What a run is started or resumed with.

    Raises:
        AgUiRunResolutionError: the input has no words of a user, or a field that cannot be.
        AgUiInputTooLargeError: it gives more than the limits allow.
        AgUiApprovalDecodeError: it answers something in words that cannot be read.
    """
    try:
        run_input = _run_input(ag_ui_input, limits, is_resumed=_answers(ag_ui_input))
    except AgentDefinitionError as error:
        raise AgUiRunResolutionError(f"the input says no run: {error}") from error
    check_size(run_input, limits)
    return run_input


def _answers(ag_ui_input: RunAgentInput) -> bool:
    return carries_approval_decision(ag_ui_input) or bool(tool_results_in(ag_ui_input))


def _run_input(ag_ui_input: RunAgentInput, limits: AgUiLimits, *, is_resumed: bool) -> CoreRunInput:
    instruction, attachments = _last_words(ag_ui_input)
    if not instruction.strip():
        if not is_resumed and cancelled_run_in(ag_ui_input) is None:
            raise AgUiRunResolutionError(
                f"input {ag_ui_input.run_id!r} has no user message with text. Send what the user says as the last one."
            )
        instruction = RESUMED
    props = props_of(ag_ui_input)
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
        context=AgentContext(packs_of(ag_ui_input)),
        deferred_tools=tools_of(ag_ui_input, limits.max_tools),
    )


def _run_that_asked(ag_ui_input: RunAgentInput) -> str:
    if not carries_approval_decision(ag_ui_input):
        # The result of a tool call names no run: it is the one of the thread that waits for it.
        return ag_ui_input.run_id
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
