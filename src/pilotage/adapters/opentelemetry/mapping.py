"""Maps the spans and metrics of runs to those of OpenTelemetry's conventions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pilotage.adapters.opentelemetry import conventions as names
from pilotage.agent.ports.observability import TelemetryValue
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, list_or_empty
from pilotage.values import value

Attributes: TypeAlias = Mapping[str, TelemetryValue]
OtelValue: TypeAlias = str | bool | int | float | Sequence[str]


@value
class OtelSpan:
    """A span as it is emitted; `operation` is None if the conventions have none."""

    name: str
    operation: str | None
    attributes: Mapping[str, OtelValue]
    is_remote: bool = False
    """Whether the span is of a call to another system."""

    def measured(self, error: str | None) -> dict[str, OtelValue]:
        """Return the dimensions of its duration: attributes with few values, so no ids."""
        dimensions = {name: self.attributes[name] for name in _MEASURED if name in self.attributes}
        return {**dimensions, **({names.ERROR_TYPE: error} if error else {})}


_MEASURED = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.TOOL_NAME, names.AGENT_NAME)

_OPERATIONS: Mapping[str, tuple[str, str]] = {
    "agent.run": (names.INVOKE_AGENT, "agent"),
    "agent.delegation": (names.INVOKE_AGENT, "name"),
    "agent.model_call": (names.CHAT, "model"),
    "agent.tool_call": (names.EXECUTE_TOOL, "name"),
}

_COMMON: Mapping[str, str] = {
    "run_id": names.RUN_ID,
    "conversation": names.CONVERSATION,
    "tenant": names.TENANT,
    "epoch": names.RUN_EPOCH,
    "status": names.RUN_STATUS,
    "error": names.ERROR_TYPE,
    "action_id": names.ACTION_ID,
    "model": names.REQUEST_MODEL,
    "provider": names.PROVIDER,
    "response_model": names.RESPONSE_MODEL,
    "input_tokens": names.INPUT_TOKENS,
    "output_tokens": names.OUTPUT_TOKENS,
    "cached_tokens": names.CACHED_TOKENS,
    "cache_written_tokens": names.CACHE_WRITTEN_TOKENS,
    "reasoning_tokens": names.REASONING_TOKENS,
    "first_chunk_seconds": names.TIME_TO_FIRST_CHUNK,
    "cost": names.COST,
    "cost_currency": names.CURRENCY,
    "pricing_version": names.PRICING_VERSION,
}

METRICS: Mapping[str, tuple[str, str]] = {
    "agent.model.tokens": ("pilotage.model.tokens", "{token}"),
    "agent.run.ended": ("pilotage.run.ended", "{run}"),
    "agent.budget.warnings": ("pilotage.budget.warnings", "{warning}"),
}
"""The measurements that are counts, each with its name and its unit; any other is a distribution."""


def span_of(name: str, attributes: Attributes | None) -> OtelSpan:
    """Return a span of ours as one of OpenTelemetry's."""
    given = attributes or {}
    operation, subject = _OPERATIONS.get(name, (None, "name"))
    target = given.get(subject)
    title = " ".join(str(part) for part in (operation or name, target) if part is not None)
    mapped = {**attributes_of(given), **_named(name, target, given), **_call(name, given)}
    mapped |= _content(given)
    if operation is not None:
        mapped[names.OPERATION] = operation
    return OtelSpan(title, operation, mapped, is_remote=operation == names.CHAT)


def _content(given: Attributes) -> dict[str, OtelValue]:
    """Return the messages of a model call in the form of the conventions; system messages are instructions there."""
    mapped: dict[str, OtelValue] = {}
    read = [as_object(each) for each in _messages(given.get("input_messages"))]
    if read:
        system = [part for each in read if each.get("role") == "system" for part in _parts(each)]
        others = [_message(each) for each in read if each.get("role") != "system"]
        mapped[names.INPUT_MESSAGES] = json.dumps(others, ensure_ascii=False)
        if system:
            mapped[names.SYSTEM_INSTRUCTIONS] = json.dumps(system, ensure_ascii=False)
    reply = [_message(as_object(each)) for each in _messages(given.get("output_messages"))]
    if reply:
        reason = str(given.get("finish_reason", "stop"))
        mapped[names.OUTPUT_MESSAGES] = json.dumps(
            [{**each, "finish_reason": reason} for each in reply], ensure_ascii=False
        )
    return mapped


def _messages(text: TelemetryValue | None) -> Sequence[JsonValue]:
    return list_or_empty(json.loads(text)) if isinstance(text, str) else ()


def _message(given: JsonObject) -> JsonObject:
    return {"role": given.get("role"), "parts": _parts(given)}


def _parts(given: JsonObject) -> list[JsonValue]:
    text, call_id = given.get("content"), given.get("call_id")
    if given.get("role") == "tool":
        return [{"type": "tool_call_response", "id": call_id, "response": text}]
    calls = [as_object(each) for each in list_or_empty(given.get("tool_calls"))]
    asked: list[JsonValue] = [
        {
            "type": "tool_call",
            "id": each.get("call_id"),
            "name": each.get("name"),
            "arguments": each.get("arguments"),
        }
        for each in calls
    ]
    return [*([{"type": "text", "content": text}] if text else []), *asked]


def attributes_of(given: Attributes) -> dict[str, OtelValue]:
    """Return our attributes under the names of the conventions; those without a name are left out."""
    mapped: dict[str, OtelValue] = {_COMMON[name]: value for name, value in given.items() if name in _COMMON}
    if (reason := given.get("finish_reason")) is not None:
        mapped[names.FINISH_REASONS] = (str(reason),)
    return mapped


def metric_attributes(given: Attributes | None) -> dict[str, OtelValue]:
    """Return the dimensions of a measurement."""
    agent = (given or {}).get("agent")
    return {**attributes_of(given or {}), **({names.AGENT_NAME: agent} if agent is not None else {})}


def _named(name: str, target: TelemetryValue | None, given: Attributes) -> dict[str, OtelValue]:
    if target is None:
        return {}
    match name:
        case "agent.run":
            return {names.AGENT_NAME: target, names.AGENT_ID: target}
        case "agent.delegation":
            return {names.AGENT_NAME: target}
        case "agent.tool_call":
            return {names.TOOL_NAME: target}
        case "agent.model_call":
            agent = given.get("agent")
            return {} if agent is None else {names.AGENT_NAME: agent}
        case _:
            return {names.ACTION_NAME: target}


def _call(name: str, given: Attributes) -> dict[str, OtelValue]:
    """Return the id of a tool call: that of its action, because the model's id is not unique."""
    call = given.get("action_id")
    return {names.TOOL_CALL_ID: call} if name == "agent.tool_call" and call is not None else {}
