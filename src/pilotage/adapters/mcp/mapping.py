"""Results of tools, as the protocol has them, to what programs and models get. Pure.

Everything in a result was written by the server: nothing of it is trusted, and what cannot be taken becomes a note.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.adapters.mcp.catalog import Definition
from pilotage.adapters.mcp.errors import McpUnknownOutcomeError
from pilotage.adapters.mcp.replies import McpReply, McpReplyKind
from pilotage.adapters.mcp.schemas import misfit
from pilotage.agent.media import MediaSafetyLimits
from pilotage.agent.messages import ContentPart, MediaPart, TextPart
from pilotage.agent.sniffing.facts import BrokenMediaError, UnknownMediaError
from pilotage.agent.sniffing.sniff import sniff
from pilotage.errors import MediaRefusedError
from pilotage.jsonvalue import JsonValue, canonical_json, is_list, is_object, shortened, to_json_value

_LONGEST_FAILURE = 10_000
_MOST_MEDIA = MediaSafetyLimits().max_parts


def reply_of(definition: Definition, raw: Mapping[str, Any]) -> McpReply:
    """Return the reply to a request of a call.

    Raises:
        McpUnknownOutcomeError: it is of a kind that is not known.
    """
    match raw.get("resultType", "complete"):
        case "input_required":
            return McpReply(
                McpReplyKind.INPUT,
                data={
                    "requests": to_json_value(raw.get("inputRequests") or {}),
                    "state": to_json_value(raw.get("requestState")),
                },
            )
        case "task":
            return McpReply(McpReplyKind.TASK, data={"task": to_json_value(dict(raw))})
        case "complete":
            return result_of(definition, raw)
        case other:
            raise McpUnknownOutcomeError(f"the server answers with a result of the unknown kind {other!r}.")


def result_of(definition: Definition, raw: Mapping[str, Any]) -> McpReply:
    """Return the final result of a call: its structured content, else its parts; or the text of its failure."""
    parts = parts_of(raw.get("content"))
    if raw.get("isError") is True:
        return McpReply(McpReplyKind.ERROR, shortened(_text_of(parts) or "no reason given", _LONGEST_FAILURE))
    media = [part for part in parts if isinstance(part, MediaPart)]
    if "structuredContent" not in raw or (raw["structuredContent"] is None and parts):
        return McpReply(McpReplyKind.RESULT, parts if media else _text_of(parts))
    structured: JsonValue = to_json_value(raw["structuredContent"])
    schema = definition.output_schema
    if schema is not None and (why := misfit(schema, structured)) is not None:
        note = (
            f"The structured result does not fit the schema that its server declares ({why}): "
            f"{canonical_json(structured)}"
        )
        return McpReply(McpReplyKind.RESULT, [TextPart(note), *media] if media else note)
    if media:
        return McpReply(McpReplyKind.RESULT, [TextPart(canonical_json(structured)), *media])
    return McpReply(McpReplyKind.RESULT, structured)


def parts_of(content: object) -> list[ContentPart]:
    """Return the blocks of a result as parts: texts, media that can be taken, and notes about everything else."""
    parts: list[ContentPart] = []
    for block in content if is_list(content) else ():
        part = _part_of(block if is_object(block) else {})
        has_room = sum(isinstance(each, MediaPart) for each in parts) < _MOST_MEDIA
        if isinstance(part, MediaPart) and not has_room:
            part = TextPart(f"[{part.media_type} left out: more than {_MOST_MEDIA} in one result]")
        parts.append(part)
    return parts


def _part_of(block: Mapping[str, Any]) -> ContentPart:
    match block.get("type"):
        case "text":
            return TextPart(str(block.get("text", "")))
        case "image" | "audio":
            return _media(str(block.get("data", "")), str(block.get("mimeType", "")), None)
        case "resource_link":
            about = {key: block[key] for key in ("uri", "name", "description", "mimeType") if block.get(key)}
            return TextPart(f"[link to a resource: {canonical_json(to_json_value(about))}]")
        case "resource":
            return _embedded(block.get("resource"))
        case other:
            return TextPart(f"[content of the unknown kind {shortened(str(other))!r} left out]")


def _embedded(resource: object) -> ContentPart:
    about: Mapping[str, object] = resource if is_object(resource) else {}
    uri = shortened(str(about.get("uri", "")), 500)
    if "blob" in about:
        return _media(str(about["blob"]), str(about.get("mimeType") or "application/octet-stream"), uri)
    return TextPart(f"[resource {uri}]\n{about.get('text', '')}")


def _media(data: str, media_type: str, name: str | None) -> ContentPart:
    """Return media that can be taken, else a note: a result that is not taken would be an unknown outcome."""
    limits = MediaSafetyLimits()
    try:
        content = b64decode(data, validate=True)
        facts = sniff(content, media_type or "application/octet-stream")
        limits.check_facts(facts)
        part = MediaPart(facts.media_type, data=data, name=name or None)
        limits.check_sizes([part])
    except (ValueError, BrokenMediaError, UnknownMediaError, MediaRefusedError) as error:
        shown = f" {name}" if name else ""
        return TextPart(f"[{shortened(media_type) or 'media'}{shown} left out: {shortened(str(error), 200)}]")
    return part


def _text_of(parts: Sequence[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))
