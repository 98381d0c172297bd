"""The redactor of a run: what its policy and its secrets forbid leaves by no sink. Pure.

Secrets go first, then the patterns of the policy look at what is left. In one scan a pattern that ends inside a
secret would let the rest of the secret through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import is_

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.stream.redaction_session import IRedactionSession, session_of
from pilotage.safety.fields import SECRET_VALUE
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern

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
