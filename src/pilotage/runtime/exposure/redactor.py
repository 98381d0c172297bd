"""Redaction of everything that leaves a run: values, streamed texts, model calls, exceptions. Pure but for a log.

The chunks of a session, joined, are the redacted text, however the text was cut.

Failures are exceptions whose texts may quote any data, such as a connection string or content that a tool has read.
The texts of Pilotage's own errors, `ToolError` and the classes derived from it included, are shown. Of every other
exception readers and models get the type and an id. Its text goes to the logger `pilotage.failures` with the id and,
where the application has a key, into the sealed record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from traceback import format_exception
from typing import overload

from pilotage.agent.messages import (
    MediaPart,
    MessagePart,
    ModelMessage,
    ModelToolCall,
    TextPart,
    changed_parts,
)
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import HiddenArguments, ModelRequest, ToolCallingSpec, hidden_arguments
from pilotage.errors import AgentOutputGuardError, PilotageError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty, text_digest
from pilotage.runtime.exposure.secret_stream import (
    HandedOutSecrets,
    SecretMatcher,
    SecretSession,
    SecretWatcher,
)
from pilotage.safety.guard import guard_json_value
from pilotage.safety.redaction.policy import StreamingRedactionPolicy
from pilotage.safety.redaction.session import (
    StreamingRedactionAudit,
    StreamingRedactionResult,
    StreamingRedactionSession,
)
from pilotage.values import value


class TextSession:
    """Redacts one streamed text: first its secrets, then the matches of the policy.

    A character leaves when it cannot become part of a match any more, or at the end of the text.
    """

    def __init__(
        self,
        policy: StreamingRedactionPolicy | None,
        matcher: SecretMatcher | None,
        audited: Callable[[StreamingRedactionAudit], None] = lambda _: None,
    ) -> None:
        self._audited = audited
        self._secrets = None if matcher is None else SecretSession(matcher)
        self._policy = None if policy is None else StreamingRedactionSession(policy)

    @property
    def is_holding(self) -> bool:
        """Whether a part of the pushed text has not left."""
        holds_secrets = self._secrets is not None and self._secrets.is_holding
        return holds_secrets or (self._policy is not None and self._policy.held_char_count > 0)

    def look_for(self, matcher: SecretMatcher) -> None:
        """Redact other secrets from here on, in text that is held too."""
        if self._secrets is None:
            self._secrets = SecretSession(matcher)
        else:
            self._secrets.matcher = matcher

    def push(self, text: str) -> Sequence[str]:
        """Add text; return the chunks that may leave now."""
        if self._secrets is None:
            return self._decided((text,)) if text else ()
        return self._decided(self._secrets.push(text))

    def finish(self) -> Sequence[str]:
        """End the text; return the last chunks.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        chunks = self._decided(() if self._secrets is None else self._secrets.finish())
        if self._policy is None:
            return chunks
        try:
            result = self._policy.finish()
        finally:
            if self._policy.audit is not None:
                self._audited(self._policy.audit)
        _reject_missed(result)
        return [*chunks, *result.chunks]

    def _decided(self, chunks: Sequence[str]) -> Sequence[str]:
        """Return the chunks that may leave when the policy reads these too."""
        policy = self._policy
        if policy is None:
            return chunks
        if len(chunks) == 1:
            return policy.take(chunks[0])
        return [decided for chunk in chunks for decided in policy.take(chunk)]


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
        self.stream_audit: StreamingRedactionAudit | None = None
        """The audit of all streamed texts that have ended; None without a policy or before the first one."""
        if secrets is not None:
            secrets.notify(self)
            if secrets.revision:
                self.secrets_changed()

    def register(self, secret: str) -> bool:
        """Redact a secret from now on, in every run of the tenant; return False for one that is too short for that."""
        if self._secrets is None:
            self._secrets = HandedOutSecrets()
            self._secrets.notify(self)
        return self._secrets.add(secret)

    @property
    def is_always_idle(self) -> bool:
        """Whether there will never be anything to redact."""
        return False

    def secrets_changed(self) -> None:
        if self._secrets is not None:
            self.is_idle, self.revision = False, self._secrets.revision

    def without_secrets(self, text: str) -> str:
        """Return a whole text without the secrets, under every policy; the same object if it has none."""
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

    def session(self) -> TextSession:
        """Return a session for one streamed text; `update` it when the revision has changed."""
        matcher = None if self._secrets is None else self._secrets.matcher
        return TextSession(self._policy, matcher, self._add_audit)

    def secret_session(self) -> TextSession:
        """Return a session for one streamed text that masks its secrets only, whatever the policy says."""
        return TextSession(None, None if self._secrets is None else self._secrets.matcher)

    def _add_audit(self, audit: StreamingRedactionAudit) -> None:
        self.stream_audit = audit if self.stream_audit is None else self.stream_audit.joined(audit)

    def update(self, session: TextSession) -> None:
        """Let a session redact the secrets that were registered since it began."""
        if self._secrets is not None and self._secrets.matcher is not None:
            session.look_for(self._secrets.matcher)

    def audit(self, text: str) -> None:
        """Redact a whole text as a stream, with the audit at its end.

        Raises:
            AgentOutputGuardError: the audit found a match that was missed.
        """
        if not self.is_idle:
            session = TextSession(self._policy, None if self._secrets is None else self._secrets.matcher)
            session.push(text)
            session.finish()


class NoRedactor(Redactor):
    """The redactor of all runs without a policy, in applications that hand out no secrets."""

    @property
    def is_always_idle(self) -> bool:
        return True

    def register(self, secret: str) -> bool:
        raise AssertionError("this redactor is shared by runs that are given no secrets")


NO_REDACTOR = NoRedactor()


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
        ordered=None if response.ordered is None else _shown_parts(response.ordered, redactor, hidden),
    )


def _shown_order(parts: JsonValue) -> list[JsonValue]:
    """Return the order of a reply's parts without the states of its provider, and without text that is nowhere else."""
    entries = [object_or_empty(each) for each in list_or_empty(parts)]
    return [{key: entry[key] for key in ("kind", "chars", "origin") if key in entry} for entry in entries]


def _shown_parts(
    parts: Sequence[MessagePart], redactor: Redactor, hidden: HiddenArguments
) -> tuple[MessagePart, ...]:
    """Return parts for others than their provider; names and addresses of media are texts, too."""
    return changed_parts(parts, redactor.text, lambda call: _call(call, redactor, hidden), shows=True)


def recorded_reply(record: JsonObject, calling: ToolCallingSpec | None) -> JsonObject:
    """Return the record of a reply as others may read it: without the hidden arguments of its tool calls."""
    hidden, reply = hidden_arguments(calling), record.get("result")
    if not isinstance(reply, dict):
        return record
    if "parts" in reply:
        reply = {**reply, "parts": _shown_order(reply["parts"])}
        record = {**record, "result": reply}
    if not hidden or "tool_calls" not in reply:
        return record
    calls = reply["tool_calls"]
    guarded = [_recorded_call(call, hidden) for call in calls] if isinstance(calls, list) else []
    return {**record, "result": {**reply, "tool_calls": guarded}}


def _message(message: ModelMessage, redactor: Redactor, hidden: HiddenArguments) -> ModelMessage:
    content = message.content
    shown = (
        redactor.text(content)
        if isinstance(content, str)
        else [
            part for part in _shown_parts(content, redactor, hidden) if isinstance(part, TextPart | MediaPart)
        ]
    )
    calls = [_call(each, redactor, hidden) for each in message.tool_calls]
    ordered = None if message.ordered is None else _shown_parts(message.ordered, redactor, hidden)
    return replace(message, content=shown, tool_calls=calls, ordered=ordered)


def _call(call: ModelToolCall, redactor: Redactor, hidden: HiddenArguments) -> ModelToolCall:
    guarded = call.guarded(hidden.get(call.name, ()))
    return replace(guarded, arguments=redactor.json(guarded.arguments), state=None)


def _recorded_call(call: JsonValue, hidden: HiddenArguments) -> JsonValue:
    if not isinstance(call, dict):
        return None
    descriptors = hidden.get(str(call["name"]), ())
    return {**call, "arguments": guard_json_value(call["arguments"], descriptors)}


LOGGER = "pilotage.failures"
_LOG = logging.getLogger(LOGGER)
_LONGEST_WORDS = 4000
_LONGEST_LOGGED = 20_000


@value
class Failure:
    """An exception as models and readers get it: its type and an id. `words` is its text, None if it is not stored."""

    error_type: str
    error_id: str
    words: str | None = None

    @property
    def message(self) -> str:
        """The failure for models and readers."""
        return f"{self.error_type} (error {self.error_id})"

    def raised(self) -> ToolError:
        """Return the error that a program gets."""
        error = ToolError(self.message)
        error.error_type, error.error_id, error.words = self.error_type, self.error_id, self.words
        return error


def is_foreign(error: BaseException) -> bool:
    """Return whether the text of an exception is withheld: it is none of Pilotage's own errors."""
    return not isinstance(error, PilotageError)


def passed_on(error: BaseException) -> Failure | None:
    """Return the failure of a call inside that the program did not catch; None for any other error."""
    if not isinstance(error, ToolError) or error.error_type is None or error.error_id is None:
        return None
    return Failure(error.error_type, error.error_id, error.words)


def log_failure(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> Failure:
    """Log the text of a foreign exception, redacted, and return the failure with it.

    The id follows from run and place, which names the action and the attempt at it.
    """
    failure = Failure(
        type(error).__name__,
        text_digest(f"failure\n{run_id}\n{place}")[:12],
        redactor.without_secrets(str(error))[:_LONGEST_WORDS],
    )
    logged = redactor.text("".join(format_exception(error)))[-_LONGEST_LOGGED:]
    _LOG.error("error %s in run %s at %s: %s", failure.error_id, run_id, place, logged)
    return failure


def public_text(error: BaseException, redactor: Redactor, *, run_id: str, place: str) -> str:
    """Return the text of an error for models and readers; that of a foreign exception is logged."""
    return shown_with_words(error, redactor, run_id=run_id, place=place)[0]


def shown_with_words(
    error: BaseException, redactor: Redactor, *, run_id: str, place: str
) -> tuple[str, str | None]:
    """Return the text of an error for models and readers, and the withheld text for a sealed record."""
    if is_foreign(error):
        failure = log_failure(error, redactor, run_id=run_id, place=place)
        return failure.message, failure.words
    return f"{type(error).__name__}: {error}", None
