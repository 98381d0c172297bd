"""The contract of `execute()`: its parameters, the shape of its result, the type of its output.

Pure. Read once when a class becomes an agent; every error names the class and what to write instead.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import field
from enum import StrEnum
from inspect import Parameter
from types import FunctionType, MappingProxyType, NoneType
from typing import get_args, get_origin

from pilotage.agent.yields import AgentYield
from pilotage.annotations import UnresolvedAnnotationError, resolve_signature
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_GENERATORS: Mapping[object, str] = {AsyncGenerator: "AsyncGenerator", Generator: "Generator"}
_STREAMS = frozenset({AsyncIterator, AsyncIterable, Iterator, Iterable})


class ExecuteShape(StrEnum):
    """The shape of the result of `execute()`."""

    ASYNC_GENERATOR = "async_generator"
    GENERATOR = "generator"
    COROUTINE = "coroutine"
    FUNCTION = "function"


@value
class ExecuteContract:
    """The business entry point of an agent as its signature states it."""

    shape: ExecuteShape
    parameters: Mapping[str, object]
    output_type: object
    required: tuple[str, ...] = field(default=(), compare=False)


def read_execute(owner: type) -> ExecuteContract | None:
    """Return the contract of the class's `execute()`, or None where it has no such method.

    Raises:
        AgentDefinitionError: the method cannot be an agent's entry point.
    """
    found = inspect.getattr_static(owner, "execute", None)
    if found is None:
        return None
    name = f"{owner.__name__}.execute"
    function = _require_method(name, found)
    parameters = list(inspect.signature(function).parameters.values())
    _check_parameters(name, parameters)
    hints = resolve_hints(name, function)
    if "return" not in hints:
        raise AgentDefinitionError(
            f"{name} has no return type. Write what it gives: "
            "AsyncGenerator[AgentYield[Answer], None] for a stream, or the answer's own type."
        )
    returned = hints.pop("return")
    shape, output = read_return(name, function, returned)
    required = tuple(each.name for each in parameters[1:] if each.default is Parameter.empty)
    return ExecuteContract(shape, MappingProxyType(hints), output, required)


def _require_method(name: str, found: object) -> FunctionType:
    if not isinstance(found, FunctionType):
        raise AgentDefinitionError(
            f"{name} is a {type(found).__name__}. Write a plain method: def execute(self, ...)."
        )
    return found


def _check_parameters(name: str, parameters: list[Parameter]) -> None:
    if not parameters or parameters[0].name != "self":
        first = f"{parameters[0].name!r}" if parameters else "missing"
        raise AgentDefinitionError(
            f"{name}: the first parameter is {first}. Write a plain method: def execute(self, ...)."
        )
    for parameter in parameters[1:]:
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise AgentDefinitionError(
                f"{name}: parameter {parameter.name!r} is positional-only. Remove the '/' from the signature."
            )
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
            raise AgentDefinitionError(
                f"{name}: {stars}{parameter.name} leaves the input open. Name each parameter and give it a type."
            )
        if parameter.annotation is Parameter.empty:
            raise AgentDefinitionError(
                f"{name}: parameter {parameter.name!r} has no type. Write one, for example {parameter.name}: str."
            )


def resolve_hints(name: str, function: FunctionType) -> dict[str, object]:
    """Return the types in the signature of a method.

    Raises:
        AgentDefinitionError: one of them cannot be resolved.
    """
    try:
        return resolve_signature(function)
    except UnresolvedAnnotationError as error:
        raise AgentDefinitionError(
            f"{name}: a type cannot be resolved: {error.reason}. Define or import it above the class, at the top level "
            "of the module and not under TYPE_CHECKING."
        ) from error


def read_return(name: str, function: FunctionType, returned: object) -> tuple[ExecuteShape, object]:
    """Return how a method gives what it gives, and the type of that, by its return type.

    Raises:
        AgentDefinitionError: the two do not fit together.
    """
    origin = get_origin(returned) or returned
    if origin in _GENERATORS:
        return _read_generator(name, _GENERATORS[origin], get_args(returned))
    if origin in _STREAMS and inspect.isasyncgenfunction(function):
        return ExecuteShape.ASYNC_GENERATOR, _output_of(name, type_name(origin), get_args(returned))
    if origin in _STREAMS and inspect.isgeneratorfunction(function):
        return ExecuteShape.GENERATOR, _output_of(name, type_name(origin), get_args(returned))
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        kind = "AsyncGenerator" if inspect.isasyncgenfunction(function) else "Generator"
        raise AgentDefinitionError(
            f"{name} yields, but its return type is {type_name(returned)}. "
            f"Write {_example(kind, type_name(returned))}."
        )
    is_async = inspect.iscoroutinefunction(function)
    return (ExecuteShape.COROUTINE if is_async else ExecuteShape.FUNCTION), returned


def _read_generator(name: str, kind: str, arguments: tuple[object, ...]) -> tuple[ExecuteShape, object]:
    output = _output_of(name, kind, arguments)
    if len(arguments) < 2 or not _is_none(arguments[1]):
        sent = f"has the send type {type_name(arguments[1])}" if len(arguments) > 1 else "has no send type"
        raise AgentDefinitionError(
            f"{name}: its {kind} {sent}; nothing is ever sent to it. Write {_example(kind, type_name(output))}."
        )
    if len(arguments) > 2 and not _is_none(arguments[2]):
        raise AgentDefinitionError(
            f"{name}: its {kind} returns {type_name(arguments[2])}, which no caller would get. "
            f"Yield a Final and write {_example(kind, type_name(output))}."
        )
    shape = ExecuteShape.ASYNC_GENERATOR if kind == "AsyncGenerator" else ExecuteShape.GENERATOR
    return shape, output


def _output_of(name: str, kind: str, arguments: tuple[object, ...]) -> object:
    """`T` of `AgentYield[T]`, the first argument of the generator type."""
    item = arguments[0] if arguments else None
    if (get_origin(item) or item) is not AgentYield:
        got = f"yields {type_name(item)}" if arguments else "does not say what it yields"
        kind = kind if kind in _GENERATORS.values() else "AsyncGenerator"
        raise AgentDefinitionError(f"{name}: its {kind} {got}. Write {_example(kind, 'Answer')}.")
    results: tuple[object, ...] = get_args(item) or (object,)
    return results[0]


def _is_none(argument: object) -> bool:
    """Return whether a type argument is None: `collections.abc` holds None itself, `typing` its type."""
    return argument is None or argument is NoneType


def _example(kind: str, output: str) -> str:
    send_and_return = "None" if kind == "AsyncGenerator" else "None, None"
    return f"{kind}[AgentYield[{output}], {send_and_return}]"
