"""Redacting one text of a run while it flows: the sessions of its policies, one behind the other. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Protocol

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonValue
from pilotage.safety.fields import SECRET_VALUE
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern
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


SHORTEST_SECRET = 4
"""Shorter values are not looked for: they would hit innocent text everywhere, and each hit would betray them."""
_MOST_CHARACTERS = 16_000


class Redactor:
    """Redacts everything that leaves a run. One per run; `revision` grows with every secret it learns.

    `is_idle` says that nothing is forbidden: then every text and value is given back as it is.
    """

    def __init__(self, policy: StreamingRedactionPolicy | None = None) -> None:
        self._policy = policy
        self._secrets: dict[str, StreamingSensitivePattern] = {}
        self._policies: tuple[StreamingRedactionPolicy, ...] | None = None
        self._any_secret: re.Pattern[str] | None = None
        self.is_idle = policy is None
        self.revision = 0

    def register(self, secret: str) -> bool:
        """Look for a secret from now on, as it is and as JSON text writes it; blanks around it do not count.

        False for one that is shorter than `SHORTEST_SECRET` and so is not looked for.

        Raises:
            AgentOutputGuardError: the secrets of the run are too long to be looked for.
        """
        secret = secret.strip()
        if len(secret) < SHORTEST_SECRET:
            return False
        new = _forms(secret) - self._secrets.keys()
        if new:
            length = sum(map(len, (*self._secrets, *new)))
            if length > _MOST_CHARACTERS:
                raise AgentOutputGuardError(
                    f"The secrets of this run have {length} characters, and at most {_MOST_CHARACTERS} can be looked "
                    "for. Let the tool take a reference to a file or a short-lived token instead of the long secret."
                )
            for form in new:
                self._secrets[form] = StreamingSensitivePattern("secret", re.escape(form), SECRET_VALUE)
            self._policies, self._any_secret, self.is_idle = None, re.compile(_any_of(self._secrets)), False
            self.revision += 1
        return True

    def without_secrets(self, text: str) -> str:
        """A whole text without the secrets, whatever else the policy forbids; the same object where there are none."""
        # For literals `re` finds in a whole text what a session finds in a stream, ten times as fast.
        if self._any_secret and self._any_secret.search(text):
            return self._any_secret.sub(SECRET_VALUE, text)
        return text

    def text(self, text: str) -> str:
        """A whole text, redacted; the same object where nothing is forbidden in it."""
        text = self.without_secrets(text)
        if self._policy is None:
            return text
        redacted, count = self._policy.redact(text)
        return redacted if count else text

    def json(self, value: JsonValue) -> JsonValue:
        """A JSON value with every string and every key redacted; the same object where nothing is forbidden."""
        return value if self.is_idle else self._redacted(value)

    def session(self) -> IRedactionSession:
        """A session for one text that flows. Secrets that are registered later are not in it."""
        return session_of(self._in_force())

    def audit(self, text: str) -> None:
        """Redact a whole text as a stream, with the audit at its end.

        Raises:
            AgentOutputGuardError: something was missed.
        """
        if not self.is_idle:
            session = self.session()
            session.push(text)
            session.finish()

    def _in_force(self) -> tuple[StreamingRedactionPolicy, ...]:
        if self._policies is None:
            secrets = (_policy_of(self._secrets),) if self._secrets else ()
            self._policies = (*secrets, self._policy) if self._policy else secrets
        return self._policies

    def _redacted(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            entries = {self.text(key): self._redacted(item) for key, item in value.items()}
            return value if _are_same([*value, *value.values()], [*entries, *entries.values()]) else entries
        if isinstance(value, Sequence):
            items = [self._redacted(item) for item in value]
            return value if _are_same(value, items) else items
        return value


def _forms(secret: str) -> set[str]:
    written = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    return {secret, *written}


def _longest_first(secrets: Iterable[str]) -> list[str]:
    """So that a secret that contains another one is replaced as a whole."""
    return sorted(secrets, key=len, reverse=True)


def _any_of(secrets: Iterable[str]) -> str:
    return "|".join(map(re.escape, _longest_first(secrets)))


def _policy_of(secrets: Mapping[str, StreamingSensitivePattern]) -> StreamingRedactionPolicy:
    patterns = [secrets[form] for form in _longest_first(secrets)]
    return StreamingRedactionPolicy(patterns, buffer_size=max(pattern.longest_hold for pattern in patterns))


def _are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))


def secretless(value: JsonValue, redactor: Redactor) -> JsonValue:
    """The value with a mark in the place of every secret that the run has seen; itself where there is none."""
    return _without(value, redactor) if redactor.revision else value


def _without(value: JsonValue, redactor: Redactor) -> JsonValue:
    if isinstance(value, str):
        return redactor.without_secrets(value)
    if isinstance(value, Mapping):
        entries = {redactor.without_secrets(key): _without(item, redactor) for key, item in value.items()}
        return value if entries == value else entries
    if isinstance(value, Sequence):
        items = [_without(item, redactor) for item in value]
        return value if items == list(value) else items
    return value
