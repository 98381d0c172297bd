"""What a client gives to a run besides the user's words: its state, context, tools, history. Pure.

None of it can be trusted, and none of it speaks for the user or for the application: state and context are shown to a
model as such, with their label; tools are the client's own to carry out; history counts only where the application
keeps none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from ag_ui.core import AssistantMessage, RunAgentInput, TextPart, UserMessage

from pilotage.adapters.agui.errors import AgUiInputTooLargeError, AgUiRunResolutionError
from pilotage.adapters.agui.interrupts import HITL_TOOL
from pilotage.adapters.agui.settings import AgUiLimits
from pilotage.agent.context import ContextFreshness, ContextPack, ContextPackRole
from pilotage.agent.run_input import AgentContext
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.agent.structured_output import JsonSchemaConstraint
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.jsonvalue import JsonObject, canonical_json, to_json_value
from pilotage.runtime.exposure.given_context import TRUST
from pilotage.safety.trust import Integrity, TrustLabel

FROM_CLIENT = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"ag-ui client"}))
_SOURCE = "ag-ui client"


def packs_of(ag_ui_input: RunAgentInput) -> list[ContextPack]:
    """The state and the context of a client, as a model may be shown them."""
    packs: list[ContextPack] = []
    if ag_ui_input.state:
        shown = canonical_json(to_json_value(ag_ui_input.state))
        packs.append(_pack("agui-state", shown, ContextPackRole.STATE))
    for number, each in enumerate(ag_ui_input.context or (), start=1):
        if each.value.strip():
            about = each.description.strip()
            shown = f"{about}: {each.value}" if about else each.value
            packs.append(_pack(f"agui-context-{number}", shown, ContextPackRole.EVIDENCE))
    return packs


def tools_of(ag_ui_input: RunAgentInput, most: int) -> tuple[ModelToolSpec, ...]:
    """The tools that a client carries out. The one that older clients answer questions by is no tool of a model.

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
        given: object = tool.parameters if tool.parameters is not None else {}
        if not isinstance(given, Mapping):
            raise AgUiRunResolutionError(
                f"the parameters of tool {tool.name!r} are no JSON schema. Send an object."
            )
        schema: JsonObject = {"type": "object", "properties": {}, **cast(JsonObject, given)}
        constraint = JsonSchemaConstraint(schema, strict=False)
        specs.append(ModelToolSpec(tool.name, constraint, tool.description.strip() or None))
    return tuple(specs)


def with_history(run_input: CoreRunInput, ag_ui_input: RunAgentInput) -> CoreRunInput:
    """The input with what a client says was said before, as material and not as anybody's words."""
    said = "\n".join(_lines(ag_ui_input))
    if not said or run_input.resume:
        return run_input
    pack = _pack("agui-history", said, ContextPackRole.MEMORY)
    return replace(run_input, context=AgentContext((*run_input.context.packs, pack)))


def check_size(run_input: CoreRunInput, limits: AgUiLimits) -> None:
    """Refuse more than a model should be shown of a client's.

    Raises:
        AgUiInputTooLargeError: it is more than the limits allow.
    """
    size = sum(len(pack.content) for pack in run_input.context.packs)
    size += sum(len(canonical_json(to_json_value(tool))) for tool in run_input.deferred_tools)
    if size > limits.max_given_bytes:
        raise AgUiInputTooLargeError(
            f"state, context, tools and history of the input are {size:,} characters together; this server shows a "
            f"model {limits.max_given_bytes:,}. Send less of them."
        )


def _pack(pack_id: str, content: str, role: ContextPackRole) -> ContextPack:
    label: JsonObject = {TRUST: FROM_CLIENT.to_payload()}
    return ContextPack(pack_id, content, _SOURCE, role, freshness=ContextFreshness.CURRENT, metadata=label)


def _lines(ag_ui_input: RunAgentInput) -> Iterator[str]:
    """What was said before the last words of the user."""
    messages = list(ag_ui_input.messages)
    while messages and not isinstance(messages[-1], UserMessage):
        messages.pop()
    for message in messages[:-1]:
        if isinstance(message, UserMessage | AssistantMessage):
            content = message.content or ""
            if not isinstance(content, str):
                content = " ".join(part.text for part in content if isinstance(part, TextPart))
            if content.strip():
                yield f"{message.role}: {content}"
