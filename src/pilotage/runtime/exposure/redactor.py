"""Redaction of everything that leaves a run: values, streamed texts, model calls as others may see them. Pure.

The chunks of a session, joined, are the redacted text, however the text was cut, unless `release` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeAlias, overload

from pilotage.agent.messages import ModelMessage, ModelToolCall, TextPart
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import HiddenArguments, ModelRequest, ToolCallingSpec, hidden_arguments
from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.exposure.secret_stream import HandedOutSecrets, SecretSession, SecretWatcher
from pilotage.safety.guard import guard_json_value
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


AnySession: TypeAlias = PolicySession | SecretSession


class ChainedSession:
    """Redacts a text by several sessions in order, or by none: each one redacts the chunks of the one before."""

    def __init__(self, sessions: Sequence[AnySession]) -> None:
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
        """Return all that is held and may leave, as if the text ended here; the text may go on."""
        chunks: Sequence[str] = ()
        for session in self._sessions:
            chunks = [*_push_all(session, chunks), *session.release()]
        return chunks

    def finish(self) -> Sequence[str]:
        """End the text; return the last chunks. Raises what `PolicySession.finish` raises."""
        chunks: Sequence[str] = ()
        for session in self._sessions:
            chunks = [*_push_all(session, chunks), *session.finish()]
        return chunks


RedactionSession: TypeAlias = AnySession | ChainedSession


def _push_all(session: AnySession, chunks: Sequence[str]) -> list[str]:
    return [out for chunk in chunks for out in session.push(chunk)]


def _beyond(text: str, known: str) -> str:
    """Return the text after the prefix that it shares with a known text."""
    pairs = zip(text, known, strict=False)
    return text[next((at for at, (new, old) in enumerate(pairs) if new != old), min(len(text), len(known))) :]


def _reject_missed(result: StreamingRedactionResult) -> None:
    # A policy may report a missed match in its result instead of raising; the run must stop in either case.
    if result.error is not None:
        raise AgentOutputGuardError(result.error["message"])


class Redactor(SecretWatcher):
    """Redacts everything that leaves a run. One per attempt; `revision` grows with every new secret of its tenant.

    While `is_idle`, there is nothing to redact and every text and value is returned as it is.
    """

    def __init__(
        self, policy: StreamingRedactionPolicy | None = None, secrets: HandedOutSecrets | None = None
    ) -> None:
        self._policy = policy
        self._secrets = secrets
        self.is_idle = policy is None
        self.revision = 0
        if secrets is not None:
            secrets.tell(self)
            if secrets.revision:
                self.secrets_changed()

    def register(self, secret: str) -> bool:
        """Redact a secret from now on, in every run of the tenant; return False for one that is too short for that."""
        if self._secrets is None:
            self._secrets = HandedOutSecrets()
            self._secrets.tell(self)
        return self._secrets.add(secret)

    def secrets_changed(self) -> None:
        if self._secrets is not None:
            self.is_idle, self.revision = False, self._secrets.revision

    def without_secrets(self, text: str) -> str:
        """Return a whole text without the secrets, whatever the policy says; the same object if it has none."""
        matcher = None if self._secrets is None else self._secrets.matcher
        return text if matcher is None else matcher.masked(text)

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
        matcher = None if self._secrets is None else self._secrets.matcher
        if matcher is None:
            return ChainedSession(()) if self._policy is None else PolicySession(self._policy)
        first = SecretSession(matcher)
        return first if self._policy is None else ChainedSession((first, PolicySession(self._policy)))

    def audit(self, text: str) -> None:
        """Redact a whole text as a stream, with the audit at its end.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        if not self.is_idle:
            session = self.session()
            session.push(text)
            session.finish()


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
