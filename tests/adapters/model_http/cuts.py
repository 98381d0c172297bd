"""Every cut of a recorded stream, read in process: time grows with the stream, not with its square.

Where a stream is cut matters to the parser of its events only. Between two events a parser has no state, so it is
enough to cut each event at every byte and to look at the events and at the state behind it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from pilotage.adapters.model_http.decoding import SseEvent, SseParser
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.agent.model_reply import ModelResponse

_END = re.compile(rb"\n\n|\r\n\r\n")


def pieces_of(body: bytes) -> list[bytes]:
    """The events of a stream as bytes, with what may follow the last."""
    ends = [found.end() for found in _END.finditer(body)]
    return [body[start:end] for start, end in pairwise(dict.fromkeys([0, *ends, len(body)]))]


def state_of(parser: SseParser) -> dict[str, Any]:
    return {name: [*each] if isinstance(each, list) else each for name, each in vars(parser).items()}


def settled(parser: SseParser) -> dict[str, Any]:
    """The state, with the pieces of an unfinished line as one."""
    state = state_of(parser)
    return {**state, "_line": b"".join(state["_line"])}


def clone(parser: SseParser) -> SseParser:
    twin = copy.copy(parser)
    vars(twin).update(state_of(parser))
    return twin


def assert_cuts_change_nothing(body: bytes) -> None:
    """Cut a stream in two at every byte: the events are those of the stream in one piece."""
    parser, events = SseParser(), list[SseEvent]()
    for piece in pieces_of(body):
        whole = clone(parser)
        expected = whole.feed(piece)
        for at in range(1, len(piece)):
            cut = clone(parser)
            assert cut.feed(piece[:at]) + cut.feed(piece[at:]) == expected
            assert settled(cut) == settled(whole)
        parser, events = whole, events + expected
    at_once = SseParser()
    assert at_once.feed(body) + at_once.close() == events + parser.close()


def early_ends(body: bytes, new_reader: Callable[[], WireReader]) -> Iterator[tuple[int, ModelResponse]]:
    """End a stream at every byte; yield the place and the reply where there is one, and stop there."""
    parser, reader, place = SseParser(), new_reader(), 0
    for piece in pieces_of(body):
        for at in range(len(piece)):
            ended = clone(parser)
            ended.feed(piece[:at])
            rest = ended.close()
            response = _read_to_end(reader, rest) if rest or not at else None
            if response is not None:
                yield place + at, response
                return
        try:
            for sent in parser.feed(piece):
                if not reader.is_over:
                    reader.read(sent)
        except ModelServerError:
            return  # the server's own error: what follows is not read
        place += len(piece)


def _read_to_end(reader: WireReader, rest: list[SseEvent]) -> ModelResponse | None:
    try:
        if not all(map(_is_whole, rest)):
            for sent in rest:
                reader.read(sent)
            raise AssertionError(f"half an event was read: {rest}")
        twin = copy.deepcopy(reader) if rest else reader
        for sent in rest:
            twin.read(sent)
        return twin.finish()[0]
    except ModelServerError:
        return None


def _is_whole(sent: SseEvent) -> bool:
    try:
        json.loads(sent.data)
    except ValueError:
        return sent.data == b"[DONE]"
    return True
