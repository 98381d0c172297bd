"""Redacting one text of a run while it flows: the sessions of its policies, one behind the other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pilotage.errors import AgentOutputGuardError
from pilotage.safety.redaction.policy import StreamingRedactionPolicy
from pilotage.safety.redaction.session import StreamingRedactionResult, StreamingRedactionSession


class IRedactionSession(Protocol):
    """Redacts one text while it flows.

    What it gives, joined, is the whole text redacted, however it was pushed; unless `release` was called.
    """

    @property
    def is_holding(self) -> bool:
        """Whether something that was pushed has not left."""
        ...

    def push(self, text: str) -> Sequence[str]:
        """Take more of the text; the chunks of it that may leave now."""
        ...

    def release(self) -> Sequence[str]:
        """All that is held back, as if the text ended here; but it goes on.

        Where what follows makes a match of text that has left by this, the rest of the match is still replaced.
        """
        ...

    def finish(self) -> Sequence[str]:
        """End the text; the last chunks.

        Raises:
            AgentOutputGuardError: the audit found something that was missed.
        """
        ...


def session_of(policies: Sequence[StreamingRedactionPolicy]) -> IRedactionSession:
    """A session in which each policy looks at what those before it leave."""
    stages = [_Stage(policy) for policy in policies]
    return stages[0] if len(stages) == 1 else _Chain(stages)


class _Stage:
    """A session of one policy from which undecided text can be taken before it is decided."""

    def __init__(self, policy: StreamingRedactionPolicy) -> None:
        self._policy = policy
        self._session = StreamingRedactionSession(policy)
        # What was taken of the text that is held back, and what was shown in its place.
        self._taken = self._shown = ""

    @property
    def is_holding(self) -> bool:
        return self._session.held_char_count > len(self._taken)

    def push(self, text: str) -> Sequence[str]:
        chunks = self._session.take(text)
        return self._not_shown(chunks) if self._taken else chunks

    def release(self) -> Sequence[str]:
        before, undecided = self._session.undecided
        if undecided == self._taken:
            return ()
        # A pattern may look at the character before.
        shown = self._policy.redact(before + undecided)[0].removeprefix(before)
        new = _beyond(shown, self._taken) if shown == undecided else shown.removeprefix(self._shown)
        self._taken, self._shown = undecided, shown
        return (new,) if new else ()

    def finish(self) -> Sequence[str]:
        result = self._session.finish()
        _reject_missed(result)
        return self._not_shown(result.chunks) if self._taken else result.chunks

    def _not_shown(self, chunks: Sequence[str]) -> Sequence[str]:
        """What is decided now, without what was taken before it was."""
        if not chunks:
            return ()
        decided = "".join(chunks)
        if self._shown != self._taken and decided.startswith(self._shown):
            new, self._taken = decided.removeprefix(self._shown), ""
        elif self._taken.startswith(decided):
            new, self._taken = "", self._taken.removeprefix(decided)
        else:
            new, self._taken = _beyond(decided, self._taken), ""
        self._shown = self._taken
        return (new,) if new else ()


class _Chain:
    """Sessions one behind the other, or none at all: what one of them gives, the next one takes."""

    def __init__(self, stages: Sequence[_Stage]) -> None:
        self._stages = stages

    @property
    def is_holding(self) -> bool:
        return any(stage.is_holding for stage in self._stages)

    def push(self, text: str) -> Sequence[str]:
        chunks: Sequence[str] = (text,) if text else ()
        for stage in self._stages:
            chunks = _pushed(stage, chunks)
        return chunks

    def release(self) -> Sequence[str]:
        return self._drained(_Stage.release)

    def finish(self) -> Sequence[str]:
        return self._drained(_Stage.finish)

    def _drained(self, drain: Callable[[_Stage], Sequence[str]]) -> Sequence[str]:
        chunks: Sequence[str] = ()
        for stage in self._stages:
            chunks = [*_pushed(stage, chunks), *drain(stage)]
        return chunks


def _pushed(stage: _Stage, chunks: Sequence[str]) -> list[str]:
    return [out for chunk in chunks for out in stage.push(chunk)]


def _beyond(text: str, known: str) -> str:
    """The text behind the beginning that it shares with a known one."""
    pairs = zip(text, known, strict=False)
    return text[next((at for at, (new, old) in enumerate(pairs) if new != old), min(len(text), len(known))) :]


def _reject_missed(result: StreamingRedactionResult) -> None:
    # A policy may report in its result instead of raising; a run has to stop in either case.
    if result.error is not None:
        raise AgentOutputGuardError(result.error["message"])
