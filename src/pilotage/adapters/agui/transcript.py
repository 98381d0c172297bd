"""The messages that a client has: its own and those of the stream, as MESSAGES_SNAPSHOT sends them. Pure.

Reasoning and what sub-agents say are left out: they are told as they happen and are no part of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Message,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)


class TranscriptOfFrames:
    """Folds frames into messages. A call without a message of its own gets one under its own id."""

    def __init__(self, before: Sequence[Message] = ()) -> None:
        self._messages: dict[str, Message] = {
            message.id: message.model_copy(deep=isinstance(message, AssistantMessage)) for message in before
        }
        self._calls: dict[str, ToolCall] = {}

    @property
    def messages(self) -> list[Message]:
        """All messages in the order they began."""
        return list(self._messages.values())

    def take(self, frames: Iterable[BaseEvent]) -> None:
        """Take in frames of the stream."""
        for frame in frames:
            if getattr(frame, "subagent_run_id", None) is None:
                self._take(frame)

    def _take(self, frame: BaseEvent) -> None:
        match frame:
            case TextMessageStartEvent():
                self._assistant(frame.message_id)
            case TextMessageContentEvent():
                message = self._assistant(frame.message_id)
                message.content = (message.content or "") + frame.delta
            case ToolCallStartEvent():
                self._begin_call(frame)
            case ToolCallArgsEvent():
                if (call := self._calls.get(frame.tool_call_id)) is not None:
                    call.function.arguments += frame.delta
            case ToolCallResultEvent():
                self._messages[frame.message_id] = ToolMessage(
                    id=frame.message_id, tool_call_id=frame.tool_call_id, content=frame.content
                )
            case _:
                pass

    def _begin_call(self, frame: ToolCallStartEvent) -> None:
        message = self._assistant(frame.parent_message_id or frame.tool_call_id)
        function = FunctionCall(name=frame.tool_call_name, arguments="")
        call = self._calls[frame.tool_call_id] = ToolCall(id=frame.tool_call_id, function=function)
        message.tool_calls = [*(message.tool_calls or ()), call]

    def _assistant(self, message_id: str) -> AssistantMessage:
        found = self._messages.get(message_id)
        if isinstance(found, AssistantMessage):
            return found
        made = self._messages[message_id] = AssistantMessage(id=message_id)
        return made
