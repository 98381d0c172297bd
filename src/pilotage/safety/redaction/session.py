"""Redacts one stream of text, and audits the emitted text by a second scan.

Replacements are opaque to the audit: a match that would need a character of a replacement does not count, one between
replacements does. Neighbours are those of the original text, as for the redaction: a number that stands alone only
because the next word was replaced was not missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode,
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
)
from pilotage.safety.redaction.scanner import Piece, Resumed, Scanner
from pilotage.values import value

_MOST_MISSED = 100
_READ_AT_ONCE = 4096


class StreamingRedactionAuditStatus(StrEnum):
    """Result of an audit."""

    PASSED = "passed"
    FAILED = "failed"


@value
class StreamingRedactionAudit:
    """Figures of a session; `missed_matches` names the first hundred at most."""

    status: StreamingRedactionAuditStatus
    detected_count: int
    redacted_count: int
    missed_matches: tuple[StreamingRedactionMatch, ...]
    buffer_size: int
    emitted_char_count: int
    original_char_count: int

    @property
    def missed_count(self) -> int:
        return len(self.missed_matches)

    def joined(self, other: StreamingRedactionAudit) -> StreamingRedactionAudit:
        """Return the audit of both texts."""
        failed = StreamingRedactionAuditStatus.FAILED
        return StreamingRedactionAudit(
            status=failed if failed in (self.status, other.status) else self.status,
            detected_count=self.detected_count + other.detected_count,
            redacted_count=self.redacted_count + other.redacted_count,
            missed_matches=(*self.missed_matches, *other.missed_matches)[:_MOST_MISSED],
            buffer_size=max(self.buffer_size, other.buffer_size),
            emitted_char_count=self.emitted_char_count + other.emitted_char_count,
            original_char_count=self.original_char_count + other.original_char_count,
        )

    def to_evidence_payload(self) -> JsonObject:
        """Return the audit as JSON for the record, without any of the text."""
        return {
            "kind": "streaming_redaction_audit",
            "status": self.status.value,
            "detected_count": self.detected_count,
            "redacted_count": self.redacted_count,
            "missed_count": self.missed_count,
            "missed_matches": tuple(match.to_payload() for match in self.missed_matches),
            "buffer_size": self.buffer_size,
            "emitted_char_count": self.emitted_char_count,
            "original_char_count": self.original_char_count,
        }

    def to_error_payload(self) -> JsonObject:
        """Return the audit as the JSON of an error."""
        return {
            "code": "streaming_redaction_audit_failed",
            "message": f"Streaming redaction emitted {self.missed_count} sensitive match(es).",
            "retryable": False,
            "metadata": self.to_evidence_payload(),
        }


class EmissionAuditor:
    """Second scan of the emitted text of a session; its memory does not grow with the text."""

    def __init__(self, policy: StreamingRedactionPolicy) -> None:
        self._patterns = policy.patterns
        self._scanner = Scanner(policy.rules)
        self._missed: list[StreamingRedactionMatch] = []
        self._unread: list[str] = []
        self._unread_count = 0
        self.redacted_count = 0
        self._is_joined = False

    @property
    def emitted_char_count(self) -> int:
        """How many characters were emitted, replacements included; final after `finish`."""
        return self._scanner.decided

    def watch(self, pieces: Iterable[Piece]) -> None:
        """Scan the next emitted pieces."""
        for piece in pieces:
            if isinstance(piece, str):
                self._unread.append(piece)
                self._unread_count += len(piece)
                continue
            self._read()
            if isinstance(piece, Resumed):
                self._resume_after(piece)
                continue
            self.redacted_count += 1
            self._is_joined = not piece.outcome
            if piece.outcome:
                self._scanner.finish(after=piece.first)
                self._scanner.resume(text=piece.outcome)
        if self._unread_count >= _READ_AT_ONCE:
            self._read()

    def _resume_after(self, place: Resumed) -> None:
        # The text around an empty replacement is one text for its reader.
        if not self._is_joined:
            self._scanner.resume(text="", before=place.before)

    def finish(self) -> tuple[StreamingRedactionMatch, ...]:
        """End the emitted text and return the matches in it."""
        self._read()
        self._scanner.finish()
        self._note()
        return tuple(self._missed)

    def _read(self) -> None:
        """Scan the pieces gathered so far: together they cost a fraction of each by itself."""
        if self._unread:
            self._scanner.push("".join(self._unread))
            self._unread.clear()
            self._unread_count = 0
        self._note()

    def _note(self) -> None:
        for span in self._scanner.spans[: _MOST_MISSED - len(self._missed)]:
            pattern = self._patterns[span.pattern]
            match = StreamingRedactionMatch(pattern.name, span.start, span.end, pattern.metadata)
            self._missed.append(match)
        self._scanner.spans.clear()


@value
class StreamingRedactionResult:
    """Released text; at the end of the stream also the audit, and an error if the policy requires it."""

    chunks: tuple[str, ...]
    audit: StreamingRedactionAudit | None = None
    error: JsonObject | None = None


class StreamingRedactionSession:
    """Redaction of one stream under a policy.

    The chunks joined are the whole text redacted, however it was pushed. A character is held back only as
    long as it may be part of a match.
    """

    def __init__(self, policy: StreamingRedactionPolicy) -> None:
        self._policy = policy
        self._scanner = Scanner(policy.rules)
        self._auditor = EmissionAuditor(policy)
        self._is_finished = False
        self._detected_count = 0
        self.audit: StreamingRedactionAudit | None = None
        """The audit of a finished session, of one that failed too."""

    @property
    def held_char_count(self) -> int:
        """How many characters are held back right now, never more than the policy's `buffer_size`."""
        return self._scanner.held

    def push(self, chunk: str) -> StreamingRedactionResult:
        """Take more text and return the decided chunks.

        Raises:
            AgentOutputGuardError: the session is finished.
        """
        return StreamingRedactionResult(self.take(chunk))

    def take(self, text: str) -> tuple[str, ...]:
        """Take more text and return only the chunks; raise `AgentOutputGuardError` if the session is finished."""
        if self._is_finished:
            raise _is_over("push")
        return self._emitted(self._scanner.push(text))

    def finish(self) -> StreamingRedactionResult:
        """End the text and return the last chunks and the audit.

        Raises:
            AgentOutputGuardError: the session is finished, or the audit failed and the policy says so.
        """
        if self._is_finished:
            raise _is_over("finish")
        self._is_finished = True
        chunks = self._emitted(self._scanner.finish())
        audit = self.audit = self._audit()
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
            status=StreamingRedactionAuditStatus.PASSED if is_clean else StreamingRedactionAuditStatus.FAILED,
            detected_count=self._detected_count,
            redacted_count=self._auditor.redacted_count,
            missed_matches=missed,
            buffer_size=self._policy.buffer_size,
            emitted_char_count=self._auditor.emitted_char_count,
            original_char_count=self._scanner.decided,
        )


def _is_over(method: str) -> AgentOutputGuardError:
    return AgentOutputGuardError(
        f"StreamingRedactionSession.{method}: the session is finished. Use a new one for each stream."
    )
