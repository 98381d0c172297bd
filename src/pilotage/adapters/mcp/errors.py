"""Errors of MCP servers, in one table: what a failed request means for the outcome of its call.

A request that certainly did not reach its server has not happened; one that the server refused has not happened either.
Of every other failure (a broken line, a time-out, an answer that cannot be read) the outcome is unknown.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import ClassVar

from pilotage.errors import RunError, StartupError, ToolError

NOT_SENT = -39001
"""The code of a request that our transport did not send."""
LINE_BROKEN = -39002
"""... of one whose answer did not come, or cannot be read."""
STATUS_REFUSED = -39003
"""... of one that an HTTP server refused by its status."""
SESSION_GONE = -39004
"""... of one for a session that the server does not know any more."""

_CONNECTION_CLOSED, _REQUEST_TIMEOUT = -32000, -32001
_REFUSED = frozenset({-32601, -32602, -32002, -32003, -32020, -32021, -32022, STATUS_REFUSED})
"""No such method, wrong parameters, no such thing, a missing capability, a wrong header or version."""
_UNSENT = frozenset({NOT_SENT, SESSION_GONE})


class McpStartError(StartupError):
    """An MCP server cannot be used: it does not start, does not speak the protocol, or lists tools that cannot be."""

    message: ClassVar[str] = "An MCP server cannot be used."

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"MCP server {server!r}: {why}")
        self.server, self.why = server, why


class McpUnavailableError(ToolError):
    """A call was not sent: its server is not connected, or cannot be reached."""

    message: ClassVar[str] = "The MCP server cannot be reached."
    code: ClassVar[str] = "mcp_unavailable"


class McpRefusedError(ToolError):
    """A server refused a call, reported that its tool failed, or asks for what this client does not give."""

    message: ClassVar[str] = "The MCP server refused the call."
    code: ClassVar[str] = "mcp_refused"


class McpUnknownOutcomeError(RunError):
    """A call was sent, and its outcome is not known."""

    message: ClassVar[str] = "The outcome of an MCP call is unknown."
    code: ClassVar[str] = "mcp_unknown_outcome"


class McpVerdict(Enum):
    """What a failed request means."""

    UNSENT = "unsent"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Sending:
    """A request on its way: whether its transport has begun to write it."""

    __slots__ = ("has_begun",)

    def __init__(self, *, has_begun: bool = False) -> None:
        self.has_begun = has_begun


sending: ContextVar[Sending | None] = ContextVar("pilotage_mcp_sending", default=None)
"""The request that the running code sends."""


def verdict_on(code: int, request: Sending) -> McpVerdict:
    """Return what an error means for a request."""
    if code in _UNSENT or not request.has_begun:
        return McpVerdict.UNSENT
    return McpVerdict.REFUSED if code in _REFUSED else McpVerdict.UNKNOWN


def reason_of(code: int, message: str) -> str:
    """Return an error in words."""
    if code == _REQUEST_TIMEOUT:
        return "it did not answer in time"
    if code == _CONNECTION_CLOSED:
        return f"the connection broke ({message})"
    return message if code in {NOT_SENT, LINE_BROKEN, STATUS_REFUSED, SESSION_GONE} else f"{message} ({code})"
