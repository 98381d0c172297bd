"""Redacts one stream of text while it flows."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.redaction.audit import (
    EmissionAuditor,
    StreamingRedactionAudit,
    StreamingRedactionAuditStatus,
)
from pilotage.safety.redaction.policy import StreamingGuardFailureMode, StreamingRedactionPolicy
from pilotage.safety.redaction.scanner import Piece, Scanner
from pilotage.values import value


@value
class StreamingRedactionResult:
    """Text that may leave; at the end of the stream also the audit, and an error if the policy wants it."""

    chunks: tuple[str, ...]
    audit: StreamingRedactionAudit | None = None
    error: JsonObject | None = None


class StreamingRedactionSession:
    """Redacts one stream under a policy.

    The chunks joined are the whole text redacted, however it was pushed. A character is held back only as
    long as it may be part of a match.
    """

    def __init__(self, policy: StreamingRedactionPolicy) -> None:
        self._policy = policy
        self._scanner = Scanner(policy.rules)
        self._auditor = EmissionAuditor(policy)
        self._is_finished = False
        self._detected_count = 0

    @property
    def held_char_count(self) -> int:
        """How many characters are held back right now, never more than the policy's `buffer_size`."""
        return self._scanner.held

    @property
    def undecided(self) -> tuple[str, str]:
        """The character before the text that is held back right now, none at the start, and that text."""
        return self._scanner.undecided

    def push(self, text: str) -> StreamingRedactionResult:
        """Take more of the text; the chunks that it makes certain.

        Raises:
            AgentOutputGuardError: the session is finished.
        """
        return StreamingRedactionResult(self.take(text))

    def take(self, text: str) -> tuple[str, ...]:
        """The same for those who want nothing but the chunks.

        Raises:
            AgentOutputGuardError: the session is finished.
        """
        if self._is_finished:
            raise _is_over("push")
        return self._emitted(self._scanner.push(text))

    def finish(self) -> StreamingRedactionResult:
        """End the text; the last chunks and the audit.

        Raises:
            AgentOutputGuardError: the session is finished, or the audit failed and the policy says so.
        """
        if self._is_finished:
            raise _is_over("finish")
        self._is_finished = True
        chunks = self._emitted(self._scanner.finish())
        audit = self._audit()
        if audit.status is StreamingRedactionAuditStatus.PASSED:
            return StreamingRedactionResult(chunks, audit)
        if self._policy.failure_mode is StreamingGuardFailureMode.RAISE:
            raise AgentOutputGuardError(audit.to_error_payload()["message"])
        return StreamingRedactionResult(chunks, audit, audit.to_error_payload())

    def _emitted(self, pieces: Sequence[Piece]) -> tuple[str, ...]:
        if not pieces:
            return ()
        if self._scanner.spans:
            self._detected_count += len(self._scanner.spans)
            self._scanner.spans.clear()
        self._auditor.watch(pieces)
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first, str):
            text = first
        else:
            text = "".join([piece if isinstance(piece, str) else piece.outcome for piece in pieces])
        size = self._policy.emit_chunk_size
        if size is None or len(text) <= size:
            return (text,) if text else ()
        return tuple(text[start : start + size] for start in range(0, len(text), size))

    def _audit(self) -> StreamingRedactionAudit:
        self._detected_count += len(self._scanner.spans)
        missed = self._auditor.finish()
        is_clean = not missed and self._detected_count == self._auditor.redacted_count
        return StreamingRedactionAudit(
            StreamingRedactionAuditStatus.PASSED if is_clean else StreamingRedactionAuditStatus.FAILED,
            self._detected_count,
            self._auditor.redacted_count,
            missed,
            self._policy.buffer_size,
            self._auditor.emitted_char_count,
            self._scanner.decided,
        )


def _is_over(method: str) -> AgentOutputGuardError:
    return AgentOutputGuardError(
        f"StreamingRedactionSession.{method}: the session is finished. Use a new one for each stream."
    )
