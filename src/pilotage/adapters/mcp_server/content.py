"""Texts, media and blocks of the protocol as content. Pure."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from pydantic import BaseModel

from pilotage.agent.messages import MediaPart, TextPart
from pilotage.jsonvalue import is_list


def media_block(media_type: str, data: str | None, *, url: str, name: str) -> types.ContentBlock:
    """Return media as a block: with their bytes in base64, or by their address."""
    if data is None:
        return types.ResourceLink(name=name, uri=url, mime_type=media_type)
    if media_type.startswith("image/"):
        return types.ImageContent(data=data, mime_type=media_type)
    if media_type.startswith("audio/"):
        return types.AudioContent(data=data, mime_type=media_type)
    contents = types.BlobResourceContents(uri=url, mime_type=media_type, blob=data)
    return types.EmbeddedResource(resource=contents)


def block_of(part: Any) -> Any:
    """Return a part that an application gives as a block; one of the protocol as it is."""
    match part:
        case MediaPart(media_type=media_type, data=data, url=url, name=name):
            named = name or media_type
            return media_block(media_type, data, url=url or f"pilotage://media/{named}", name=named)
        case TextPart(text=text):
            return types.TextContent(text=text)
        case BaseModel():
            return part
        case _:
            return types.TextContent(text=str(part))


def blocks_of(given: Any) -> list[Any]:
    """Return what an application gives as blocks: one part, or a list of them."""
    return [block_of(each) for each in (given if is_list(given) else [given])]
