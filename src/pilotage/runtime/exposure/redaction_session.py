"""Redaction of one streamed text by one or several policies. Pure.

The chunks of a session, joined, are the redacted text, however the text was cut, unless `release` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pilotage.errors import AgentOutputGuardError
from pilotage.safety.redaction.policy import StreamingRedactionPolicy
from pilotage.safety.redaction.session import StreamingRedactionResult, StreamingRedactionSession


class PolicySession:
    """Redacts a text by one policy, and can release undecided text before the policy has decided."""

    def __init__(self, policy: StreamingRedactionPolicy) -> None:
        self._policy = policy
        self._session = StreamingRedactionSession(policy)
        # The undecided text that was released early, and its redacted form.
        self._released = self._shown = ""

    @property
    def is_holding(self) -> bool:
        """Whether a part of the pushed text has not left."""
        return self._session.held_char_count > len(self._released)

    def push(self, text: str) -> Sequence[str]:
        """Add text; return the chunks that may leave now."""
        chunks = self._session.take(text)
        return self._not_shown(chunks) if self._released else chunks

    def release(self) -> Sequence[str]:
        """Return all that is held, as if the text ended here; the text may go on.

        If later text completes a match that began in released text, the rest of the match is still replaced.
        """
        before, undecided = self._session.undecided
        if undecided == self._released:
            return ()
        # A pattern may look at the character before.
        shown = self._policy.redact(before + undecided)[0].removeprefix(before)
        new = _beyond(shown, self._released) if shown == undecided else shown.removeprefix(self._shown)
        self._released, self._shown = undecided, shown
        return (new,) if new else ()

    def finish(self) -> Sequence[str]:
        """End the text; return the last chunks.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        result = self._session.finish()
        _reject_missed(result)
        return self._not_shown(result.chunks) if self._released else result.chunks

    def _not_shown(self, chunks: Sequence[str]) -> Sequence[str]:
        """Return decided chunks without the text that was released early."""
        if not chunks:
            return ()
        decided = "".join(chunks)
        if self._shown != self._released and decided.startswith(self._shown):
            new, self._released = decided.removeprefix(self._shown), ""
        elif self._released.startswith(decided):
            new, self._released = "", self._released.removeprefix(decided)
        else:
            new, self._released = _beyond(decided, self._released), ""
        self._shown = self._released
        return (new,) if new else ()


class ChainedSession:
    """Redacts a text by several policies in order, or by none: each session redacts the chunks of the one before."""

    def __init__(self, sessions: Sequence[PolicySession]) -> None:
        self._sessions = sessions

    @property
    def is_holding(self) -> bool:
        """Whether a part of the pushed text has not left."""
        return any(session.is_holding for session in self._sessions)

    def push(self, text: str) -> Sequence[str]:
        """Add text; return the chunks that may leave now."""
        chunks: Sequence[str] = (text,) if text else ()
        for session in self._sessions:
            chunks = _push_all(session, chunks)
        return chunks

    def release(self) -> Sequence[str]:
        """Return all that is held, as if the text ended here; the text may go on."""
        return self._drain(PolicySession.release)

    def finish(self) -> Sequence[str]:
        """End the text; return the last chunks. Raises what `PolicySession.finish` raises."""
        return self._drain(PolicySession.finish)

    def _drain(self, drain: Callable[[PolicySession], Sequence[str]]) -> Sequence[str]:
        chunks: Sequence[str] = ()
        for session in self._sessions:
            chunks = [*_push_all(session, chunks), *drain(session)]
        return chunks


RedactionSession: TypeAlias = PolicySession | ChainedSession


def session_of(policies: Sequence[StreamingRedactionPolicy]) -> RedactionSession:
    """Return a session in which each policy redacts the output of the policies before it."""
    sessions = [PolicySession(policy) for policy in policies]
    return sessions[0] if len(sessions) == 1 else ChainedSession(sessions)


def _push_all(session: PolicySession, chunks: Sequence[str]) -> list[str]:
    return [out for chunk in chunks for out in session.push(chunk)]


def _beyond(text: str, known: str) -> str:
    """Return the text after the prefix that it shares with a known text."""
    pairs = zip(text, known, strict=False)
    return text[next((at for at, (new, old) in enumerate(pairs) if new != old), min(len(text), len(known))) :]


def _reject_missed(result: StreamingRedactionResult) -> None:
    # A policy may report a missed match in its result instead of raising; the run must stop in either case.
    if result.error is not None:
        raise AgentOutputGuardError(result.error["message"])
