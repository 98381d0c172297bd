"""From messages to the wire's messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.adapters.openai.settings import EvidenceRole
from pilotage.adapters.openai.wire_names import WireNames
from pilotage.agent.messages import ContentPart, MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json


def wire_messages(
    messages: Sequence[ModelMessage], names: WireNames, evidence_role: EvidenceRole
) -> list[JsonObject]:
    """The messages as the server gets them.

    Raises:
        AgentDefinitionError: a message has no form on the wire.
    """
    return [_wire_message(message, names, evidence_role) for message in messages]


def mentioned_tools(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """The names of all tools that were called."""
    return (call.name for message in messages for call in message.tool_calls)


def _wire_message(message: ModelMessage, names: WireNames, evidence_role: EvidenceRole) -> JsonObject:
    match message.role:
        case ModelMessageRole.ASSISTANT:
            return _assistant(message, names)
        case ModelMessageRole.TOOL:
            return _tool(message)
        case ModelMessageRole.EVIDENCE:
            return {"role": evidence_role.value, "content": _shown(message)}
        case ModelMessageRole.SYSTEM | ModelMessageRole.USER:
            return {"role": message.role.value, "content": _content(message.content)}


def _assistant(message: ModelMessage, names: WireNames) -> JsonObject:
    if not message.tool_calls:
        return {"role": "assistant", "content": _content(message.content)}
    calls: list[JsonValue] = [
        {
            "id": call.call_id or f"call_{position}",
            "type": "function",
            "function": {"name": names.wire(call.name), "arguments": canonical_json(call.arguments)},
        }
        for position, call in enumerate(message.tool_calls, start=1)
    ]
    return {"role": "assistant", "content": _content(message.content) or None, "tool_calls": calls}


def _tool(message: ModelMessage) -> JsonObject:
    if message.tool_call_id is None:
        raise AgentDefinitionError(
            "a tool's message does not say which call it answers, and the server wants to know. "
            "Use ModelMessage.tool(call_id, result)."
        )
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _content(message.content)}


def _shown(message: ModelMessage) -> str:
    """Evidence in a frame that its text cannot forge; a context pack brings its own."""
    if "context_pack_id" in message.metadata:
        return message.text
    # The sentinel makes an empty last line appear, about which splitlines is silent.
    *lines, last = f"{message.text}.".splitlines()
    body = "\n".join(f"| {line}" for line in (*lines, last[:-1]))
    return f"<evidence>\n{body}\n</evidence>"


def _content(content: str | Sequence[ContentPart]) -> JsonValue:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: ContentPart) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = part.media_type.partition("/")[0]
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _url(part)}}
    if kind == "video":
        return {"type": "video_url", "video_url": {"url": _url(part)}}
    if kind == "audio":
        return _audio(part)
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": _url(part)}}


def _audio(part: MediaPart) -> JsonObject:
    if part.data is None:
        return {"type": "audio_url", "audio_url": {"url": part.url}}
    sound: JsonObject = {"data": part.data, "format": _audio_format(part.media_type)}
    return {"type": "input_audio", "input_audio": sound}


def _audio_format(media_type: str) -> str:
    subtype = media_type.partition("/")[2].partition(";")[0].removeprefix("x-")
    return "mp3" if subtype == "mpeg" else subtype


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type};base64,{part.data}"
