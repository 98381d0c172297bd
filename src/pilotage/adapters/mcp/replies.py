"""What a server answered to one request of a call, and how it is recorded. Pure."""

from __future__ import annotations

from enum import StrEnum

from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, to_json_value
from pilotage.runtime.journal.content_codec import CONTENT, ContentCodec
from pilotage.runtime.journal.result_codec import Scalars
from pilotage.values import value

_KIND, _CONTENT, _DATA = "mcp", "content", "data"


class McpReplyKind(StrEnum):
    """The kinds of replies."""

    RESULT = "result"
    ERROR = "error"
    INPUT = "input"
    TASK = "task"
    EMPTY = "empty"


@value
class McpReply:
    """A reply: the result of the tool, the text of its failure, a request for input, or a task.

    `content` is what a program gets: text, JSON, or a list of texts and media. `data` has the state of a request for
    input or of a task.
    """

    kind: McpReplyKind
    content: object = None
    data: JsonObject | None = None


class ReplyCodec(ContentCodec):
    """Records replies. Whatever else a person or a look-up gives is the result of the tool."""

    same = frozenset()

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        if not isinstance(result, McpReply):
            result = McpReply(McpReplyKind.RESULT, result)
        content, _ = super().encode(result.content)
        record: dict[str, JsonValue] = {_KIND: result.kind.value, _CONTENT: content}
        if result.data is not None:
            record[_DATA] = to_json_value(result.data)
        return record, ()

    def decode(self, value: JsonValue) -> object:
        record = object_or_empty(value)
        kind = record.get(_KIND)
        if not {_KIND, _CONTENT} <= record.keys() <= {_KIND, _CONTENT, _DATA} or kind not in set(
            McpReplyKind
        ):
            return McpReply(McpReplyKind.RESULT, CONTENT.decode(value))
        data = record.get(_DATA)
        return McpReply(
            McpReplyKind(kind),
            super().decode(record[_CONTENT]),
            None if data is None else object_or_empty(data),
        )


REPLY = ReplyCodec()
