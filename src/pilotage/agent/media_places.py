"""The media in values of any kind: messages, inputs, results of tools. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from pilotage.agent.messages import ContentPart, MediaPart, MessagePart, ModelMessage
from pilotage.jsonvalue import is_list, is_object

T = TypeVar("T")
_SCALARS = (str, bytes, int, float, type(None))


def media_within(value: object) -> Iterator[MediaPart]:
    """Yield the media parts in a value: in lists, tuples, mappings and dataclasses, each in its place."""
    known: Any = value
    if isinstance(value, MediaPart):
        yield value
    elif isinstance(value, _SCALARS):
        return
    elif isinstance(value, list | tuple):
        for each in known:
            yield from media_within(each)
    elif isinstance(value, dict):
        for each in known.values():
            yield from media_within(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from media_within(getattr(value, each.name))


def with_media(value: T, changed: Mapping[MediaPart, MediaPart]) -> T:
    """Return a value with other media parts in the places of its own; the same value where nothing changes."""
    made: T = _with(value, changed)
    return made


def _with(value: Any, changed: Mapping[MediaPart, MediaPart]) -> Any:
    if isinstance(value, MediaPart):
        return changed.get(value, value)
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, ModelMessage):
        return _message_with(value, changed)
    if type(value) is list or type(value) is tuple:
        given: Any = cast(object, value)
        made = [_with(each, changed) for each in given]
        if _are_same(made, given):
            return given
        return made if isinstance(value, list) else tuple(made)
    if type(value) is dict:
        given = cast(object, value)
        return {name: _with(each, changed) for name, each in given.items()}
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        new = {name: _with(each, changed) for name, each in own.items()}
        return value if _are_same(list(new.values()), list(own.values())) else replace(value, **new)
    return value


def _message_with(message: ModelMessage, changed: Mapping[MediaPart, MediaPart]) -> ModelMessage:
    """Return a message with other media; its parts in order follow from its content."""
    content: str | tuple[ContentPart, ...] = _with(message.content, changed)
    ordered: Sequence[MessagePart] | None = _with(message.ordered, changed)
    if content is message.content and ordered is message.ordered:
        return message
    return replace(message, content=content, ordered=ordered)


def _are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    return all(one is other for one, other in zip(first, second, strict=True))


_MEDIA_TYPE, _DIGEST = "media_type", "digest"
_OF_STORED = frozenset({_MEDIA_TYPE, "url", "data", "name", _DIGEST})
"""The members of a media part with a digest: an object that lacks one of them is something else."""


def digests_in(value: object) -> frozenset[str]:
    """Return the digests of the media in a JSON value."""
    if is_object(value):
        own: object = value.get(_DIGEST)
        found = frozenset({own}) if isinstance(own, str) and value.keys() >= _OF_STORED else frozenset[str]()
        return found.union(*[digests_in(each) for each in value.values()])
    return frozenset[str]().union(*[digests_in(each) for each in value]) if is_list(value) else frozenset()


def mentions_media(value: object) -> bool:
    """Return whether a JSON value may have media in it: an object with a `media_type`."""
    if value is None or isinstance(value, str | int | float):
        return False
    if is_object(value):
        return _MEDIA_TYPE in value or any(map(mentions_media, value.values()))
    return is_list(value) and any(map(mentions_media, value))
