"""Results of runs as results of calls: text, structured content, media, and errors that a model may read."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from pilotage.adapters.mcp_server.catalog import ServedTool
from pilotage.adapters.mcp_server.content import media_block
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.runs import AgentRuns

RUN = "io.pilotage/run"
"""The name in `_meta` of a result: the run that it is of, and its status."""
# What readers get of an exception that is not declared: its type, and the id under which the log has its text.
_FAULT = re.compile(r"\(error [0-9a-f]{12}\)$")
_DIGEST = re.compile("[0-9a-f]{64}")


def failure(words: str, state: AgentState | None = None) -> types.CallToolResult:
    """Return a result that is an error, for the model of the client to read."""
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True, _meta=meta_of(state))


def meta_of(state: AgentState | None) -> dict[str, Any] | None:
    """Return what a result says about its run."""
    return None if state is None else {RUN: {"id": state.id, "status": state.status.value}}


def has_broken_down(state: AgentState, result: RunResult) -> bool:
    """Return whether a run has failed by a fault of the application, and not by what it was asked."""
    words = str((result.error or {}).get("message"))
    return state.status is AgentStatus.FAILED and _FAULT.search(words) is not None


class ResultMapping:
    """Maps the results of runs; media are read from the store of the application."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs

    async def of(self, tool: ServedTool, result: RunResult, principal: Principal) -> types.CallToolResult:
        """Return the result of a run that has ended."""
        state = result.state
        if state.status is not AgentStatus.COMPLETED:
            error = result.error or {}
            words = str(error.get("message") or state.current_activity or f"The run ended as {state.status}.")
            return failure(words, state)
        output: JsonValue = to_json_value(result.output)
        return types.CallToolResult(
            content=await self._content(state, output, principal),
            structured_content=tool.structure_of(output),
            _meta=meta_of(state),
        )

    async def _content(self, state: AgentState, output: JsonValue, principal: Principal) -> list[Any]:
        return [await self._block(state, each, principal) for each in _parts_of(output) or [output]]

    async def _block(self, state: AgentState, part: JsonValue, principal: Principal) -> Any:
        if isinstance(part, Mapping) and (media := _media_in(part)) is not None:
            return await self._media(state, media, part, principal)
        if isinstance(part, Mapping) and set(part) == {"text"}:
            part = part["text"]
        return types.TextContent(text=part if isinstance(part, str) else json.dumps(part, ensure_ascii=False))

    async def _media(
        self, state: AgentState, media_type: str, part: Mapping[str, Any], principal: Principal
    ) -> Any:
        """Return media with their bytes, which a durable run has stored; others by their address."""
        data: Any = part.get("data")
        if isinstance(digest := part.get("digest"), str) and _DIGEST.fullmatch(digest):
            stored = await self._runs.media(state.id, digest, principal=principal)
            media_type, data = stored.media_type, b64encode(stored.content).decode("ascii")
        inline = f"pilotage://runs/{state.id}/media/{part.get('digest') or 'inline'}"
        return media_block(
            media_type,
            data if isinstance(data, str) else None,
            url=str(part.get("url") or inline),
            name=str(part.get("name") or media_type),
        )


def _media_in(part: Mapping[str, Any]) -> str | None:
    """Return the type of media in a part; None for any other object."""
    found = part.get("media_type")
    return found if isinstance(found, str) and ("url" in part or "data" in part or "digest" in part) else None


def _parts_of(output: JsonValue) -> list[JsonValue]:
    """Return the parts of an output that is a list of them, at least one of which has media; none of any other."""
    if not isinstance(output, list | tuple) or not all(isinstance(each, Mapping) for each in output):
        return []
    parts = [each for each in output if isinstance(each, Mapping)]
    media = [each for each in parts if _media_in(each) is not None]
    are_parts = media and all(_media_in(each) is not None or set(each) == {"text"} for each in parts)
    return [*parts] if are_parts else []
