"""What a guarded client refuses, in two classes: before anything was sent, and after.

The difference matters to a run. What was never sent has certainly not happened, so the first is a `ToolError`; after
the second the server may have done what it was asked: the outcome of a call that may not be repeated is unknown.
"""

from __future__ import annotations

from typing import ClassVar

from pilotage.errors import RunError, ToolError

__all__ = ["EgressAnswerRefused", "EgressRefused"]


class EgressRefused(ToolError):  # noqa: N818 - a refusal, as its users say
    """A request was not sent: its host, its address or its way there is not allowed."""

    message: ClassVar[str] = "The request was not sent."
    code: ClassVar[str] = "egress_refused"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"The request to {url!r} was not sent: {why}")
        self.url, self.why = url, why


class EgressAnswerRefused(RunError):  # noqa: N818 - a refusal, as its users say
    """A request was sent, and its answer is not taken: it leads elsewhere, or is larger than allowed."""

    message: ClassVar[str] = "The answer was not taken."
    code: ClassVar[str] = "egress_answer_refused"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"The answer of {url!r} was not taken: {why}")
        self.url, self.why = url, why
