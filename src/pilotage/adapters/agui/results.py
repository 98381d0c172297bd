"""What came of tool calls that a client carried out: the tool's messages behind everything else. Pure."""

from __future__ import annotations

import json
from typing import cast

from ag_ui.core import RunAgentInput, TextPart, ToolMessage

from pilotage.adapters.agui.decisions import is_decision, messages_at_the_end
from pilotage.jsonvalue import JsonValue
from pilotage.values import value


@value
class AgUiToolResult:
    """What a client says came of a call."""

    call_id: str
    result: JsonValue


def tool_results_in(ag_ui_input: RunAgentInput) -> tuple[AgUiToolResult, ...]:
    """The results that an input ends with; whether somebody waits for them is another question."""
    return tuple(
        AgUiToolResult(message.tool_call_id, _result_of(message))
        for message in messages_at_the_end(ag_ui_input)
        if not is_decision(ag_ui_input, message)
    )


def _result_of(message: ToolMessage) -> JsonValue:
    content = message.content
    if not isinstance(content, str):
        content = "\n".join(part.text for part in content if isinstance(part, TextPart))
    result = _decoded(content)
    return result if message.error is None else {"error": message.error, "result": result}


def _decoded(content: str) -> JsonValue:
    """The JSON in a text, where it is an object or a list; everything else is the text itself."""
    if not content.lstrip().startswith(("{", "[")):
        return content
    try:
        return cast(JsonValue, json.loads(content, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
