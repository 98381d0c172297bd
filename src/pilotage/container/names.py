"""Names of pods and types, as they are written in code and messages."""

from __future__ import annotations

import re
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """Return `sample_agent` for `SampleAgent`, `http_server2` for `HTTPServer2`."""
    return _WORD_BOUNDARY.sub("_", name).lower()


def type_name(hint: object) -> str:
    """Return a type as it is written in code, without modules: `Repository[User]`, `BankPort | None`."""
    if hint is None or hint is NoneType:
        return "None"
    if hint is Ellipsis:
        return "..."
    origin = get_origin(hint)
    arguments: tuple[object, ...] = get_args(hint)
    if not arguments:
        return getattr(hint, "__name__", None) or repr(hint)
    if origin is Annotated:
        return type_name(arguments[0])
    names = [type_name(argument) for argument in arguments]
    if origin in {Union, UnionType}:
        return " | ".join(names)
    return f"{type_name(origin)}[{', '.join(names)}]"


def target_name(target: object) -> str:
    """Return a class or function by its own name, anything else by the name of its class."""
    name: object = getattr(target, "__name__", None)
    return name if isinstance(name, str) else type(target).__name__


def enumerate_names(names: list[str], conjunction: str = "and") -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"
