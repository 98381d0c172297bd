"""Redaction of everything that leaves a run: values, streamed texts, model calls as others may see them. Pure.

The chunks of a session, joined, are the redacted text, however the text was cut, unless `release` was called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeAlias, overload

from pilotage.agent.messages import ModelMessage, ModelToolCall, TextPart
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import HiddenArguments, ModelRequest, ToolCallingSpec, hidden_arguments
from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import SECRET_VALUE
from pilotage.safety.guard import guard_json_value
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern
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


def shown_request(request: ModelRequest, redactor: Redactor) -> ModelRequest:
    """Return a request as hooks may see it; the same object if nothing is hidden."""
    hidden = hidden_arguments(request.tool_calling)
    if redactor.is_idle and not hidden:
        return request
    return replace(request, messages=[_message(each, redactor, hidden) for each in request.messages])


def shown_response(response: ModelResponse, request: ModelRequest, redactor: Redactor) -> ModelResponse:
    """Return a reply as hooks may see it; the same object if nothing is hidden."""
    hidden = hidden_arguments(request.tool_calling)
    if redactor.is_idle and not hidden:
        return response
    return replace(
        response,
        content=redactor.text(response.content),
        structured_output=redactor.json(response.structured_output),
        tool_calls=[_call(each, redactor, hidden) for each in response.tool_calls],
        output=None,
    )


def recorded_reply(record: JsonObject, calling: ToolCallingSpec | None) -> JsonObject:
    """Return the record of a reply as others may read it: without the hidden arguments of its tool calls."""
    hidden, reply = hidden_arguments(calling), record.get("result")
    if not hidden or not isinstance(reply, dict) or "tool_calls" not in reply:
        return record
    calls = reply["tool_calls"]
    guarded = [_recorded_call(call, hidden) for call in calls] if isinstance(calls, list) else []
    return {**record, "result": {**reply, "tool_calls": guarded}}


def _message(message: ModelMessage, redactor: Redactor, hidden: HiddenArguments) -> ModelMessage:
    content = message.content
    shown = (
        redactor.text(content)
        if isinstance(content, str)
        else [TextPart(redactor.text(part.text)) if isinstance(part, TextPart) else part for part in content]
    )
    calls = [_call(each, redactor, hidden) for each in message.tool_calls]
    return replace(message, content=shown, tool_calls=calls)


def _call(call: ModelToolCall, redactor: Redactor, hidden: HiddenArguments) -> ModelToolCall:
    guarded = call.guarded(hidden.get(call.name, ()))
    return replace(guarded, arguments=redactor.json(guarded.arguments))


def _recorded_call(call: JsonValue, hidden: HiddenArguments) -> JsonValue:
    if not isinstance(call, dict):
        return None
    descriptors = hidden.get(str(call["name"]), ())
    return {**call, "arguments": guard_json_value(call["arguments"], descriptors)}
