"""Results of described tools that may be texts and media: as they are recorded and read back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, cast

from pilotage.agent.messages import MediaPart, TextPart, content_parts
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, is_object, list_or_empty, object_or_empty, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.result_codec import ResultCodec, Scalars, copied


class ContentCodec(ResultCodec):
    """Records JSON, or a list of texts and media, which is an object of its own in a record.

    JSON that has the form of such an object is wrapped: what a server sent is never read as media.
    """

    same = frozenset({str, bool, NoneType})
    has_media = True

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        if parts := content_parts(result):
            return {words.CONTENT_PARTS: [to_json_value(part) for part in parts]}, ()
        plain = to_json_value(result)
        wrapped: JsonObject = {words.PLAIN: plain}
        return (plain if _FORMS.isdisjoint(object_or_empty(plain)) else wrapped), ()

    def decode(self, value: JsonValue) -> object:
        record = object_or_empty(value)
        if [*record] == [words.PLAIN]:
            return copied(record[words.PLAIN])
        if [*record] == [words.CONTENT_PARTS]:
            return [_part_of(each) for each in list_or_empty(record[words.CONTENT_PARTS])]
        return copied(value)


_FORMS = frozenset({words.CONTENT_PARTS, words.PLAIN})


def _part_of(given: object) -> TextPart | MediaPart:
    about = cast("Mapping[str, Any]", given if is_object(given) else {})
    try:
        return MediaPart(**about) if "media_type" in about else TextPart(about["text"])
    except (KeyError, TypeError, AgentDefinitionError) as error:
        raise AgentStructuredOutputError("the result has a part that is neither a text nor media") from error


CONTENT = ContentCodec()
"""For results of described tools that may be texts and media."""
