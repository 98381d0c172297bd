"""Parameters of a class or factory, read when it is decorated.

Types are not resolved here: they may be forward references.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from inspect import Parameter
from types import FunctionType
from typing import cast

from pilotage.container.names import target_name
from pilotage.errors import PodDefinitionError

Function = Callable[..., object]


class Making(StrEnum):
    """Ways to make a pod."""

    CALL = "call"
    AWAIT = "await"
    YIELD = "yield"
    ASYNC_YIELD = "async_yield"
    GIVEN = "given"

    @property
    def is_async(self) -> bool:
        return self is Making.AWAIT or self is Making.ASYNC_YIELD

    @property
    def has_cleanup(self) -> bool:
        return self is Making.YIELD or self is Making.ASYNC_YIELD


def making_of(target: object) -> Making:
    """Return how the target is made into a pod."""
    if inspect.isasyncgenfunction(target):
        return Making.ASYNC_YIELD
    if inspect.isgeneratorfunction(target):
        return Making.YIELD
    if inspect.iscoroutinefunction(target):
        return Making.AWAIT
    return Making.CALL


def is_factory(target: object) -> bool:
    """Return whether the target is a function rather than a class or an instance."""
    return isinstance(target, FunctionType)


def constructor_of(target: type) -> tuple[type, Function] | None:
    """Return the class that defines the constructor and the constructor, or None if it takes no parameter."""
    for owner in target.__mro__:
        for name in ("__init__", "__new__"):
            function: object = vars(owner).get(name)
            function = getattr(function, "__func__", function)
            # Protocol adds a constructor of its own to every protocol, which has no parameters of the pod.
            if isinstance(function, FunctionType) and function.__module__ != "typing":
                return owner, function
    return None


def where(target: object) -> str:
    """Return the signature's name for messages: `Refunds.__init__`, `make_bank`."""
    if not isinstance(target, type):
        return target_name(target)
    found = constructor_of(target)
    return f"{target.__name__}.{found[1].__name__}" if found else target.__name__


def read_parameters(target: object) -> tuple[Parameter, ...]:
    """Return the parameters to inject; refuses those that can never be injected."""
    if isinstance(target, type):
        found = constructor_of(target)
        parameters = _parameters(found[1])[1:] if found else ()
    else:
        parameters = _parameters(cast("Function", target))
        if parameters and parameters[0].name in {"self", "cls"}:
            method = cast("FunctionType", target).__qualname__.rpartition("<locals>.")[-1]
            raise PodDefinitionError(
                f"{method}: a method cannot be a pod. "
                "Decorate its class, or move it out of the class as a factory function."
            )
    for parameter in parameters:
        _refuse_uninjectable(where(target), parameter)
    return parameters


def require_return_type(factory: object) -> None:
    """Refuse a factory that does not say what it provides."""
    name, annotations = target_name(factory), cast("FunctionType", factory).__annotations__
    if annotations.get("return") in (None, "None"):
        problem = "returns None" if "return" in annotations else "has no return type"
        raise PodDefinitionError(
            f"{name}: the factory {problem}. Write the type it provides: def {name}(...) -> SomeType."
        )


def _parameters(function: Function) -> tuple[Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def _refuse_uninjectable(owner: str, parameter: Parameter) -> None:
    name = parameter.name
    if parameter.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
        stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
        raise PodDefinitionError(
            f"{owner}: {stars}{name} cannot be injected. Name each parameter and give it a type "
            "(list[T] gets all pods of a type), or make the pod in a factory function."
        )
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise PodDefinitionError(
            f"{owner}: parameter {name!r} is positional-only. Remove the '/' from the signature."
        )
    if parameter.annotation is Parameter.empty:
        raise PodDefinitionError(
            f"{owner}: parameter {name!r} has no type. "
            f"Write the type of the pod it needs, for example {name}: {name.title().replace('_', '')}."
        )
