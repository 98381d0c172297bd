"""What a reply says and thinks, piece by piece, in the order in which it came. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pilotage.adapters.model_http.decoding import HalvesJoiner, whole_characters
from pilotage.adapters.model_http.errors import failed
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.openai.request_mapping import DETAILS
from pilotage.agent.messages import MediaPart, MessagePart, ReasoningPart, RefusalPart, TextPart
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelStreamEvent, ModelStreamEventKind
from pilotage.jsonvalue import JsonValue, object_or_empty

_TOKEN, _REASONING = ModelStreamEventKind.TOKEN_DELTA, ModelStreamEventKind.REASONING_DELTA
_DATA = "data:"


class _Piece:
    """A text of one kind that came without another kind in between."""

    __slots__ = ("kind", "name", "texts")

    def __init__(self, kind: type[TextPart | ReasoningPart | RefusalPart], name: str | None) -> None:
        self.kind = kind
        self.name = name
        self.texts: list[str] = []


class Spoken:
    """The text, reasoning, refusal and media of one reply so far."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._pieces: list[_Piece | MediaPart] = []
        self._open = _Piece(TextPart, None)
        self._halves = {_TOKEN: HalvesJoiner(), _REASONING: HalvesJoiner()}
        self._details: list[JsonValue] = []
        self.refused = False

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._texts(ReasoningPart))

    @property
    def is_silent(self) -> bool:
        """Whether there is no text yet but blanks."""
        return not any(map(str.strip, (*self._texts(TextPart), *self._texts(RefusalPart))))

    def text(self, text: str) -> None:
        """Add text of the reply that has no half of a character."""
        (
            self._open if self._open.kind is TextPart and self._open.texts else self._begun(TextPart)
        ).texts.append(text)

    def say(self, text: str) -> Sequence[ModelStreamEvent]:
        """Return the event of a piece of text."""
        text = self._halves[_TOKEN].push(text)
        if not text:
            return ()
        self.text(text)
        return (ModelStreamEvent(_TOKEN, token_delta=text),)

    def refuse(self, text: str) -> Sequence[ModelStreamEvent]:
        """Return the event of a piece of a refusal, which is text of the reply."""
        self.refused = True
        text = self._halves[_TOKEN].push(text)
        if not text:
            return ()
        self._of(RefusalPart).texts.append(text)
        return (ModelStreamEvent(_TOKEN, token_delta=text),)

    def think(self, text: str, name: str | None) -> Sequence[ModelStreamEvent]:
        """Return the event of a piece of reasoning; `name` is the server's word for it."""
        text = self._halves[_REASONING].push(text)
        if not text:
            return ()
        self._of(ReasoningPart, name).texts.append(text)
        return (ModelStreamEvent(_REASONING, reasoning_delta=text),)

    def keep(self, details: JsonValue) -> None:
        """Keep what the server wants back with the reasoning."""
        self._details += details if isinstance(details, list) else [details]

    def show(self, media: Iterable[MediaPart]) -> None:
        """Add media of the reply."""
        for each in media:
            self._pieces.append(each)
            self._open = _Piece(TextPart, None)

    def finish(self) -> list[ModelStreamEvent]:
        """Return the last events: what was held back."""
        events: list[ModelStreamEvent] = []
        if half := self._halves[_REASONING].finish():
            self._of(ReasoningPart).texts.append(half)
            events.append(ModelStreamEvent(_REASONING, reasoning_delta=half))
        if half := self._halves[_TOKEN].finish():
            self.text(half)
            events.append(ModelStreamEvent(_TOKEN, token_delta=half))
        return events

    def answer_with_reasoning(self) -> None:
        """Take the reasoning for the text of the reply."""
        pieces = [each for each in self._pieces if isinstance(each, _Piece) and each.kind is ReasoningPart]
        text = _Piece(TextPart, None)
        text.texts = [text for each in pieces for text in each.texts]
        self._pieces = [*pieces, text]

    def parts(self) -> tuple[MessagePart, ...]:
        """Return the parts in their order; what the server wants back is on the first reasoning."""
        parts: list[MessagePart] = []
        state = self._provider.state(DETAILS, self._details) if self._details else None
        for piece in self._pieces:
            if isinstance(piece, MediaPart):
                parts.append(piece)
            elif piece.kind is ReasoningPart:
                parts.append(ReasoningPart("".join(piece.texts), self._origin(piece.name), state))
                state = None
            else:
                text = "".join(piece.texts)
                parts.append(TextPart(text) if piece.kind is TextPart else RefusalPart(text))
        return tuple(parts) if state is None else (ReasoningPart("", None, state), *parts)

    def _origin(self, field: str | None) -> str | None:
        return None if field is None else self._provider.origin(field)

    def _of(self, kind: type[TextPart | ReasoningPart | RefusalPart], name: str | None = None) -> _Piece:
        piece = self._open
        return piece if piece.kind is kind and piece.texts else self._begun(kind, name)

    def _begun(self, kind: type[TextPart | ReasoningPart | RefusalPart], name: str | None = None) -> _Piece:
        self._open = _Piece(kind, name)
        self._pieces.append(self._open)
        return self._open

    def _texts(self, kind: type[TextPart | ReasoningPart | RefusalPart]) -> Iterator[str]:
        for piece in self._pieces:
            if isinstance(piece, _Piece) and piece.kind is kind:
                yield from piece.texts


def text_of(part: object) -> str:
    """Return a text of the wire, empty for null.

    Raises:
        ModelServerError: it is no text.
    """
    if part is None or isinstance(part, str):
        return part or ""
    raise failed(ModelFailure.UNREADABLE, f"{type(part).__name__} where text belongs")


def pieces_of(content: Sequence[JsonValue]) -> Iterator[tuple[ModelStreamEventKind, str]]:
    """Yield the texts of content that is a list of parts, each with whether it is text or reasoning.

    Raises:
        ModelServerError: a part is none.
    """
    for part in content:
        if isinstance(part, str):
            yield _TOKEN, part
            continue
        if not isinstance(part, dict):
            raise failed(
                ModelFailure.UNREADABLE, f"{type(part).__name__} where a part of the content belongs"
            )
        if part.get("type") in ("thinking", "reasoning"):
            thought = part.get("thinking") or part.get("reasoning") or part.get("text")
            nested = thought if isinstance(thought, list) else [thought or ""]
            yield from ((_REASONING, text) for _, text in pieces_of(nested))
        elif text := text_of(part.get("text") or part.get("refusal")):
            yield _TOKEN, text


def media_in(content: Sequence[JsonValue]) -> Iterator[MediaPart]:
    """Yield the images in content that is a list of parts."""
    for part in content:
        found = object_or_empty(part).get("image_url")
        address = found if isinstance(found, str) else object_or_empty(found).get("url")
        if isinstance(address, str) and address.strip():
            yield _medium(whole_characters(address.strip()))


def _medium(address: str) -> MediaPart:
    if not address.startswith(_DATA):
        return MediaPart("image/*", url=address)
    kind, _, data = address.removeprefix(_DATA).partition(";base64,")
    return MediaPart(kind or "image/*", data=data) if data else MediaPart("image/*", url=address)
