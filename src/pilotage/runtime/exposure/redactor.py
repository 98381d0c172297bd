"""Redaction of everything that leaves a run: the secrets it has used and the policy of its agent. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import overload

from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.exposure.redaction_session import RedactionSession, session_of
from pilotage.safety.fields import SECRET_VALUE
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern

SHORTEST_SECRET = 4
"""Shorter secrets are not redacted: they would match innocent text everywhere, and each match would reveal them."""
_MOST_CHARACTERS = 16_000


class Redactor:
    """Redacts everything that leaves a run. One per run; `revision` grows with every registered secret.

    While `is_idle`, there is nothing to redact and every text and value is returned as it is.
    """

    def __init__(self, policy: StreamingRedactionPolicy | None = None) -> None:
        self._policy = policy
        self._secrets: dict[str, StreamingSensitivePattern] = {}
        self._policies: tuple[StreamingRedactionPolicy, ...] | None = None
        self._any_secret: re.Pattern[str] | None = None
        self.is_idle = policy is None
        self.revision = 0

    def register(self, secret: str) -> bool:
        """Redact a secret from now on, as it is and as JSON text writes it, without surrounding blanks.

        Returns False for one that is shorter than `SHORTEST_SECRET` and so is not redacted.

        Raises:
            AgentOutputGuardError: the secrets of the run are too long to search for.
        """
        secret = secret.strip()
        if len(secret) < SHORTEST_SECRET:
            return False
        new = _forms(secret) - self._secrets.keys()
        if new:
            self._add(new)
        return True

    def without_secrets(self, text: str) -> str:
        """Return a whole text without the secrets, whatever the policy says; the same object if it has none."""
        # For literals `re` finds in a whole text what a session finds in a stream, ten times as fast.
        if self._any_secret and self._any_secret.search(text):
            return self._any_secret.sub(SECRET_VALUE, text)
        return text

    def text(self, text: str) -> str:
        """Return a whole text redacted; the same object if nothing is redacted."""
        text = self.without_secrets(text)
        if self._policy is None:
            return text
        redacted, count = self._policy.redact(text)
        return redacted if count else text

    @overload
    def json(self, value: JsonObject) -> JsonObject: ...
    @overload
    def json(self, value: JsonValue) -> JsonValue: ...
    def json(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with every string and key redacted; the same object if nothing is redacted."""
        return value if self.is_idle else _map_strings(value, self.text)

    def session(self) -> RedactionSession:
        """Return a session for one streamed text. It does not redact secrets that are registered later."""
        return session_of(self._policies_in_force())

    def audit(self, text: str) -> None:
        """Redact a whole text as a stream, with the audit at its end.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        if not self.is_idle:
            session = self.session()
            session.push(text)
            session.finish()

    def _add(self, forms: set[str]) -> None:
        # Longest first: a secret that contains another one is replaced as a whole.
        secrets = sorted(forms.union(self._secrets), key=len, reverse=True)
        if (length := sum(map(len, secrets))) > _MOST_CHARACTERS:
            raise AgentOutputGuardError(
                f"The secrets of this run have {length} characters, and at most {_MOST_CHARACTERS} can be looked "
                "for. Let the tool take a reference to a file or a short-lived token instead of the long secret."
            )
        self._secrets = {
            form: self._secrets.get(form)
            or StreamingSensitivePattern("secret", re.escape(form), SECRET_VALUE)
            for form in secrets
        }
        self._any_secret = re.compile("|".join(map(re.escape, secrets)))
        self._policies, self.is_idle = None, False
        self.revision += 1

    def _policies_in_force(self) -> tuple[StreamingRedactionPolicy, ...]:
        if self._policies is None:
            secrets = (_policy_of(list(self._secrets.values())),) if self._secrets else ()
            self._policies = (*secrets, self._policy) if self._policy else secrets
        return self._policies


@overload
def secretless(value: JsonObject, redactor: Redactor) -> JsonObject: ...
@overload
def secretless(value: JsonValue, redactor: Redactor) -> JsonValue: ...
def secretless(value: JsonValue, redactor: Redactor) -> JsonValue:
    """Return a JSON value with the run's secrets masked in every string and key; the same object if it has none."""
    return _map_strings(value, redactor.without_secrets) if redactor.revision else value


def _map_strings(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """Return a JSON value with every string and key changed; the same object if every change is the same object."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        entries = {change(key): _map_strings(item, change) for key, item in value.items()}
        return value if _are_same([*value, *value.values()], [*entries, *entries.values()]) else entries
    if isinstance(value, Sequence):
        items = [_map_strings(item, change) for item in value]
        return value if _are_same(value, items) else items
    return value


def _are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))


def _forms(secret: str) -> set[str]:
    escaped = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    return {secret, *escaped}


def _policy_of(secrets: Sequence[StreamingSensitivePattern]) -> StreamingRedactionPolicy:
    return StreamingRedactionPolicy(secrets, buffer_size=max(secret.longest_hold for secret in secrets))
