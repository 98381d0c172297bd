"""Errors between AG-UI and a run. Their statuses over HTTP are those of the errors they derive from.

AbstractAgUiError
├── AgUiRunResolutionError      an input names no run: no user message, a wrong field
├── AgUiInputTooLargeError      an input is longer than this server accepts
├── AgUiApprovalDecodeError     an input carries no decision that can be read
├── AgUiThreadBusyError         the run of the thread is under way and takes no messages
├── AgUiPendingApprovalError    a run does not wait for an approval, or for the result of a tool call
└── AgUiEndpointConflictError   two agents want the same path
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import ApplicationStartError, CallerError, RunConflictError
from pilotage.inbound.problems import BodyTooLargeError, RequestRefusedError


class AbstractAgUiError(CallerError):
    """Base of the errors between AG-UI and a run."""

    message: ClassVar[str] = "The AG-UI request cannot be served."
    code: ClassVar[str] = "agui_error"


class AgUiRunResolutionError(AbstractAgUiError, RequestRefusedError):
    """An AG-UI input does not name a run to start, or its input."""

    message: ClassVar[str] = "The AG-UI input names no run."
    code: ClassVar[str] = "agui_run_resolution_error"


class AgUiInputTooLargeError(AbstractAgUiError, BodyTooLargeError):
    """An AG-UI input is longer than this server takes, or has more of something."""

    message: ClassVar[str] = "The AG-UI input is too large."
    code: ClassVar[str] = "agui_input_too_large"


class AgUiApprovalDecodeError(AbstractAgUiError, RequestRefusedError):
    """An AG-UI input carries no decision that can be read; nothing was decided."""

    message: ClassVar[str] = "The AG-UI input carries no decision that can be read."
    code: ClassVar[str] = "agui_approval_decode_error"


class AgUiThreadBusyError(AbstractAgUiError, RunConflictError):
    """The run of the thread is under way, and the message cannot be given to it; the page shows the reason."""

    message: ClassVar[str] = "The thread is busy."
    code: ClassVar[str] = "agui_thread_busy"


class AgUiPendingApprovalError(AbstractAgUiError):
    """A run does not wait for the content of an input, or has no question to show."""

    message: ClassVar[str] = "The run waits for no approval."
    code: ClassVar[str] = "agui_pending_approval_error"


class AgUiEndpointConflictError(ApplicationStartError, AbstractAgUiError):
    """Two agents have the same path; the application does not start."""

    message: ClassVar[str] = "The path is taken by another agent."
    code: ClassVar[str] = "agui_endpoint_conflict"
