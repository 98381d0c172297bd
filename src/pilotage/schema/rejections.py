"""Reasons why a type cannot be a tool's argument or result, each with the remedy."""

from __future__ import annotations

import collections.abc
import io
import typing
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin


class Rejection(NamedTuple):
    """The problem of a type, as the rest of a sentence, and the remedy."""

    what: str
    remedy: str

    def about(self, subject: str) -> str:
        return f"{subject} {self.what}. {self.remedy}"


_ARBITRARY = "Write the type it has; for arbitrary JSON write pilotage.jsonvalue.JsonValue."
_RECORD = "Write dict[str, str], a TypedDict, a dataclass or a pydantic model."
_PLAIN_CLASS = "Write a dataclass, a TypedDict or a pydantic model."
_FILE = "Take a name as str and open the file inside the tool."
_DATA = "JSON holds data: take a name or a Literal."
_FINISHED = "Write list[...] and hand over the finished list."

_BARE: dict[type, str] = {
    list: "Write list[str], or a list of dataclasses.",
    tuple: "Write tuple[str, ...], or tuple[str, int].",
    set: "Write set[str].",
    frozenset: "Write frozenset[str].",
    dict: _RECORD,
    collections.abc.Sequence: "Write Sequence[str].",
    collections.abc.Set: "Write Set[str].",
    collections.abc.Mapping: "Write Mapping[str, str], a TypedDict, a dataclass or a pydantic model.",
}
_STREAMS = (
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.Iterable,
)
_FILES = (typing.IO, typing.TextIO, typing.BinaryIO)
_BINARY = (bytes, bytearray, memoryview)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


def reject_keys(key: object) -> Rejection:
    return Rejection(f"has keys of type {spelling(key)}", "JSON keys are text: write dict[str, ...].")


def reject_unresolved(reason: str) -> Rejection:
    return Rejection(
        f"has an annotation that cannot be resolved: {reason}",
        "Define or import every name it uses at the top level of the module.",
    )


def reject_by_pydantic(reason: str) -> Rejection:
    return Rejection(f"has no schema in pydantic: {reason}", "Write a type that has one.")


def reject_constraint(constraint: str, annotation: object) -> Rejection:
    return Rejection(
        f"has the limit {constraint!r}, which means nothing for {spelling(annotation)}",
        "Move the limit to the type it is about, or remove it.",
    )


def reject_same_name(name: str) -> Rejection:
    return Rejection(f"uses two recursive types that are both called {name}", "Rename one of them.")


def reject_endless() -> Rejection:
    return Rejection("nests without end", "Let it contain itself unchanged.")


def reject_hidden_parameter(annotation: object, parameter: str) -> Rejection:
    return Rejection(
        f"is {spelling(annotation)}, whose constructor needs {parameter!r}, which is no field",
        "Make it a field, or give it a default.",
    )


def reject_masked() -> Rejection:
    return Rejection(
        "holds a value that pydantic masks when it is written, such as SecretStr, so it cannot be read back",
        "Write str, and mark it: Annotated[str, SecretField()].",
    )


def reject_for(annotation: object) -> Rejection:
    """Return the reason to refuse a type that has no shape."""
    for question, rejection in _REASONS:
        if question(annotation):
            return rejection(annotation)
    return Rejection(f"is {spelling(annotation)}, a plain class", _PLAIN_CLASS)


def spelling(annotation: object) -> str:
    """Return a type as it is written in a program."""
    if get_origin(annotation) is Annotated:
        return f"Annotated[{spelling(get_args(annotation)[0])}, ...]"
    if isinstance(annotation, TypeVar):
        return annotation.__name__
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__qualname__.rpartition("<locals>.")[2]
    return str(annotation).replace("typing.", "").replace("collections.abc.", "")


def _is_one_of(*kinds: object) -> Callable[[object], bool]:
    return lambda annotation: (get_origin(annotation) or annotation) in kinds


def _is_file(annotation: object) -> bool:
    kind = get_origin(annotation) or annotation
    return kind in _FILES or (isinstance(kind, type) and issubclass(kind, io.IOBase))


def _is_path(annotation: object) -> bool:
    return isinstance(annotation, type) and hasattr(annotation, "__fspath__")


def _is_bare(annotation: object) -> bool:
    return (get_origin(annotation) or annotation) in _BARE


def _bare(annotation: object) -> Rejection:
    kind: Any = get_origin(annotation) or annotation
    return Rejection(f"is untyped ({kind.__name__})", _BARE[kind])


def _naming(what: str, remedy: str) -> Callable[[object], Rejection]:
    return lambda annotation: Rejection(what.format(spelling(annotation)), remedy)


_REASONS: tuple[tuple[Callable[[object], bool], Callable[[object], Rejection]], ...] = (
    (_is_one_of(Any, object), _naming("is {}", _ARBITRARY)),
    (_is_bare, _bare),
    (_is_one_of(*_STREAMS), _naming("is a stream ({})", _FINISHED)),
    (_is_one_of(*_AWAITABLES), _naming("is an awaitable ({})", "Write the type of what is awaited.")),
    (
        _is_one_of(collections.abc.Callable),
        _naming("is a callable", _DATA),
    ),
    (_is_file, _naming("is a file ({})", _FILE)),
    (_is_path, _naming("is {}", "Take it as str and make the path inside the tool.")),
    (_is_one_of(*_BINARY), _naming("is {}", "JSON has no bytes: write str, and encode them as base64.")),
    (_is_one_of(type), _naming("is a class ({})", _DATA)),
    (lambda a: isinstance(a, TypeVar), _naming("is the type variable {}", "Write a concrete type.")),
)
