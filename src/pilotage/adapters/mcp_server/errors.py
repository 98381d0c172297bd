"""Errors as MCP clients see them: one table of codes for refusals, and results for what became of a run. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from pilotage.errors import PilotageError
from pilotage.inbound.problems import ProblemView, RunStoreUnreachableError, problem_of
from pilotage.jsonvalue import to_json_value

TASKS = "io.modelcontextprotocol/tasks"


def protocol_error(error: PilotageError | ProblemView) -> MCPError:
    """Return an error as one of JSON-RPC: one that the caller can fix with its words, any other with its code alone."""
    problem = error if isinstance(error, ProblemView) else problem_of(error)
    is_ours = problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    code = types.INTERNAL_ERROR if is_ours else types.INVALID_PARAMS
    return MCPError(code=code, message=problem.detail, data=_data_of(problem))


def _data_of(problem: ProblemView) -> Any:
    return to_json_value(problem.model_dump(exclude={"type", "title"}, exclude_defaults=True))


def store_unreachable() -> MCPError:
    """Return the error of a store that does not answer."""
    return protocol_error(RunStoreUnreachableError())


def unknown(what: str, name: str) -> MCPError:
    """Return the error of a name that is none of this server."""
    return MCPError(code=types.INVALID_PARAMS, message=f"Unknown {what}: {name[:200]!r}")


def needs_tasks() -> MCPError:
    """Return the error of a request that only a client with the Tasks extension can send."""
    required = types.ClientCapabilities(extensions={TASKS: {}})
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=required)
    return MCPError(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=f"This needs the extension {TASKS!r} in the capabilities of the client.",
        data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )
