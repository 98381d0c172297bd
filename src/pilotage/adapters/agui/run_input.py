"""An AG-UI input, from its text to the input of a run. Pure.

Inputs are hostile: they are bounded before they are decoded, and a refusal repeats nothing of them. In `forwardedProps`
`lastEventId` is the id of the last frame that a reconnecting client has, `cancelRun` is the run to cancel, and
`connect` says that the client only wants to see its thread, as an input without messages does.

The run's id is the client's runId, which is a name and no authority; where the input answers a question, it is the run
that asked. The instruction is the last message of the user; earlier ones are in the conversation of the thread.

State, context, tools and history of a client are not trusted, unless the application declares named tools and the state
to be those of its own page; then they are words of the user. State and context are shown to a model with their trust
label; the client runs its tools itself; history counts only where the application has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    DataSource,
    RunAgentInput,
    TextPart,
    UrlSource,
    UserMessage,
)
from pydantic import ValidationError
from pydantic_core import from_json

from pilotage.adapters.agui import decisions
from pilotage.adapters.agui.errors import AgUiInputTooLargeError, AgUiRunResolutionError
from pilotage.adapters.agui.questions import HITL_TOOL
from pilotage.adapters.agui.stream import Bookmark
from pilotage.adapters.agui_plugin import AgUiConfig, AgUiLimits
from pilotage.agent.context import ContextFreshness, ContextPack, ContextPackRole
from pilotage.agent.messages import MediaPart
from pilotage.agent.model_request import JsonSchemaConstraint, ModelSelection, ModelToolSpec
from pilotage.agent.run_values import AgentContext
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.agent.tools.deferred import OWN_PAGE
from pilotage.errors import AgentDefinitionError
from pilotage.inbound.bodies import finite
from pilotage.inbound.limits import is_deeper_than
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, repeated_key, to_json_value
from pilotage.runtime.exposure.trust import TRUST
from pilotage.safety.trust import Integrity, TrustLabel

RESUMED = "Go on with what was decided."
"""The instruction of an input without a new user message; it is not used."""
ATTACHED = "See what is attached."
"""The instruction of an input whose user message has media and no text."""
FROM_CLIENT = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"ag-ui client"}))
FROM_OWN_PAGE = TrustLabel(Integrity.USER, origins=frozenset({"the user's page"}))
_SOURCE = "ag-ui client"
_STATE = "agui-state"
_USUAL = AgUiLimits()

LAST_EVENT_ID = "lastEventId"
CANCEL_RUN = "cancelRun"
CONNECT = "connect"
STEERING_REQUIRED = "steeringInputRequired"
_SHOWN_PROBLEMS = 3
_LONGEST_ID = 255


def parse_input(text: str | bytes, limits: AgUiLimits = _USUAL) -> RunAgentInput:
    """Return the AG-UI input in a JSON text.

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
        # Numbers that are none, and halves of surrogate pairs, are no JSON to this reader; 1e309 is infinite to it.
        decoded: Any = finite(from_json(text, allow_inf_nan=False))
    except ValueError as error:
        raise AgUiRunResolutionError(
            f"the body is no RunAgentInput: the text: Invalid JSON: {error}."
        ) from None
    if (repeated := repeated_key(body)) is not None:
        raise AgUiRunResolutionError(
            f"the body is no RunAgentInput: it has the key {repeated!r} twice in one object. Send it once."
        )
    try:
        ag_ui_input = RunAgentInput.model_validate(decoded)
    except ValidationError as error:
        raise _refused(error) from None
    _refuse_wrong_ids(ag_ui_input)
    return ag_ui_input


def _refused(error: ValidationError) -> AgUiRunResolutionError:
    found = [f"{'.'.join(map(str, e['loc'])) or 'the text'}: {e['msg']}" for e in error.errors()]
    more = f" (and {len(found) - _SHOWN_PROBLEMS} more)" if len(found) > _SHOWN_PROBLEMS else ""
    text = "; ".join(found[:_SHOWN_PROBLEMS])
    return AgUiRunResolutionError(f"the body is no RunAgentInput: {text}{more}.")


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
    """Return the object in `forwardedProps`, an empty one where there is none; refuse anything else."""
    props: JsonValue = ag_ui_input.forwarded_props
    if props is None:
        return {}
    if not isinstance(props, Mapping):
        raise AgUiRunResolutionError("forwardedProps is no object. Leave it out, or write one.")
    return props


def last_seen(ag_ui_input: RunAgentInput) -> Bookmark | None:
    """Return where a reconnecting client left the stream; refuse what is no id of a frame."""
    text = _text(ag_ui_input, LAST_EVENT_ID)
    return Bookmark.parse(text) if text is not None else None


def cancels(ag_ui_input: RunAgentInput) -> bool:
    """Return whether a client cancels a run: the one that it names, or with `true` the one that has the thread."""
    return cancelled_run_in(ag_ui_input) is not None or _cancels_thread(ag_ui_input)


def cancelled_run_in(ag_ui_input: RunAgentInput) -> str | None:
    """Return the run that a client names to cancel it: the runId of the input that started it."""
    return None if _cancels_thread(ag_ui_input) else _text(ag_ui_input, CANCEL_RUN)


def _cancels_thread(ag_ui_input: RunAgentInput) -> bool:
    return props_of(ag_ui_input).get(CANCEL_RUN) is True


def connects(ag_ui_input: RunAgentInput) -> bool:
    """Return whether a client only wants to see its thread: it says so, or sends no message and no answer."""
    if _flag(props_of(ag_ui_input), CONNECT):
        return True
    return not ag_ui_input.messages and not _answers(ag_ui_input) and not cancels(ag_ui_input)


def with_last_seen(ag_ui_input: RunAgentInput, header: str | None) -> RunAgentInput:
    """Return the input with the id from a header, which is newer than the one a client may repeat in its input."""
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


def run_input_of(ag_ui_input: RunAgentInput, limits: AgUiLimits = _USUAL) -> CoreRunInput:
    """Return the input with which a run is started or resumed.

    Raises:
        AgUiRunResolutionError: the input has no text of a user, or an invalid field.
        AgUiInputTooLargeError: it gives more than the limits allow.
    """
    try:
        run_input = _run_input(ag_ui_input, limits, is_resumed=_answers(ag_ui_input))
    except AgentDefinitionError as error:
        raise AgUiRunResolutionError(f"the input names no run: {error}") from error
    check_size(run_input, limits)
    return run_input


def _answers(ag_ui_input: RunAgentInput) -> bool:
    return decisions.carries_approval_decision(ag_ui_input) or bool(decisions.tool_results_in(ag_ui_input))


def _run_input(ag_ui_input: RunAgentInput, limits: AgUiLimits, *, is_resumed: bool) -> CoreRunInput:
    instruction, attachments = _last_user_message(ag_ui_input)
    if connects(ag_ui_input):
        instruction, attachments = RESUMED, []
    if attachments and not instruction.strip():
        instruction = ATTACHED
    if not instruction.strip():
        if not is_resumed and not cancels(ag_ui_input):
            raise AgUiRunResolutionError(
                f"input {ag_ui_input.run_id!r} has no user message with text. Send what the user says as the last one."
            )
        instruction = RESUMED
    props = props_of(ag_ui_input)
    return CoreRunInput(
        _run_of_the_question(ag_ui_input) if is_resumed else ag_ui_input.run_id,
        instruction,
        ag_ui_input.thread_id,
        ag_ui_input.parent_run_id,
        is_resumed,
        model_selection=_selection(props),
        # Under their own names, so that metadata of a client cannot pass for metadata of the run.
        metadata={name: _object(props, name) for name in ("metadata", "mcp") if name in props},
        attachments=attachments,
        steering_input_required=_flag(props, STEERING_REQUIRED),
        context=AgentContext(packs_of(ag_ui_input)),
        deferred_tools=tools_of(ag_ui_input, limits.max_tools),
    )


def _run_of_the_question(ag_ui_input: RunAgentInput) -> str:
    """Return the run that an answer is about; the result of a tool call names none, nor does a broken answer."""
    return next(iter(decisions.asking_runs(ag_ui_input)), ag_ui_input.run_id)


def _last_user_message(ag_ui_input: RunAgentInput) -> tuple[str, list[MediaPart]]:
    """Return the text of the last user message, and what is attached to it."""
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


def _flag(props: JsonObject, name: str) -> bool:
    found = props.get(name, False)
    if not isinstance(found, bool):
        raise AgUiRunResolutionError(f"forwardedProps.{name} is not true or false. Write one of them.")
    return found


def _object(props: JsonObject, name: str) -> JsonValue:
    found = props[name]
    if not isinstance(found, Mapping):
        raise AgUiRunResolutionError(f"forwardedProps.{name} is no object. Leave it out, or write one.")
    return found


def packs_of(ag_ui_input: RunAgentInput) -> list[ContextPack]:
    """Return the state and the context of a client, as a model may be shown them."""
    packs: list[ContextPack] = []
    if ag_ui_input.state:
        shown = canonical_json(to_json_value(ag_ui_input.state))
        packs.append(_pack(_STATE, shown, ContextPackRole.STATE))
    for number, each in enumerate(ag_ui_input.context or (), start=1):
        if each.value.strip():
            about = each.description.strip()
            shown = f"{about}: {each.value}" if about else each.value
            packs.append(_pack(f"agui-context-{number}", shown, ContextPackRole.EVIDENCE))
    return packs


def tools_of(ag_ui_input: RunAgentInput, most: int) -> tuple[ModelToolSpec, ...]:
    """Return the tools that a client runs. The one by which older clients answer questions is no tool of a model.

    Raises:
        AgUiInputTooLargeError: there are more than `most`.
        AgUiRunResolutionError: a tool has parameters that are no schema.
        AgentDefinitionError: a tool has no name.
    """
    tools = [tool for tool in ag_ui_input.tools or () if tool.name != HITL_TOOL]
    if len(tools) > most:
        raise AgUiInputTooLargeError(f"the input brings {len(tools)} tools; this server takes {most}.")
    specs: list[ModelToolSpec] = []
    for tool in tools:
        given: JsonValue = tool.parameters if tool.parameters is not None else {}
        if not isinstance(given, Mapping):
            raise AgUiRunResolutionError(
                f"the parameters of tool {tool.name!r} are no JSON schema. Send an object."
            )
        schema: JsonObject = {"type": "object", "properties": {}, **given}
        constraint = JsonSchemaConstraint(schema, strict=False)
        specs.append(ModelToolSpec(tool.name, constraint, tool.description.strip() or None))
    return tuple(specs)


def as_of_own_page(run_input: CoreRunInput, config: AgUiConfig) -> CoreRunInput:
    """Return the input with the tools and the state that the application declares to be those of its own page.

    They count as words of the user, never as trusted.
    """
    tools = tuple(
        replace(tool, metadata={OWN_PAGE: True}) if tool.name in config.own_page_tools else tool
        for tool in run_input.deferred_tools
    )
    packs = run_input.context.packs
    if config.owns_page_state:
        label: JsonObject = {TRUST: FROM_OWN_PAGE.to_payload()}
        packs = tuple(replace(pack, metadata=label) if pack.id == _STATE else pack for pack in packs)
    return replace(run_input, deferred_tools=tools, context=replace(run_input.context, packs=packs))


def with_history(run_input: CoreRunInput, ag_ui_input: RunAgentInput) -> CoreRunInput:
    """Return the input with the history that a client sends, as context and not as messages."""
    history = "\n".join(_lines(ag_ui_input))
    if not history or run_input.resume:
        return run_input
    pack = _pack("agui-history", history, ContextPackRole.MEMORY)
    return replace(run_input, context=AgentContext((*run_input.context.packs, pack)))


def check_size(run_input: CoreRunInput, limits: AgUiLimits) -> None:
    """Refuse more context and tools of a client than the limits allow to show to a model."""
    size = sum(len(pack.content) for pack in run_input.context.packs)
    size += sum(len(canonical_json(to_json_value(tool))) for tool in run_input.deferred_tools)
    if size > limits.max_given_bytes:
        raise AgUiInputTooLargeError(
            f"state, context, tools and history of the input are {size:,} characters together; this server shows a "
            f"model {limits.max_given_bytes:,}. Send less of them."
        )


def _in_words(part: ContentPart) -> str:
    """Return a part of an earlier message as text: what a model does not see of it is named."""
    return part.text if isinstance(part, TextPart) else f"[{part.type}, not shown again]"


def _pack(pack_id: str, content: str, role: ContextPackRole) -> ContextPack:
    label: JsonObject = {TRUST: FROM_CLIENT.to_payload()}
    return ContextPack(pack_id, content, _SOURCE, role, freshness=ContextFreshness.CURRENT, metadata=label)


def _lines(ag_ui_input: RunAgentInput) -> Iterator[str]:
    """Return the messages before the last one of the user, as lines."""
    messages = list(ag_ui_input.messages)
    while messages and not isinstance(messages[-1], UserMessage):
        messages.pop()
    for message in messages[:-1]:
        if isinstance(message, UserMessage | AssistantMessage):
            content = message.content or ""
            if not isinstance(content, str):
                content = " ".join(_in_words(part) for part in content)
            if content.strip():
                yield f"{message.role}: {content}"
