"""Assembly of tool calls from the pieces of a stream. Pure.

Invariant: an assembled call has the name of its first piece, and arguments that are one complete JSON object, made of
all its pieces in their order. Other arguments give a call that no tool accepts, so that the model gets an error for
it; a call that the end of the reply cut off is reported as cut. Everything else is an error.
"""

from __future__ import annotations

from pilotage.adapters.model_http.decoding import HalvesJoiner, read_arguments, storable, whole_characters
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.openai.request_mapping import EXTRA
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelStreamEvent, ModelStreamEventKind
from pilotage.agent.tools.bind import unreadable_arguments
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, object_or_empty
from pilotage.values import value

_START = ModelStreamEventKind.TOOL_CALL_START
_ARGUMENTS = ModelStreamEventKind.TOOL_CALL_ARGS_DELTA
_END = ModelStreamEventKind.TOOL_CALL_END


@value
class AssembledCalls:
    """The complete calls of a reply, and the names of those that its end cut off."""

    whole: tuple[ModelToolCall, ...] = ()
    cut: tuple[str, ...] = ()


class _Call:
    __slots__ = ("begun", "extra", "given_id", "halves", "is_ended", "pieces", "wire_name")

    def __init__(self, begun: ModelToolCall, given_id: str | None, wire_name: str) -> None:
        self.begun = begun
        self.given_id = given_id
        self.wire_name = wire_name
        self.pieces: list[str] = []
        self.is_ended = False
        self.halves = HalvesJoiner()
        self.extra: JsonValue = None
        """What the server wants back with the call."""


class CallAssembly:
    """The calls of one reply so far."""

    def __init__(self, names: WireNames, provider: Provider) -> None:
        self._names = names
        self._provider = provider
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def take(self, entries: JsonValue, reply_id: str) -> list[ModelStreamEvent]:
        """Return the events of the `tool_calls` of one delta; one call may have several entries in it.

        Raises:
            ModelServerError: a piece belongs to no call, or to one that has ended.
        """
        if not isinstance(entries, list):
            raise _broken("its tool_calls are no list")
        events: list[ModelStreamEvent] = []
        for position, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise _broken("an entry of its tool_calls is no object")
            self._take_entry(entry, position, reply_id, events)
        return events

    def end(self) -> list[ModelStreamEvent]:
        """Return the end of the call that is open, if there is one."""
        if not self._calls or self._calls[-1].is_ended:
            return []
        last = self._calls[-1]
        last.is_ended = True
        events = [ModelStreamEvent(_END, tool_call=last.begun)]
        if half := last.halves.finish():
            last.pieces.append(half)
            events.insert(0, ModelStreamEvent(_ARGUMENTS, tool_call=last.begun, tool_call_args_delta=half))
        return events

    def assembled(self, *, is_cut: bool) -> AssembledCalls:
        """Return all calls of a finished reply."""
        whole: list[ModelToolCall] = []
        cut: list[str] = []
        for call in self._calls:
            arguments = read_arguments("".join(call.pieces), may_be_empty=not is_cut)
            if arguments is None and is_cut:
                cut.append(call.begun.name)
                continue
            if arguments is None:
                arguments = unreadable_arguments("".join(call.pieces))
            state = None if call.extra is None else self._provider.state(EXTRA, call.extra)
            whole.append(ModelToolCall(call.begun.name, arguments, call.begun.call_id, state=state))
        return AssembledCalls(tuple(whole), tuple(cut))

    def _take_entry(
        self, entry: JsonObject, position: int, reply_id: str, events: list[ModelStreamEvent]
    ) -> None:
        fields = object_or_empty(entry.get("function"))
        name, call_id = _text(fields.get("name")), _text(entry.get("id"))
        index = self._index(entry.get("index"), call_id, position)
        call = self._at.get(index)
        if call is None or _is_another(call, name, call_id):
            call = self._begin(index, name, call_id, reply_id, events)
        elif name and name != call.wire_name:
            raise _broken(f"a call of {call.wire_name!r} goes on as one of {name!r}")
        if (extra := entry.get(EXTRA)) is not None:
            call.extra = extra
        arguments = fields.get("arguments")
        # Some servers send arguments that are decoded already.
        text = canonical_json(storable(arguments)) if isinstance(arguments, dict) else _text(arguments)
        if text and (text := call.halves.push(text)):
            if call.is_ended:
                raise _broken(f"a piece of the arguments of {call.wire_name!r} came after its end")
            call.pieces.append(text)
            events.append(ModelStreamEvent(_ARGUMENTS, tool_call=call.begun, tool_call_args_delta=text))

    def _index(self, index: object, call_id: str | None, position: int) -> int:
        """Return the index of the call; without an index, a piece is a whole call or belongs to the last one."""
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        if index is not None:
            raise _broken(f"the index of a call is {index!r}")
        known = [at for at, call in self._at.items() if call_id and call.given_id == call_id]
        if known:
            return known[0]
        return max(len(self._calls), position) if call_id else max(len(self._calls) - 1, 0)

    def _begin(
        self, index: int, name: str | None, call_id: str | None, reply_id: str, events: list[ModelStreamEvent]
    ) -> _Call:
        if not name:
            raise _broken("a piece of a call came before its name")
        events += self.end()
        own_id = call_id or f"{reply_id}-call-{len(self._calls) + 1}"
        begun = ModelToolCall(self._names.own(whole_characters(name)), {}, whole_characters(own_id))
        call = self._at[index] = _Call(begun, call_id, name)
        self._calls.append(call)
        events.append(ModelStreamEvent(_START, tool_call=begun))
        return call


def _is_another(call: _Call, name: str | None, call_id: str | None) -> bool:
    """Return whether a piece begins another call at the same index: some servers give every call the index 0."""
    return bool(name and call_id and call.given_id and call_id != call.given_id)


def _text(part: object) -> str | None:
    if part is None or isinstance(part, str):
        return part or None
    raise _broken(f"a part of a call is {type(part).__name__} where text belongs")


def _broken(what: str) -> ModelServerError:
    return failed(ModelFailure.BROKEN_CALL, what)
